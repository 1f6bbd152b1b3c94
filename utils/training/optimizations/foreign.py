"""The switches on a model that is not ours: what can be done is done and watched, the rest is reported off with why.

A foreign model is stock coqui-tts' `Xtts` or its GPT, a Hugging Face model, or any module. Its blocks are the members
of its lists of like modules. Nothing is wrapped, so that the weights keep their names: the `forward` of single modules
is replaced.
"""

import functools
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from utils.events.console import say
from utils.events.narration import proof_lines
from utils.switches import SWITCHES
from utils.training.optimizations.proof import EXPLICIT, KERNELS
from utils.training.optimizations.switch import Report, Seen, Switches, state_of
from utils.training.optimizations.switches import BEHAVIORS
from utils.training.optimizer.precision import DTYPES

UNSEEN = "no training step has been observed yet"
_SOFTMAX = ("aten::_softmax", "aten::_safe_softmax")
_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")
_CACHES = ("past_key_values", "past_key_value", "layer_past", "use_cache")


@dataclass(kw_only=True)
class _Seen:
    """What one block did in training."""

    has_run: bool = False
    recomputed: bool = False
    kernels: Counter[str] = field(default_factory=Counter)
    product_dtype: torch.dtype | None = None


class ForeignModel:
    """A model under the switches, and what was seen of them.

    Args:
        model: on its device; changed in place.
        switches: what the user wants, and what this device can do of that.
    """

    def __init__(self, model: nn.Module, switches: Switches) -> None:
        self._asked = asked = switches.asked
        self._off = dict(switches.off) | {name: why.only_ours for name, why in BEHAVIORS.items() if why.only_ours}
        _restore(model)
        blocks = list(_blocks(model))
        self._dtype = DTYPES[switches.effective.mixed_precision]
        self._device = next((parameter.device.type for parameter in model.parameters()), "cpu")
        self._drops = any(isinstance(module, nn.Dropout) and module.p > 0 for module in model.modules())
        """Whether attention may drop weights, which a CPU's fused kernels cannot."""
        if asked.gradient_checkpointing != "none":
            self._note_checkpointing(blocks)
        self._set_attention(model)
        recomputes = bool(blocks) and asked.gradient_checkpointing != "none"
        self._watched = [_Watched(self, block, checkpoints=recomputes) for block in blocks or [model]]
        if self._dtype != torch.float32:
            # Xtts itself has no forward for training: what is called is its GPT.
            inner = getattr(model, "gpt", None)
            for module in (model, inner) if isinstance(inner, nn.Module) else (model,):
                _replace(module, partial(self._in_half, module.forward))
        self.awaits_backward = True
        """Until the first backward pass: then every block of a step has run."""
        self._announced: set[str] = set()
        self._announce(self.states(), only_off=True)

    def _note_checkpointing(self, blocks: list[nn.Module]) -> None:
        if not blocks:
            self._off["gradient_checkpointing"] = "the model has no list of like blocks to recompute"
        elif all(_has_running_statistics(block) for block in blocks):
            self._off["gradient_checkpointing"] = "its blocks keep running statistics, which would be updated twice"

    def _set_attention(self, model: nn.Module) -> None:
        wanted = "sdpa" if self._asked.sdpa else "eager"
        for part in _outermost(model, PreTrainedModel):
            try:
                part.set_attn_implementation(wanted)
            except Exception as error:  # noqa: BLE001 - whatever a model of others raises is the reason.
                if self._asked.sdpa:
                    self._off["sdpa"] = f"{type(part).__name__} does not take it: {error}"

    def _in_half(self, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A module's forward, its products in half precision while it trains."""
        with torch.autocast(self._device, dtype=self._dtype, enabled=torch.is_grad_enabled()):
            return forward(*args, **kwargs)

    def states(self) -> Report:
        """Each switch as in an `optimizations` event: on only where a training step showed it."""
        ran = [watched.seen for watched in self._watched if watched.seen.has_run]
        seen = {
            "gradient_checkpointing": _checkpointing(ran),
            "sdpa": _attention(ran),
            "mixed_precision": _precision(ran),
        }
        if self._asked.gradient_checkpointing == "selective" and seen["gradient_checkpointing"].is_on:
            note = "; in full, because only this project's own GPT can keep a selection"
            seen["gradient_checkpointing"] = Seen(True, seen["gradient_checkpointing"].observed + note)
        seen |= {name: Seen(False, "nothing was done") for name, why in BEHAVIORS.items() if why.only_ours}
        return {
            switch.name: state_of(switch, getattr(self._asked, switch.field), found, self._why_off(switch.name, found))
            for switch in SWITCHES
            if (found := seen.get(switch.name))
        }

    def _why_off(self, name: str, seen: Seen) -> str | None:
        if seen.observed == UNSEEN:
            return self._off.get(name, UNSEEN)
        if name == "sdpa" and self._device == "cpu" and self._drops:
            reason = self._off.get(name, f"what ran shows: {seen.observed}")
            return f"{reason}; dropout of attention weights keeps fused kernels off on a CPU: set it to 0"
        return self._off.get(name)

    def saw_forward(self) -> None:
        """The backward pass has begun: every block of the step has run."""
        self.awaits_backward = False
        self._announce({name: state for name, state in self.states().items() if name != "gradient_checkpointing"})

    def saw_recomputation(self) -> None:
        """A block was recomputed; the last one to be is the model's first."""
        if all(watched.seen.recomputed for watched in self._watched if watched.seen.has_run):
            self._announce({"gradient_checkpointing": self.states()["gradient_checkpointing"]})

    def _announce(self, states: Report, *, only_off: bool = False) -> None:
        """Show each switch once: those that can never be on at once, the others when they were seen."""
        for name, state in states.items():
            is_pending = state["reason"] == UNSEEN
            is_shown = state["state"] == "on" or bool(state["reason"] and not is_pending)
            if name in self._announced or not is_shown or (only_off and state["state"] == "on"):
                continue
            self._announced.add(name)
            for line in proof_lines({name: state}):
                say(_log, line)


_log = logging.getLogger(__name__)


class _Watched:
    """A block's forward: looked at the first time it trains, and recomputed in the backward pass if wanted.

    Args:
        model: whose block.
        block: changed in place.
        checkpoints: whether it is to be recomputed.
    """

    def __init__(self, model: ForeignModel, block: nn.Module, *, checkpoints: bool) -> None:
        self.seen = _Seen()
        self._model, self._block, self._forward = model, block, block.forward
        self._checkpoints = checkpoints and not _has_running_statistics(block)
        if isinstance(block, GradientCheckpointingLayer):
            # These go about it themselves, and drop the key-value cache that a recomputation would fill twice.
            block.gradient_checkpointing = self._checkpoints
            block._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)  # type: ignore[assignment]
            self._checkpoints = False
        _replace(block, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch._C._current_graph_task_id() != -1:
            return self._again(*args, **kwargs)
        if not (self._block.training and torch.is_grad_enabled()):
            return self._forward(*args, **kwargs)
        is_first, self.seen.has_run = not self.seen.has_run, True
        run = partial(self._look, self._forward) if is_first else self._forward
        if self._checkpoints and not any(kwargs.get(name) for name in _CACHES):
            out = checkpoint(_Once(run, self._again), *args, use_reentrant=False, **kwargs)
        else:
            out = run(*args, **kwargs)
        if self._model.awaits_backward:
            self._await_backward(out)
        return out

    def _again(self, *args: Any, **kwargs: Any) -> Any:
        """The forward, within the backward pass."""
        is_first, self.seen.recomputed = not self.seen.recomputed, True
        if is_first:
            self._model.saw_recomputation()
        return self._forward(*args, **kwargs)

    def _look(self, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with _Operations(self.seen):
            return forward(*args, **kwargs)

    def _await_backward(self, out: Any) -> None:
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor) and tensor.requires_grad:
                tensor.register_hook(lambda grad: self._model.saw_forward())
                return


class _Once:
    """What checkpointing calls: the forward pass first, a recomputation from then on."""

    def __init__(self, first: Callable[..., Any], again: Callable[..., Any]) -> None:
        self._next, self._again = first, again

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        run, self._next = self._next, self._again
        return run(*args, **kwargs)


class _Operations(TorchDispatchMode):
    """Notes attention kernels and the data type of matrix products."""

    def __init__(self, seen: _Seen) -> None:
        super().__init__()
        self._seen = seen

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.name().partition(".")[0]
        if name in _PRODUCTS:
            self._seen.product_dtype = out.dtype
        elif name in _SOFTMAX:
            self._seen.kernels[EXPLICIT] += 1
        elif name in KERNELS:
            self._seen.kernels[KERNELS[name]] += 1
        return out


def _checkpointing(ran: list[_Seen]) -> Seen:
    if not ran:
        return Seen(False, UNSEEN)
    count = sum(seen.recomputed for seen in ran)
    return Seen(count > 0, f"{count} of {len(ran)} blocks recomputed")


def _attention(ran: list[_Seen]) -> Seen:
    if not ran:
        return Seen(False, UNSEEN)
    attending = [seen for seen in ran if seen.kernels]
    fused = [seen for seen in attending if not set(seen.kernels) & {EXPLICIT, "math"}]
    kernels = sum((seen.kernels for seen in attending), Counter())
    if not attending:
        return Seen(False, "no attention kernel was seen")
    names = ", ".join(name for name, _ in kernels.most_common())
    return Seen(len(fused) == len(attending), f"{names} in {len(attending)} of {len(attending)} blocks")


def _precision(ran: list[_Seen]) -> Seen:
    dtypes = [seen.product_dtype for seen in ran if seen.product_dtype is not None]
    if not ran:
        return Seen(False, UNSEEN)
    if not dtypes:
        return Seen(False, "no matrix product was seen")
    names = ", ".join(sorted({str(dtype).removeprefix("torch.") for dtype in dtypes}))
    advice = "; the caller's loop needs a gradient scaler" if torch.float16 in dtypes else ""
    return Seen(all(dtype != torch.float32 for dtype in dtypes), f"{names} matrix products{advice}")


def _blocks(model: nn.Module) -> Iterator[nn.Module]:
    """Members of the outermost lists of like modules, each of several layers."""
    inner: set[nn.Module] = set()
    for module in model.modules():
        if module in inner or not isinstance(module, (nn.ModuleList, nn.Sequential)) or not _is_stack(module):
            continue
        for block in module:
            inner.update(block.modules())
            yield block


def _is_stack(modules: nn.ModuleList | nn.Sequential) -> bool:
    kinds = {type(member) for member in modules}
    if len(modules) < 2 or len(kinds) != 1 or kinds & {nn.ModuleList, nn.ModuleDict}:
        return False
    return all(sum(bool(layer._parameters) for layer in member.modules()) > 1 for member in modules)


def _has_running_statistics(block: nn.Module) -> bool:
    return any(getattr(module, "running_mean", None) is not None for module in block.modules())


def _outermost(model: nn.Module, kind: type[PreTrainedModel]) -> Iterator[PreTrainedModel]:
    inner: set[nn.Module] = set()
    for module in model.modules():
        if isinstance(module, kind) and module not in inner:
            inner.update(module.modules())
            yield module


def _restore(model: nn.Module) -> None:
    """Take back what an earlier call put in the place of modules' own forward."""
    for module in model.modules():
        if hasattr(vars(module).get("forward"), "takes_place"):
            del module.forward


def _replace(module: nn.Module, forward: Any) -> None:
    """Put a callable in the place of a module's forward, with its signature."""
    functools.update_wrapper(forward, module.forward)
    forward.takes_place = True
    module.forward = forward
