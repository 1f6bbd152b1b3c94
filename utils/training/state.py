"""Checkpoints: written aside, synced, renamed, and marked complete, so that a kill never leaves a half-written one.

checkpoints/step-00000012/ holds model.safetensors (the GPT), optimizer.safetensors, state.json and complete.json;
checkpoints/best-00000012/ holds the weights only, of the step with the lowest evaluation loss.
"""

import errno
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from utils.errors import UserError
from utils.model.lora import adapter_state, has_lora, load_adapter, merged_state
from utils.model.weights import State, read_weights, write_weights
from utils.runs import is_complete

log = logging.getLogger(__name__)

MODEL_FILE = "model.safetensors"
ADAPTER_FILE = "adapter.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"
STATE_FILE = "state.json"
COMPLETE_FILE = "complete.json"
LAST, BEST = "step-", "best-"
ASIDE = ".writing-"


class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: the run's checkpoints/ folder; created when absent.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def save_last(self, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> Path:
        """Keep everything a run needs to go on; the previous one is removed after this one is complete.

        Args:
            step: optimizer steps done.
            model: the GPT.
            optimizer: whose moments belong to the model's parameters.
            state: JSON values: where the run is.

        Raises:
            UserError: the disk is full; the previous checkpoint stays.
        """

        def fill(folder: Path) -> None:
            _write_model(folder, model)
            write_weights(folder / OPTIMIZER_FILE, optimizer_tensors(model, optimizer))
            (folder / STATE_FILE).write_text(json.dumps({**state, "step": step}), encoding="utf-8")

        return self._publish(LAST, step, fill)

    def save_best(self, step: int, model: nn.Module, state: dict[str, Any]) -> Path:
        """Keep the weights of the best step so far; the former best is removed after.

        Raises:
            UserError: the disk is full; the former best stays.
        """

        def fill(folder: Path) -> None:
            write_weights(folder / MODEL_FILE, merged_state(model))
            (folder / STATE_FILE).write_text(json.dumps({**state, "step": step}), encoding="utf-8")

        return self._publish(BEST, step, fill)

    def last(self) -> Path | None:
        """The newest complete checkpoint to go on from."""
        return self._newest(LAST)

    def best(self) -> Path | None:
        """The complete checkpoint with the lowest evaluation loss."""
        return self._newest(BEST)

    def _newest(self, prefix: str) -> Path | None:
        # A kill between removing a step's former folder and renaming the new one leaves the new one, complete, aside.
        found = [*self.folder.glob(f"{prefix}*"), *self.folder.glob(f"{ASIDE}{prefix}*")]
        newest_first = sorted(found, key=lambda folder: folder.name.removeprefix(ASIDE), reverse=True)
        return next((folder for folder in newest_first if is_complete(folder)), None)

    def _publish(self, prefix: str, step: int, fill: Callable[[Path], None]) -> Path:
        aside, final = self.folder / f"{ASIDE}{prefix}{step:08d}", self.folder / f"{prefix}{step:08d}"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        try:
            fill(aside)
            _mark_complete(aside)
        except OSError as error:
            shutil.rmtree(aside, ignore_errors=True)
            if error.errno != errno.ENOSPC:
                raise
            raise UserError(
                what=f"the disk is full: the checkpoint of step {step} was not written; earlier ones are kept",
                where=str(self.folder),
                fix="free some space, then train again",
            ) from error
        shutil.rmtree(final, ignore_errors=True)
        aside.rename(final)
        _sync(self.folder)
        for old in self.folder.glob(f"{prefix}*"):
            if old != final:
                shutil.rmtree(old)
        return final


def load_checkpoint(folder: Path) -> State:
    """The GPT weights of a checkpoint, checked against its marks.

    Raises:
        UserError: incomplete, or changed since it was written.
    """
    if not is_complete(folder):
        raise UserError(what="this is not a complete checkpoint", where=str(folder), fix="name another checkpoint")
    return _read_marked(folder / MODEL_FILE)


def restore_model(folder: Path, model: nn.Module) -> None:
    """Give the model a checkpoint's weights; of one with LoRA, whose other weights are the base's, the additions.

    Raises:
        UserError: incomplete, or changed since it was written.
    """
    weights = load_checkpoint(folder)
    if has_lora(model):
        load_adapter(model, _read_marked(folder / ADAPTER_FILE))
    else:
        model.load_state_dict(weights)


def read_state(folder: Path) -> dict[str, Any]:
    """Where the run was at this checkpoint."""
    state: dict[str, Any] = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
    return state


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's tensors under `parameter/key` names: the order of parameter groups then does not matter."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {
        f"{names[id(parameter)]}/{key}": value
        for parameter, values in optimizer.state.items()
        for key, value in values.items()
        if isinstance(value, Tensor)
    }


def load_optimizer(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Give each parameter its moments back, in place.

    Raises:
        UserError: the file is missing or damaged.
    """
    parameters = dict(model.named_parameters())
    for key, tensor in _read_marked(folder / OPTIMIZER_FILE).items():
        name, field = key.rsplit("/", 1)
        parameter = parameters[name]
        optimizer.state[parameter][field] = tensor.to(parameter.device)


def _write_model(folder: Path, model: nn.Module) -> None:
    """The model as it speaks, and what LoRA needs to go on."""
    write_weights(folder / MODEL_FILE, merged_state(model))
    if additions := adapter_state(model):
        write_weights(folder / ADAPTER_FILE, additions)


def _read_marked(file: Path) -> State:
    """Tensors of a checkpoint's file, if it is what was written."""
    marks = json.loads((file.parent / COMPLETE_FILE).read_text(encoding="utf-8"))
    if _sha256(file) != marks[file.name]["sha256"]:
        raise UserError(what=f"the checkpoint's {file.name} is damaged", where=str(file), fix="name another checkpoint")
    return read_weights(file)


def _mark_complete(folder: Path) -> None:
    """Sync every file, then write their sizes and hashes as the last one."""
    marks = {}
    for file in sorted(folder.iterdir()):
        _sync(file)
        marks[file.name] = {"size": file.stat().st_size, "sha256": _sha256(file)}
    (folder / COMPLETE_FILE).write_text(json.dumps(marks), encoding="utf-8")
    _sync(folder / COMPLETE_FILE)
    _sync(folder)


def _sync(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return  # Windows has no handle for folders.
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
