"""A step of the decode engine on a GPU, counted with fake tensors: how many kernels, and nothing that waits."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from utils.inference.decode import Decoder
from utils.model.gpt import XttsGpt
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
VIEWS = {
    "unbind",
    "view",
    "view_as",
    "slice",
    "select",
    "unsqueeze",
    "permute",
    "transpose",
    "reshape",
    "split",
    "expand",
}


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
        if namespace == "aten" and name not in VIEWS and is_new:
            self.kernels[name] += 1
        return out


@pytest.mark.parametrize("is_greedy", [True, False])
@pytest.mark.parametrize(("precision", "most"), [("fp32", 420), ("bf16", 480)])
def test_a_code_of_eight_sentences_takes_few_kernels_and_waits_for_nothing(precision, most, is_greedy):
    with FakeTensorMode(), torch.device("cuda"):
        decoder = Decoder(XttsGpt(FULL).eval().requires_grad_(False), slots=8, precision=precision)
        with torch.inference_mode(), Launches() as launches:
            decoder._advance(8, decoder._attend_masked(8, 256), is_greedy)
    assert launches.waits == []
    assert launches.kernels["scaled_dot_product_attention"] == FULL.layers
    assert launches.kernels["linear"] == 4 * FULL.layers + 1
    assert launches.kernels.total() <= most, launches.kernels


def test_a_value_of_the_host_would_be_seen():
    with FakeTensorMode(), torch.device("cuda"), torch.inference_mode(), Launches() as launches:
        seen = torch.zeros(8, 4, dtype=torch.bool)
        seen[torch.arange(8), torch.zeros(8, dtype=torch.long)] = True
    assert launches.waits
