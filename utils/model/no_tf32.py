"""Exact float32 products where training or the caller allows TF32, and torch's settings restored afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

REDUCED = ("tf32", "bf16")
"""Precisions below float32 that float32 products may be computed in."""


@contextmanager
def exact_float32() -> Iterator[None]:
    """Keep TF32 and bf16 out of float32 products and convolutions inside the block.

    The settings are the process's: two threads must not be inside at once.
    """
    with kept_float32():
        torch.set_float32_matmul_precision("highest")
        _drop_reduced()
        yield


@contextmanager
def kept_float32() -> Iterator[None]:
    """Whatever is set of float32 products inside, by torch's older names or its newer ones, is afterwards as it was.

    The older names (`set_float32_matmul_precision`, `allow_tf32`) cannot simply be read: where a caller has written
    newer ones (`fp32_precision`) that they do not agree with, torch 2.11 raises. Writing them never does.
    """
    kept = [(place, _own(place)) for place in _places()]
    _drop_reduced()
    # All older values agree with this.
    older = torch.get_float32_matmul_precision()
    _restore(kept)
    try:
        yield
    finally:
        # First: it writes some of the newer ones.
        torch.set_float32_matmul_precision(older)
        _restore(kept)


def _drop_reduced() -> None:
    for place in _places():
        if place.fp32_precision in REDUCED:
            place.fp32_precision = "ieee"


def _restore(kept: list[tuple[Any, str]]) -> None:
    for place, own in kept:
        place.fp32_precision = own


def _places() -> tuple[Any, ...]:
    """What has a precision of its own, cuDNN's convolutions and recurrent layers both: torch wants them alike."""
    backends: Any = torch.backends
    cudnn, mkldnn = backends.cudnn, backends.mkldnn
    return (backends.cuda.matmul, cudnn.conv, cudnn.rnn, mkldnn.matmul, mkldnn.conv, mkldnn.rnn)


def _own(place: Any) -> str:
    """What a place was set to; none where it follows `torch.backends.fp32_precision` or cuDNN's.

    Torch gives the value in force. Written back as the place's own, it would no longer follow.
    """
    backends: Any = torch.backends
    if place.fp32_precision == "none":
        return "none"
    above = [backends] if _follows(backends.cudnn, backends) else [backends, backends.cudnn]
    own: str = "none" if any(_follows(place, setting) for setting in above) else place.fp32_precision
    return own


def _follows(place: Any, above: Any) -> bool:
    """Whether a place changes with a setting; found by changing it for a moment."""
    before, kept = place.fp32_precision, above.fp32_precision
    above.fp32_precision = "tf32" if kept == "ieee" else "ieee"
    try:
        return bool(place.fp32_precision != before)
    finally:
        above.fp32_precision = kept
