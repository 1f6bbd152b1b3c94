"""The switches of a training run: applied to the model, watched in its steps, and reported with what was seen."""

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from operator import sub
from typing import Any, TypeVar

import torch
from torch import nn

from utils.config import TrainConfig
from utils.model.attention import varlen_attention
from utils.model.gpt import XttsGpt
from utils.performance_utils.device import SIDE, half_precision_fault, trial
from utils.performance_utils.settings import optimize_torch_settings
from utils.switches import SWITCHES
from utils.training.switches.attention import KERNELS, SDPA, choose_kernel
from utils.training.switches.base import GRAPHS, Off, Report, Switches, Trace, choose_layout, state_of
from utils.training.switches.compile import COMPILE, failure, failures, uncompile_blocks
from utils.training.switches.device import LOADER, MEMORY, TF32, limit_memory
from utils.training.switches.freeze_conditioning import FREEZE
from utils.training.switches.gradient_checkpointing import CHECKPOINTING
from utils.training.switches.lora import LORA
from utils.training.switches.mixed_precision import PRECISION
from utils.training.switches.optim import DTYPES, make_optimizer
from utils.training.switches.optimizer_state import EIGHT_BIT, PAGED
from utils.training.switches.record import StepRecord, compile_counts, record_step

log = logging.getLogger(__name__)

BEHAVIORS = {
    "gradient_checkpointing": CHECKPOINTING,
    "sdpa": SDPA,
    "attention": KERNELS,
    "mixed_precision": PRECISION,
    "compile": COMPILE,
    "eight_bit_optimizer": EIGHT_BIT,
    "paged_optimizer": PAGED,
    "freeze_conditioning": FREEZE,
    "lora": LORA,
    "cuda_memory_fraction": MEMORY,
    "tf32": TF32,
    "loader": LOADER,
}
"""By the switch's name in the event."""

Result = TypeVar("Result")


