"""Counts, with fake tensors, the kernels that operations would start on a GPU, and what would wait for one."""

from collections import Counter
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from utils.model.shapes import GptShape

FULL = GptShape(
    layers=30,
    width=1024,
    heads=16,
    text_rows=6681,
    audio_rows=1026,
    start_text=261,
    stop_text=0,
    start_audio=1024,
    stop_audio=1025,
    max_text_tokens=402,
    max_audio_tokens=605,
)
"""XTTS v2."""
NO_KERNEL = {
    "_unsafe_view",
    "alias",
    "as_strided",
    "detach",
    "empty",
    "empty_like",
    "expand",
    "new_empty",
    "new_empty_strided",
    "permute",
    "reshape",
    "select",
    "slice",
    "split",
    "split_with_sizes",
    "squeeze",
    "t",
    "transpose",
    "unbind",
    "unsqueeze",
    "view",
    "view_as",
}
OURS = ("aten", "torch_attn")
"""Namespaces of the operations that a GPU is asked to do."""


class Launches(TorchDispatchMode):
    """Counts operations that start a kernel, and those that have the host and the device wait for one another."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: Counter[str] = Counter()
        self.waits: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        namespace, name = str(function).split(".")[:2]
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        made = [one for one in tree_leaves(out) if isinstance(one, Tensor)]
        if len({one.device.type for one in given + made}) > 1 or name in {
            "_local_scalar_dense",
            "nonzero",
            "lift_fresh",
        }:
            self.waits.append(name)
        # A conversion to the type that it has already gives the tensor itself.
        is_new = any(all(one is not other for other in given) for one in made) or name.endswith("_")
        if namespace in OURS and name not in NO_KERNEL and is_new:
            self.kernels[name] += 1
        return out
