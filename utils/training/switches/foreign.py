"""The switches on a model that is not ours: stock coqui-tts' `Xtts` or its GPT, a Hugging Face model, or any module.

Repeated blocks are recomputed, Hugging Face parts take SDPA, and products run in half precision while the model
trains. Nothing is wrapped, so that the weights keep their names: the `forward` of single modules is replaced.
"""

import functools
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Variable
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from utils.console import say
from utils.runs.narration import proof_lines
from utils.switches import SWITCHES
from utils.training.switches.base import Report, Seen, Switches, behavior_of, state_of
from utils.training.switches.optim import DTYPES
from utils.training.switches.record import EXPLICIT, KERNELS, SLOW

UNSEEN = "no training step has been observed yet"
_ATTENTION = {name.partition(".")[0]: kernel for name, kernel in KERNELS.items()} | {
    "aten::_softmax": EXPLICIT,
    "aten::_safe_softmax": EXPLICIT,
}
_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")
log = logging.getLogger(__name__)


class ForeignModel(TorchDispatchMode):
    """A model under the switches; as a dispatch mode it notes the operations of each block's first training pass.

    Args:
        model: on its device; changed in place.
        switches: what the user wants, and what this device can do of that.
    """

    def __init__(self, model: nn.Module, switches: Switches) -> None:
        super().__init__()
        self._asked, self._reported, self._is_done = switches.asked, set[str](), False
        self._only_ours = {one.name: why for one in SWITCHES if (why := behavior_of(one).only_ours)}
        self._off = dict(switches.off) | self._only_ours
        self._ran, self._again = set[nn.Module](), set[nn.Module]()
        self._kernels, self._dtypes = Counter[str](), set[torch.dtype]()
        for module in model.modules():
            if hasattr(vars(module).get("forward"), "takes_place"):
                del module.forward  # an earlier call's
        blocks = list(_blocks(model))
        if not blocks:
            self._off["gradient_checkpointing"] = "the model has no list of like blocks to recompute"
        elif any(hasattr(module, "running_mean") for block in blocks for module in block.modules()):
            self._off["gradient_checkpointing"] = "its blocks keep running statistics, which would be updated twice"
        recomputes = switches.asked.gradient_checkpointing != "none" and "gradient_checkpointing" not in self._off
        for block in blocks or [model]:
            forward = partial(self._pass, block, block.forward)
            if isinstance(block, GradientCheckpointingLayer):
                # These go about it themselves, and drop the key-value cache that a recomputation would fill twice.
                block.gradient_checkpointing = recomputes
                block._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)  # type: ignore[assignment]
            elif recomputes:
                forward = partial(checkpoint, forward, use_reentrant=False)
            _replace(block, forward)
        for part in (module for module in model.modules() if isinstance(module, PreTrainedModel)):
            with suppress(ValueError):  # it has no such attention: what runs shows it
                part.set_attn_implementation("sdpa" if switches.asked.sdpa else "eager")
        dtype = DTYPES[switches.effective.mixed_precision]
        device = next((parameter.device.type for parameter in model.parameters()), "cpu")
        # Xtts itself has no forward for training: what is called is its GPT.
        for module in {model, getattr(model, "gpt", model)} if dtype != torch.float32 else set[nn.Module]():
            _replace(module, partial(_in_half, module.forward, device, dtype))
        self._report({name: state for name, state in self.states().items() if name in self._off})

    def _pass(self, block: nn.Module, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if torch._C._current_graph_task_id() != -1:
            self._again.add(block)
        if self._is_done or not (block.training and torch.is_grad_enabled()):
            return forward(*args, **kwargs)
        with nullcontext() if block in self._ran else self:
            self._ran.add(block)
            out = forward(*args, **kwargs)
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor) and tensor.requires_grad:
                # In the backward pass, to be called at its end: then every block has run as often as it will.
                tensor.register_hook(lambda grad: Variable._execution_engine.queue_callback(self._report))
        return out

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.name().partition(".")[0]
        if name in _PRODUCTS:
            self._dtypes.add(out.dtype)
        elif name in _ATTENTION:
            self._kernels[_ATTENTION[name]] += 1
        return out

    def states(self) -> Report:
        """Each switch as in an `optimizations` event: on only where a training step showed it."""
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in sorted(self._dtypes, key=str))
        kernels = ", ".join(f"{name} in {len(self._ran)} of {len(self._ran)} blocks" for name in self._kernels)
        seen = {
            "gradient_checkpointing": Seen(
                bool(self._again), f"{len(self._again)} of {len(self._ran)} blocks recomputed"
            ),
            "sdpa": Seen(
                bool(self._kernels) and not SLOW & {*self._kernels}, kernels or "no attention kernel was seen"
            ),
            "mixed_precision": Seen(
                bool(self._dtypes) and torch.float32 not in self._dtypes, f"{names or 'no'} matrix products"
            ),
        }
        if not self._ran:
            seen = {name: Seen(False, UNSEEN) for name in seen}
        seen |= dict.fromkeys(self._only_ours, Seen(False, "nothing was done"))
        return {
            switch.name: state_of(switch, getattr(self._asked, switch.field), found, self._off.get(switch.name, ""))
            for switch in SWITCHES
            if (found := seen.get(switch.name))
        }

    def _report(self, states: Report | None = None) -> None:
        """Show each switch once: those that can never be on at once, the others after the first backward pass."""
        self._is_done = states is None
        for name, state in (self.states() if states is None else states).items():
            if name not in self._reported and (state["state"] == "on" or state["reason"]):
                self._reported.add(name)
                for line in proof_lines({name: state}):
                    say(log, line)


def _in_half(forward: Callable[..., Any], device: str, dtype: torch.dtype, *args: Any, **kwargs: Any) -> Any:
    """A module's forward, its products in half precision while it trains."""
    with torch.autocast(device, dtype=dtype, enabled=torch.is_grad_enabled()):
        return forward(*args, **kwargs)


def _blocks(model: nn.Module) -> Iterator[nn.Module]:
    """Members of the outermost lists of like modules, each of several layers."""
    inner: set[nn.Module] = set()
    for module in model.modules():
        if module in inner or not isinstance(module, (nn.ModuleList, nn.Sequential)) or len(module) < 2:
            continue
        is_alike = len({type(member) for member in module}) == 1
        if is_alike and all(sum(bool(layer._parameters) for layer in m.modules()) > 1 for m in module):
            for block in module:
                inner.update(block.modules())
                yield block


def _replace(module: nn.Module, forward: Any) -> None:
    """Put a callable in the place of a module's forward, with its signature."""
    functools.update_wrapper(forward, module.forward)
    forward.takes_place = True
    module.forward = forward
