"""The largest batch that fits in memory, found by real training steps."""

import inspect
import logging
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from utils.errors import UserError
from utils.hardware import memory, process_memory
from utils.performance_utils.shortage import is_out_of_memory

log = logging.getLogger(__name__)

LossFunction = Callable[[nn.Module, Any], Tensor]
"""Runs the model on a batch and returns the loss to differentiate, a scalar."""

GPU_SHARE, CPU_SHARE = 0.9, 0.7
"""Share of the free memory that a batch may fill: later batches differ in length and fragment it."""
WATCH_SECONDS = 0.002
"""How often resident memory is looked at while a trial runs on the CPU."""
GAP = 8
"""The search ends when the smallest size that fails is within this part of the largest that fits."""
GB = 1e9


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One batch size that was tried."""

    batch_size: int
    fits: bool
    peak_bytes: int
    """CUDA: most memory reserved. CPU: growth of resident memory since the search began."""
    clips_per_second: float
    """Of the last step; 0 when it did not fit."""


class BatchSizeOptimizer:
    """Find the largest batch that fits in memory, by real training steps.

    The model is left as it was: weights are never written, gradients, buffers, random state and mode are put back.

    Args:
        model: on the device that trains.
        sample_batch_fn: makes a batch of the given number of clips on that device; the longest ones, to be safe.
        min_batch_size, max_batch_size: where to search.
        loss_fn: how the loss is computed. Otherwise the batch is given to the model (a tuple as positional, a mapping
            as named arguments where it takes them) and the loss is its result: a tensor, a tuple of losses, or what has
            a `loss`.
        memory_limit: bytes. CUDA: that may be reserved, 90 % of what is free or ours when not given. CPU: by which the
            process may grow, 70 % of the available memory when not given.
        optimizer_bytes: state of the optimizer for each trained parameter, 8 for Adam; 0 when it exists already.
        num_steps: steps a trial. Gradients stay from one to the next, as they do between accumulated batches.
    """

    def __init__(
        self,
        model: nn.Module,
        sample_batch_fn: Callable[[int], Any],
        min_batch_size: int = 1,
        max_batch_size: int = 64,
        *,
        loss_fn: LossFunction | None = None,
        memory_limit: int | None = None,
        optimizer_bytes: int = 8,
        num_steps: int = 2,
    ) -> None:
        if not 1 <= min_batch_size <= max_batch_size:
            raise UserError(
                what=f"batch sizes from {min_batch_size} to {max_batch_size} cannot be searched",
                fix="use 1 or more, and a largest that is not below the smallest",
            )
        self.model = model
        self.sample_batch_fn = sample_batch_fn
        self.min_batch_size, self.max_batch_size = min_batch_size, max_batch_size
        self.loss_fn = loss_fn or _default_loss
        self.optimizer_bytes = optimizer_bytes
        self.num_steps = num_steps
        self.device = next(model.parameters()).device
        self.memory_limit = memory_limit
        self.trials: list[Trial] = []
        """All sizes tried, in order."""

    def find_optimal_batch_size(self) -> int:
        """The largest batch size that fits: doubling from the smallest until one does not, then halving the gap.

        The search ends when the gap is an eighth of the size: more trials would cost more than they bring.

        Raises:
            UserError: not even the smallest fits.
        """
        self.trials = []
        # Before memory is looked at: what nothing uses must not count as taken.
        _free_memory(self.device)
        limit = self.memory_limit or _default_limit(self.device)
        watch = _MemoryWatch(self.device, limit)
        with _undisturbed(self.model):
            state: list[Tensor] = []
            if not self._fits(self.min_batch_size, watch, state):
                raise UserError(
                    what=f"a batch of {self.min_batch_size} does not fit in {limit / GB:.1f} GB of memory",
                    fix="switch on gradient checkpointing, use an 8-bit optimizer or LoRA, or shorten the longest clip",
                )
            good, bad = self.min_batch_size, self.max_batch_size + 1
            while bad - good > max(1, good // GAP):
                size = min(2 * good, self.max_batch_size) if bad > self.max_batch_size else (good + bad) // 2
                if self._fits(size, watch, state):
                    good = size
                else:
                    bad = size
        _free_memory(self.device)
        log.info("batch size %d fits; tried from %d to %d", good, self.min_batch_size, self.max_batch_size)
        return good

    def _fits(self, batch_size: int, watch: "_MemoryWatch", state: list[Tensor]) -> bool:
        """Try a size and write down what happened; `state` holds the optimizer's share from the first trial on."""
        fits, seconds = True, 0.0
        _free_memory(self.device)
        try:
            with watch:
                state = state or self._fill(state)
                for _ in range(self.num_steps):
                    seconds = self._step(batch_size, state)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            fits = False
        # Only here, where the exception is gone: its traceback kept the tensors of the step alive.
        for parameter in self.model.parameters():
            parameter.grad = None
        fits = fits and watch.peak_bytes <= watch.limit
        rate = batch_size / seconds if fits else 0.0
        trial = Trial(batch_size=batch_size, fits=fits, peak_bytes=watch.peak_bytes, clips_per_second=rate)
        self.trials.append(trial)
        verdict = f"fits, {rate:.2f} clips/s" if fits else "does not fit"
        log.info("batch size %d: %s, %.2f of %.2f GB", batch_size, verdict, watch.peak_bytes / GB, watch.limit / GB)
        return fits

    def _step(self, batch_size: int, state: list[Tensor]) -> float:
        """One training step but for the last line of Adam, the one that writes weights; its seconds."""
        started = time.perf_counter()
        self.loss_fn(self.model, self.sample_batch_fn(batch_size)).backward()
        if self.optimizer_bytes == 8:
            gradients = (parameter.grad for parameter in self._trained())
            for gradient, mean, square in zip(gradients, state[::2], state[1::2], strict=True):
                if gradient is not None:
                    mean.lerp_(gradient, 0.1)
                    square.mul_(0.96).addcmul_(gradient, gradient, value=0.04)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter() - started

    def _fill(self, state: list[Tensor]) -> list[Tensor]:
        """Take the memory that the optimizer's state will take; written to, because untouched memory is not there."""
        for parameter in self._trained():
            if self.optimizer_bytes == 8:
                state += [torch.zeros_like(parameter).detach() for _ in range(2)]
            else:
                count = self.optimizer_bytes * parameter.numel()
                state.append(torch.ones(count, dtype=torch.uint8, device=self.device))
        return state

    def _trained(self) -> Iterator[nn.Parameter]:
        return (parameter for parameter in self.model.parameters() if parameter.requires_grad)


