"""Weights stored with 8 bits each, as in the starter base, and read back as float16.

Shapes: N values of a tensor, G = ceil(N / 64) groups of it.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

GROUP = 64
"""Values that share a scale, in the tensor's own order."""
LEAST = 4_096
"""Smaller tensors stay as they are: norms, biases and statistics, which are a hundredth of a model."""
_VALUES, _SCALES = ".int8", ".scales"
"""What a stored tensor's name ends with: int8 values in its own shape, and float16 [G]."""


def to_eight_bit(state: Mapping[str, Tensor], *, exact: Callable[[str], bool]) -> dict[str, Tensor]:
    """Tensors to write: large floating point ones as int8 values and a scale for each group, the others as given.

    Args:
        state: by name.
        exact: names of tensors to leave as they are.
    """
    stored: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if exact(name) or not tensor.is_floating_point() or tensor.numel() < LEAST:
            stored[name] = tensor
            continue
        groups = _grouped(tensor)
        scales = (groups.abs().amax(dim=1) / 127).half()
        # Against the scale as it is stored: its own rounding is then no error of the values.
        values = (groups / scales.float().clamp(min=1e-12)[:, None]).round().clamp(-127, 127).to(torch.int8)
        stored[name + _VALUES] = values.flatten()[: tensor.numel()].view(tensor.shape)
        stored[name + _SCALES] = scales
    return stored


def from_eight_bit(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a file, those that `to_eight_bit` stored in float16.

    Raises:
        ValueError: values without their scales, or of another number of groups.
    """
    state: dict[str, Tensor] = {}
    for name, tensor in stored.items():
        if name.endswith(_SCALES) and name.removesuffix(_SCALES) + _VALUES in stored:
            continue
        if not name.endswith(_VALUES):
            state[name] = tensor
            continue
        scales, groups = stored.get(name.removesuffix(_VALUES) + _SCALES), _grouped(tensor)
        if scales is None or scales.shape != groups.shape[:1]:
            raise ValueError(f"{name} has no scales that fit")
        values = (groups * scales.float()[:, None]).to(scales.dtype)
        state[name.removesuffix(_VALUES)] = values.flatten()[: tensor.numel()].view(tensor.shape)
    return state


def _grouped(tensor: Tensor) -> Tensor:
    """[G, 64] float32; the last group is filled up with zeros."""
    flat = tensor.flatten().float()
    return torch.nn.functional.pad(flat, (0, -len(flat) % GROUP)).view(-1, GROUP)
