"""Read and write weight files safely: safetensors, and .pth files with weights_only=True."""

import errno
import os
import pickle
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from utils.errors import UserError
from utils.model.eight_bit import from_eight_bit

State = dict[str, Tensor]

GPT_PREFIX = "gpt."
DECODER_PREFIX = "hifigan_decoder."
SPEAKER_PREFIX = f"{DECODER_PREFIX}speaker_encoder."

PART_BYTES = 2**28
"""Of a file that are loaded at a time."""

_OS_ERROR = re.compile(r"os error (\d+)")


def read_weights(path: Path) -> State:
    """Tensors of a weight file by name, on the CPU; what is stored in 8 bits as float16.

    Args:
        path: .safetensors, or .pth holding a dict of tensors, bare or under "model".

    Raises:
        UserError: missing, damaged, or a pickle that holds anything but tensors and plain values.
    """
    with _readable(path):
        if path.suffix == ".safetensors":
            return from_eight_bit(load_file(path))
        return _tensors(_read_pickle(path), path)


def read_metadata(path: Path) -> dict[str, str]:
    """What the header of a safetensors file says beside its tensors.

    Raises:
        UserError: missing, damaged, or another kind of file.
    """
    with _readable(path), safe_open(path, framework="pt") as file:
        return dict(file.metadata() or {})


def read_pickle(path: Path) -> Any:
    """Tensors and plain values of a .pth file, as they were put in.

    Raises:
        UserError: missing, damaged, or a pickle that holds anything else.
    """
    with _readable(path):
        return _read_pickle(path)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what can go wrong in reading weights into words for people."""
    try:
        yield
    except (OSError, SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise UserError(
            what=f"the weights cannot be read: {reason}",
            where=str(path),
            fix="the file is missing, damaged, or holds code instead of weights: download or make it again",
        ) from error


def write_weights(path: Path, state: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write tensors as safetensors; strided ones are written contiguous.

    Raises:
        OSError: the disk is full or not writable.
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    # The library's files can be read by their owner alone; a server under another user reads what the system lets it.
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(tensors, path, metadata)
        path.chmod(mode)
    except SafetensorError as error:
        # The library reports errors of the disk by message only.
        found = _OS_ERROR.search(str(error))
        if found is None:
            raise
        raise OSError(int(found[1]), os.strerror(int(found[1])), str(path)) from error


def write_pickle(path: Path, content: object) -> None:
    """Write a .pth file that stock software reads.

    Raises:
        OSError: the disk is full or not writable.
    """
    try:
        torch.save(content, path)
    except RuntimeError as error:
        # torch's own writer notices a short write and calls it an unexpected position.
        if "inline_container" not in str(error):
            raise
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error


def load_in_parts(
    module: nn.Module,
    read: Callable[[], State],
    check: Callable[[State], None],
) -> None:
    """Give a module all weights that `read` gives, holding little of the file at a time.

    What was read of a mapped file counts as this process' memory until the mapping goes. A large file is therefore read
    again after each `PART_BYTES`: a model as large would otherwise need its memory twice.

    Args:
        module: all names and sizes are its own.
        read: gives the same tensors each time.
        check: raises where they are not the module's.
    """
    state = read()
    check(state)
    rest = {name: tensor.nbytes for name, tensor in state.items()}
    while rest:
        names, size = [], 0
        while rest and size < PART_BYTES:
            names.append(next(iter(rest)))
            size += rest.pop(names[-1])
        module.load_state_dict({name: state[name] for name in names}, strict=False)
        if rest:
            del state
            state = read()


_DRAWS = (Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_)


class NoRandomWeights(TorchFunctionMode):
    """Build modules whose weights are loaded next: drawing those of 441 M parameters first takes seconds.

    Not on the meta device, where `normal_` and `to_empty` load PyTorch's compiler and sympy, for a second or two.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """All but the draws as without it; what would have been drawn stays as it lies in memory."""
        if func in _DRAWS:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def load_strictly(module: nn.Module, source: State | Callable[[], State], *, where: str) -> None:
    """Load strictly, naming the first tensor that is missing, left over or of another size."""
    read = source if callable(source) else partial(dict, source)
    load_in_parts(module, read, partial(_require_fitting, module, where))


def _require_fitting(module: nn.Module, where: str, state: State) -> None:
    own = module.state_dict()
    missing, extra = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    if missing or extra:
        raise UserError(
            what=f"the weights do not belong to this model: missing {missing[:3]}, unknown {extra[:3]}", where=where
        )
    for name, tensor in own.items():
        if tensor.shape != state[name].shape:
            raise UserError(
                what=f"{name} has {tuple(state[name].shape)} in the weights, {tuple(tensor.shape)} by the settings",
                where=where,
                fix="use the vocab.json and config.json that belong to these weights",
            )


def part(state: Mapping[str, Tensor], prefix: str) -> State:
    """The tensors below `prefix`, with the prefix taken off."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


def _read_pickle(path: Path) -> object:
    with _xtts_config_classes():
        # mmap: a 2 GB checkpoint whose decoder is not needed is then never read in full.
        # Files of torch before 1.6 are no ZIP archives and cannot be mapped.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))


@contextmanager
def _xtts_config_classes() -> Iterator[None]:
    """Allow the plain settings classes that the published XTTS v2 model.pth carries beside its tensors.

    Those classes moved since: the file names them under TTS.tts.models.xtts (coqui-tts, Xtts._load_checkpoint).
    """
    from TTS.config.shared_configs import BaseDatasetConfig
    from TTS.tts.configs.xtts_config import XttsArgs, XttsAudioConfig, XttsConfig

    legacy = "TTS.tts.models.xtts"
    named = [(XttsArgs, f"{legacy}.XttsArgs"), (XttsAudioConfig, f"{legacy}.XttsAudioConfig")]
    with torch.serialization.safe_globals([XttsArgs, XttsAudioConfig, XttsConfig, BaseDatasetConfig, *named]):
        yield


def _tensors(content: object, path: Path) -> State:
    inner = content.get("model", content) if isinstance(content, dict) else content
    if isinstance(inner, Tensor):
        return {path.stem: inner}
    if not isinstance(inner, dict):
        raise ValueError(f"holds a {type(inner).__name__} instead of named tensors")
    return {name: value for name, value in inner.items() if isinstance(value, Tensor)}
