"""Checkpoints of a model that no run trains, and whether weights are the same."""

import errno
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from utils.model.lora import merged_state
from utils.runs import checkpoints as module
from utils.runs.checkpoints import Checkpoints
from utils.runs.layout import MODEL_FILE
from utils.training.checkpointing import files_of


def save_last(
    checkpoints: Checkpoints, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]
) -> Path:
    """A checkpoint to resume from."""
    return checkpoints.write_last(step, files_of(model, optimizer), state)


def save_best(checkpoints: Checkpoints, step: int, model: nn.Module, state: dict[str, Any]) -> Path:
    """A best checkpoint alone, without the last one that it is a copy of."""
    elsewhere = Checkpoints(checkpoints.run / "elsewhere")
    best = checkpoints.link_best(elsewhere.write_last(step, {MODEL_FILE: merged_state(model)}, state))
    shutil.rmtree(elsewhere.run)
    return best


def same(mine: Mapping[str, torch.Tensor], theirs: Mapping[str, torch.Tensor]) -> bool:
    """Whether both hold the same tensors under the same names."""
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in theirs)


class Disk:
    """Fails as a real one does, in the middle of a file, while it has an error; or only `once`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: OSError | None = None
        self.once, real = False, module.write_weights

        def write(path: Path, state: Any) -> Any:
            if error := self.error:
                self.error = None if self.once else error
                path.write_bytes(b"the beginning")
                raise error
            return real(path, state)

        monkeypatch.setattr(module, "write_weights", write)

    def fill(self, is_full: bool = True) -> None:
        self.error = OSError(errno.ENOSPC, "No space left on device") if is_full else None
