"""TrainingOptimizer of published guides: the switches of a training run, also on a model that is not ours.

Of stock coqui-tts' `Xtts` or its GPT, a Hugging Face model or any module, repeated blocks are recomputed, Hugging Face
parts take SDPA, and products run in half precision while the model trains. Nothing is wrapped, so that the weights keep
their names: the `forward` of single modules is replaced.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from functools import partial, update_wrapper
from typing import Any, TypeGuard, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd import Variable
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from utils.config import TrainConfig
from utils.console import say
from utils.errors import UserError
from utils.hardware.recommendations import recommend
from utils.model.gpt import XttsGpt
from utils.options import Checkpointing, CompileMode, Precision
from utils.performance_utils.device import settle_device
from utils.performance_utils.memory import memory_line, memory_stats
from utils.switches import SWITCHES, proof_lines
from utils.training.switches.base import Report, Seen, Switches, state_of
from utils.training.switches.optim import DTYPES
from utils.training.switches.optimizer import Optimizations
from utils.training.switches.record import EXPLICIT, KERNELS, SLOW

log = logging.getLogger(__name__)

Model = TypeVar("Model", bound=nn.Module)
UNSEEN = "no training step has been observed yet"
OURS = ("compile", "eight_bit_optimizer", "paged_optimizer", "freeze_conditioning", "lora_rank")
"""Switches that do nothing to another model than ours."""
ONLY_OURS = (
    "only for this project's own GPT; of other models, compile, freeze and extend (peft.get_peft_model) the model "
    "yourself, and take TrainingOptimizer.make_optimizer"
)
_ATTENTION = {name.partition(".")[0]: kernel for name, kernel in KERNELS.items()} | {
    "aten::_softmax": EXPLICIT,
    "aten::_safe_softmax": EXPLICIT,
}
_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")


class TrainingOptimizer(Optimizations):
    """Takes a model and makes it train as requested.

    Args:
        enable_gradient_checkpointing, enable_grad_checkpoint: recompute activations; True is "full". Two names of one
            switch.
        enable_sdpa: fused attention without padding; False is explicit softmax attention, the reference.
        enable_mixed_precision: half-precision products; True is "auto", False "fp32".
        compile_mode: torch.compile of the blocks.
        device: where training runs; a CUDA GPU when there is one.
        settings: other switches, and `dropout` and `seed`, as `utils.config.TrainConfig` names them:
            eight_bit_optimizer, paged_optimizer, lora_rank, freeze_conditioning, cuda_memory_fraction, ...

    Raises:
        UserError: an impossible combination, or a setting that does not exist.
    """

    def __init__(
        self,
        enable_gradient_checkpointing: bool | Checkpointing | None = None,
        enable_sdpa: bool = True,
        enable_mixed_precision: bool | Precision = False,
        *,
        enable_grad_checkpoint: bool | Checkpointing | None = None,
        compile_mode: CompileMode = "off",
        device: torch.device | str | None = None,
        **settings: Any,
    ) -> None:
        both = (enable_gradient_checkpointing, enable_grad_checkpoint)
        if len(given := {value for value in both if value is not None}) > 1:
            raise UserError(
                what=f"enable_gradient_checkpointing is {both[0]} and enable_grad_checkpoint is {both[1]}: one switch",
                where="TrainingOptimizer",
                fix="give one of them",
            )
        values: dict[Any, str] = {False: "none", True: "full"}
        precisions: dict[Any, str] = {False: "fp32", True: "auto"}
        checkpointing, precision = next(iter(given), False), enable_mixed_precision
        named = {
            "project": "",
            "gradient_checkpointing": values.get(checkpointing, checkpointing),
            "sdpa": enable_sdpa,
            "mixed_precision": precisions.get(precision, precision),
            "compile": compile_mode,
        }
        config = TrainConfig.from_values({**named, **settings}, where="TrainingOptimizer")
        super().__init__(config, torch.device(device or settle_device("auto")[0]))
        self.foreign: _ForeignModel | None = None
        """The model that was optimized, if it is none of ours."""

    def optimize_model(self, model: Model) -> Model:
        """Set the model up in place, and torch for the device; the model comes back on the device.

        Another model than ours, such as stock coqui-tts' or a Hugging Face one, gets what can be done to it; `states`
        says what was seen of it, and why the rest is off.

        Raises:
            UserError: it is no module.
        """
        if isinstance(model, XttsGpt):
            self.apply(model)
            return model
        if not isinstance(model, nn.Module):
            what = f"optimize_model was given a {type(model).__name__}, and takes a torch.nn.Module"
            raise UserError(what=what, where="TrainingOptimizer", fix="give it the model itself")
        self.set_up()
        self.foreign = _ForeignModel(model.to(self.device), self.switches)
        return model

    @property
    def states(self) -> Report:
        """Of a model that is not ours: each switch, on only where a training step showed it, else off with why."""
        return self.foreign.states() if self.foreign is not None else {}

    get_memory_stats = staticmethod(memory_stats)
    recommend = staticmethod(recommend)

    @staticmethod
    def print_memory_stats() -> None:
        """Show `get_memory_stats` in GB, one line: logged where logging is set up, printed where it is not."""
        say(log, memory_line(memory_stats()))


class _ForeignModel(TorchDispatchMode):
    """A model under the switches; as a dispatch mode it notes the operations of each block's first training pass.

    Args:
        model: on its device; changed in place.
        switches: what the user wants, and what this device can do of that.
    """

    def __init__(self, model: nn.Module, switches: Switches) -> None:
        super().__init__()
        self._asked, self._off, self._reported, self._is_done = switches.asked, dict(switches.off), set[str](), False
        self._ran, self._again = set[nn.Module](), set[nn.Module]()
        self._kernels, self._dtypes = set[str](), set[torch.dtype]()
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
            if _is_hugging_faces(block, "GradientCheckpointingLayer"):
                # These go about it themselves, and drop the key-value cache that a recomputation would fill twice.
                block.gradient_checkpointing = recomputes
                block._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)
            elif recomputes:
                forward = partial(checkpoint, forward, use_reentrant=False)
            _replace(block, forward)
        dtype = DTYPES[switches.effective.mixed_precision]
        for module in list(model.modules()):
            if _is_hugging_faces(module, "PreTrainedModel"):
                with suppress(ValueError):  # it has no such attention: what runs shows it
                    module.set_attn_implementation("sdpa" if switches.asked.sdpa else "eager")
        # Xtts itself has no forward for training: what is called is its GPT.
        for module in {model, getattr(model, "gpt", model)} if dtype != torch.float32 else set[nn.Module]():
            _replace(module, partial(_in_half, module.forward, next(model.parameters()).device.type, dtype))
        self._report()

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
            self._kernels.add(_ATTENTION[name])
        return out

    def states(self) -> Report:
        """Each switch as in an `optimizations` event: on only where a training step showed it."""
        ran, again = len(self._ran), len(self._again)
        names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in self._dtypes)) or "no"
        kernels = ", ".join(f"{name} in {ran} of {ran} blocks" for name in sorted(self._kernels))
        is_fast, is_half = not self._kernels & SLOW, torch.float32 not in self._dtypes
        seen = {
            "gradient_checkpointing": Seen(again > 0, f"{again} of {ran} blocks recomputed"),
            "sdpa": Seen(bool(kernels) and is_fast, kernels or "no attention kernel was seen"),
            "mixed_precision": Seen(bool(self._dtypes) and is_half, f"{names} matrix products"),
        }
        if not self._ran:
            seen = dict.fromkeys(seen, Seen(False, UNSEEN))
        off = self._off | dict.fromkeys(OURS, ONLY_OURS)
        seen |= dict.fromkeys(OURS, Seen(False, "nothing was done"))
        return {
            switch.name: state_of(switch, getattr(self._asked, switch.field), seen[switch.field], off.get(switch.field))
            for switch in SWITCHES
            if switch.field in seen
        }

    def _report(self) -> None:
        """Show each switch once: what can never be on at once, the others after the first backward pass."""
        self._is_done = bool(self._ran)
        for name, state in self.states().items():
            is_known = state["state"] == "on" or UNSEEN not in (state["reason"] or UNSEEN)
            if is_known and name not in self._reported:
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


def _is_hugging_faces(module: nn.Module, name: str) -> TypeGuard[Any]:
    """Whether it is of this class; by name, because importing transformers takes seconds where no model is of it."""
    return any(one.__name__ == name and one.__module__.startswith("transformers.") for one in type(module).__mro__)


def _replace(module: nn.Module, forward: Any) -> None:
    """Put a callable in the place of a module's forward, with its signature."""
    update_wrapper(forward, module.forward)
    forward.takes_place = True
    module.forward = forward