class _MemoryWatch:
    """Peak memory of what runs inside; on the CPU it stops what exceeds the limit at the next module's forward."""

    def __init__(self, device: torch.device, limit: int) -> None:
        self.device, self.limit = device, limit
        self.peak_bytes = 0
        self._start_bytes = process_memory()
        self._done = threading.Event()

    def __enter__(self) -> None:
        self.peak_bytes = 0
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            return
        self._done.clear()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._hook = torch.nn.modules.module.register_module_forward_pre_hook(self._stop)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        if self.device.type == "cuda":
            # Reserved, not allocated: on Windows the driver lends the machine's memory rather than fail.
            self.peak_bytes = torch.cuda.max_memory_reserved(self.device)
            return
        self._done.set()
        self._thread.join()
        self._hook.remove()

    def _look(self) -> None:
        while True:
            self.peak_bytes = max(self.peak_bytes, process_memory() - self._start_bytes)
            if self._done.wait(WATCH_SECONDS):
                return

    def _stop(self, *_: object) -> None:
        if self.peak_bytes > self.limit:
            raise MemoryError("the limit given is exceeded")


def _default_limit(device: torch.device) -> int:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return round(GPU_SHARE * (free + torch.cuda.memory_reserved(device)))
    return round(CPU_SHARE * memory().available_bytes)


def _free_memory(device: torch.device) -> None:
    """Give memory that nothing uses back, so that the next trial is not measured with the last one's."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif sys.platform == "linux" and platform.libc_ver()[0] == "glibc":
        import ctypes

        ctypes.CDLL("libc.so.6").malloc_trim(0)


@contextmanager
def _undisturbed(model: nn.Module) -> Iterator[None]:
    """Train inside; afterwards gradients, buffers, modes and random state are what they were."""
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    modes = [(module, module.training) for module in model.modules()]
    cuda = sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices=cuda):
        try:
            model.train()
            for parameter, _ in gradients:
                parameter.grad = None
            yield
        finally:
            for parameter, gradient in gradients:
                parameter.grad = gradient
            for buffer, value in buffers:
                buffer.copy_(value)
            for module, training in modes:
                module.training = training


def _default_loss(model: nn.Module, batch: Any) -> Tensor:
    result = _output(model, batch)
    losses = result if isinstance(result, (tuple, list)) else [result]
    if isinstance(result, Mapping):
        losses = [result.get("loss")]
    elif not isinstance(result, (Tensor, tuple, list)):
        losses = [getattr(result, "loss", None)]
    if not losses or not all(isinstance(loss, Tensor) for loss in losses):
        has = f"the keys {', '.join(map(str, result))}" if isinstance(result, Mapping) else f"a {type(result).__name__}"
        raise UserError(
            what=f"{type(model).__name__} gives no loss for this batch: its output has {has}, and no tensor `loss`",
            where="BatchSizeOptimizer",
            fix="pass loss_fn=lambda model, batch: ..., or have sample_batch_fn add what the model needs for its loss "
            "(labels, for Hugging Face models)",
        )
    return torch.stack([loss.float().mean() for loss in losses]).sum()


def _output(model: nn.Module, batch: Any) -> Any:
    """The model's output for a batch; a mapping whose names it does not take is given as it is.

    Raises:
        UserError: the model takes the batch in neither way.
    """
    if not isinstance(batch, Mapping):
        return model(*batch) if isinstance(batch, (tuple, list)) else model(batch)
    signature = inspect.signature(model.forward)
    try:
        signature.bind(**batch)
    except TypeError as error:
        try:
            signature.bind(batch)
            return model(batch)
        except (TypeError, AttributeError, KeyError, IndexError) as fault:
            raise UserError(
                what=f"{type(model).__name__} does not take this batch: {error}",
                where="BatchSizeOptimizer",
                fix="have sample_batch_fn name the arguments of the model's forward, or pass loss_fn",
            ) from fault
    return model(**batch)