class Optimizations:
    """Makes a GPT train as requested; `report` says what took effect, after the first step.

    Args:
        config: the settings.
        device: where training runs.

    Raises:
        UserError: an impossible combination.
    """

    def __init__(self, config: TrainConfig, device: torch.device) -> None:
        self.device = device
        asked = replace(config, device="cuda" if device.type == "cuda" else "cpu")
        self.switches = resolve(asked.validate(where="training optimizations"), device)
        if device.type == "cuda":
            try_gpu_paths(self.switches, device)
        self.record: StepRecord | None = None
        """What was watched: a micro-batch of the first step, and of the first after each change; None before it."""
        self.has_news = False
        """Whether `report` would report something new."""
        self.reported: Report = {}
        """What `report` gave last; empty before the first step."""
        self.memory_logged = -math.inf
        """When memory was last logged, on a clock that only runs forward."""
        self._watched: tuple[Any, ...] | None = None

    def set_up(self) -> None:
        """Set torch and this process up, whatever the model."""
        optimize_torch_settings(self.device, threads=self.switches.effective.threads)
        limit_memory(self.switches.effective, self.device)

    def apply(self, gpt: XttsGpt) -> XttsGpt:
        """Set the model up in place, and torch for the device; the model comes back on the device."""
        effective = self.switches.effective
        self.set_up()
        gpt.options.dropout, gpt.options.sdpa = effective.dropout or 0.0, effective.sdpa
        gpt.options.checkpointing = effective.gradient_checkpointing
        for behavior in BEHAVIORS.values():
            if behavior.apply:
                behavior.apply(gpt, effective)
        choose_kernel(self.switches, gpt, self.device)
        return gpt.to(self.device)

    def make_optimizer(self, model: nn.Module, *, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
        """AdamW of the chosen kind over the parameters that learn; see `utils.training.switches.optim`."""
        paged, bits = self.switches.effective.paged_optimizer, self.switches.effective.eight_bit_optimizer
        kind = f"{'Paged' if paged else ''}AdamW{'8bit' if bits else ''}"
        return make_optimizer(model, learning_rate=learning_rate, weight_decay=weight_decay, kind=kind)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Around a step of training: where one of its micro-batches is watched, compiling anywhere in it counts."""
        record, before = self.record, compile_counts()
        yield
        if self.record is not None and self.record is not record:
            # Later micro-batches may have shapes of their own to compile for.
            self.record.num_graphs, self.record.num_skips = map(sub, compile_counts(), before)

    @contextmanager
    def micro_batch(self, model: XttsGpt) -> Iterator[None]:
        """Around a forward and backward pass; the first is watched, and the first that computes in another way."""
        way = replace(model.options), "compile" in self.switches.off
        # Two profilers exclude each other: a later micro-batch is watched.
        if way == self._watched or torch.autograd._profiler_enabled():
            yield
            return
        with record_step(model) as record:
            yield
        self.record, self._watched, self.has_news = record, way, True

    def attempt(self, model: XttsGpt, work: Callable[[], Result], undo: Callable[[], None]) -> Result:
        """Do something with the model; when compiling fails, do it once more with the blocks as they are written.

        Compiling can fail at any time: code is compiled again for shapes that are new, and for evaluation. Not where it
        ran out of the GPU's memory: that is passed on, as of every other work.

        Args:
            model: from `apply`.
            work: what to do; it must compute the same when it is called again after `undo`.
            undo: takes back what work that failed half-way has left.
        """
        if self.switches.effective.compile == "off" or "compile" in self.switches.off:
            return work()
        try:
            return work()
        except failures() as error:
            if isinstance(getattr(error, "inner_exception", None), torch.OutOfMemoryError):
                raise  # Blocks as they are written need no less: smaller batches fix it, and they can be compiled.
            log.warning("torch.compile failed; training continues without it: %s", str(error))
            self.switches.off["compile"] = f"compiling failed: {failure(error)}"
            uncompile_blocks(model)
            self.has_news = self.record is not None
        # Outside the handler: the traceback held on to the activations of the failed forward.
        undo()
        return work()

    def report(
        self,
        model: XttsGpt,
        optimizer: torch.optim.Optimizer,
        *,
        scaler: bool,
        loader: object,
    ) -> Report:
        """Each switch: what was asked, what the watched step showed, and why it is off if it is.

        Args:
            model, optimizer: as trained.
            scaler: whether a gradient scaler is active.
            loader: the training DataLoader.
        """
        assert self.record is not None, "report before the first step"
        trace = Trace(
            switches=self.switches,
            record=self.record,
            model=model,
            optimizer=optimizer,
            scaler=scaler,
            loader=loader,
        )
        self.has_news, self.reported = False, report(trace)
        return self.reported


def resolve(asked: TrainConfig, device: torch.device) -> Switches:
    """The switches of a run on its device.

    Raises:
        UserError: fp16 on a CPU.
    """
    effective, off = asked, {}
    for switch in SWITCHES:
        if (choose := BEHAVIORS[switch.name].resolve) and switch.is_on(asked):
            value = choose(asked, device)
            if isinstance(value, Off):
                off[switch.name], value = value.reason, switch.off
            effective = replace(effective, **{switch.field: value})
    return Switches(
        asked=asked,
        effective=effective,
        layout=choose_layout(effective.sdpa, effective.mixed_precision, device, is_compiled=effective.compile != "off"),
        off=off,
    )


def report(trace: Trace) -> Report:
    """Each switch: what was asked for, what the trace shows, and why it is off if it is."""
    found = {}
    for switch in SWITCHES:
        behavior = BEHAVIORS[switch.name]
        asked = behavior.asked(trace) if behavior.asked else getattr(trace.switches.asked, switch.field)
        found[switch.name] = state_of(switch, asked, behavior.observe(trace), trace.switches.off.get(switch.name))
    return found


def try_gpu_paths(switches: Switches, device: torch.device) -> None:
    """Try each path that only a GPU has once, on a small input, before a run relies on it; what fails is off.

    Compiled blocks need no trial: a step that cannot be compiled is computed again by the blocks as they are written.
    The packages of flash-attn and bitsandbytes have one of their own.
    """
    effective = switches.effective
    dtype = DTYPES[effective.mixed_precision]
    if dtype != torch.float32 and (fault := half_precision_fault(device, dtype)):
        switches.off["mixed_precision"] = f"{effective.mixed_precision} failed its trial: {fault}"
        switches.effective = effective = replace(effective, mixed_precision="fp32")
        switches.layout = "rows"
    if switches.layout == "packed" and (fault := trial(lambda: _packed_attention(device, dtype))):
        switches.layout = "rows"
        switches.without_flash_attn = f"variable-length attention failed its trial: {fault}"
    if effective.compile == "reduce-overhead" and (fault := trial(lambda: _captured_graph(device))):
        switches.off[GRAPHS] = fault
        switches.effective = replace(effective, compile="default")


def _packed_attention(device: torch.device, dtype: torch.dtype) -> None:
    q, k, v = (torch.ones(1, 1, SIDE, SIDE, dtype=dtype, device=device, requires_grad=True) for _ in range(3))
    bounds = torch.tensor([0, SIDE // 4, SIDE], dtype=torch.int32, device=device)
    varlen_attention(q, k, v, cu_seqlens=bounds, max_seqlen=SIDE).sum().backward()
    assert q.grad is not None and q.grad.shape == q.shape, "there is no gradient"


def _captured_graph(device: torch.device) -> None:
    graph, values = torch.cuda.CUDAGraph(), torch.zeros(SIDE, device=device)
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        values += 1
    graph.replay()
    assert (values == 1).all(), "a captured graph computed something else"
