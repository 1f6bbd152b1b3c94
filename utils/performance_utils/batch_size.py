"""The largest batch that fits in memory, found by real training steps."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from utils.errors import UserError, is_out_of_memory
from utils.hardware.resources import GIB, memory, process_memory

log = logging.getLogger(__name__)

GPU_SHARE, CPU_SHARE = 0.9, 0.7
"""Share of the free memory that a batch may fill: later batches differ in length and fragment it."""
GAP = 8
"""The search ends when the smallest size that fails is within this part of the largest that fits."""


class BatchSizeOptimizer:
    """Find the largest batch that fits in memory, by real training steps.

    Weights are never written; gradients, buffers, random state and modes are put back.

    Args:
        model: on the device that trains.
        sample_batch_fn: makes a batch of the given number of clips on that device; the longest ones, to be safe.
        min_batch_size, max_batch_size: where to search.
        loss_fn: computes the loss. Otherwise the batch is given to the model (a tuple as positional, a mapping as named
            arguments) and the loss is its result: a tensor, a tuple of losses, or what has a `loss`.
        memory_limit: bytes that may be reserved (CUDA) or by which the process may grow (CPU); a share of what is free
            when not given.
    """

    def __init__(
        self,
        model: nn.Module,
        sample_batch_fn: Callable[[int], Any],
        min_batch_size: int = 1,
        max_batch_size: int = 64,
        *,
        loss_fn: Callable[[nn.Module, Any], Tensor] | None = None,
        memory_limit: int | None = None,
    ) -> None:
        if not 1 <= min_batch_size <= max_batch_size:
            raise UserError(
                what=f"batch sizes from {min_batch_size} to {max_batch_size} cannot be searched",
                fix="use 1 or more, and a largest that is not below the smallest",
            )
        self.model, self.sample_batch_fn, self.loss_fn = model, sample_batch_fn, loss_fn or _loss
        self.min_batch_size, self.max_batch_size, self.memory_limit = min_batch_size, max_batch_size, memory_limit
        self.device = next(model.parameters()).device
        self.peaks: dict[int, int] = {}
        """Bytes of each size that was tried, reserved (CUDA) or grown by (CPU) at most; what exceeds the limit ends
        the trial."""

    def find_optimal_batch_size(self) -> int:
        """The largest batch size that fits: doubling from the smallest until one does not, then halving the gap.

        Raises:
            UserError: not even the smallest fits.
        """
        model = self.model
        gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
        buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
        modes = [(module, module.training) for module in model.modules()]
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            try:
                model.train().zero_grad(set_to_none=True)
                return self._search()
            finally:
                for parameter, gradient in gradients:
                    parameter.grad = gradient
                for buffer, value in buffers:
                    buffer.copy_(value)
                for module, training in modes:
                    module.training = training

    def _search(self) -> int:
        limit = self.memory_limit or round(CPU_SHARE * memory().available_bytes)
        if not self.memory_limit and self.device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self.device)
            limit = round(GPU_SHARE * (free + torch.cuda.memory_reserved(self.device)))
        self.peaks, start, moments = {}, process_memory(), list[Tensor]()
        good, bad, size = 0, self.max_batch_size + 1, self.min_batch_size
        while bad - good > max(1, good // GAP):
            if self._fits(size, limit, start, moments):
                good = size
            elif good:
                bad = size
            else:
                raise UserError(
                    what=f"a batch of {size} does not fit in {limit / GIB:.1f} GB of memory",
                    fix="switch on gradient checkpointing, use LoRA, or shorten the longest clip",
                )
            size = min(2 * good, self.max_batch_size) if bad > self.max_batch_size else (good + bad) // 2
        log.info("batch size %d fits; tried from %d to %d", good, self.min_batch_size, self.max_batch_size)
        return good

    def _fits(self, size: int, limit: int, start: int, moments: list[Tensor]) -> bool:
        """Train two steps of a size; the first trial fills `moments`."""
        on_gpu, fits = self.device.type == "cuda", True
        self.peaks[size] = 0

        def look(*_: object) -> None:
            # Reserved, not allocated: on Windows the driver lends the machine's memory rather than fail.
            now = torch.cuda.max_memory_reserved(self.device) if on_gpu else process_memory() - start
            self.peaks[size] = max(self.peaks[size], now)
            if now > limit:
                raise MemoryError("the limit given is exceeded")

        if on_gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)
        hook = register_module_forward_hook(look)
        try:
            if not moments:
                # Written to, because untouched memory is not there.
                learning = (parameter for parameter in self.model.parameters() if parameter.requires_grad)
                moments += [torch.ones_like(one, dtype=torch.float64) for one in learning]
            # Gradients stay from the first step to the second, as they do between accumulated batches.
            for _ in range(2):
                self.loss_fn(self.model, self.sample_batch_fn(size)).backward()
                look()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            fits = False
        finally:
            hook.remove()
        # Only here, where the exception is gone: its traceback kept the tensors of the step alive.
        self.model.zero_grad(set_to_none=True)
        return fits


def _loss(model: nn.Module, batch: Any) -> Tensor:
    """The loss that a model gives for a batch.

    Raises:
        UserError: it does not take the batch, or gives no loss.
    """
    name, fault, result = type(model).__name__, "", None
    try:
        if isinstance(batch, Mapping):
            result = model(**batch)
        else:
            result = model(*batch) if isinstance(batch, (tuple, list)) else model(batch)
    except TypeError as error:
        fault = f"{name} does not take this batch: {error}"
    loss = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", result)
    losses: Any = loss if isinstance(loss, (tuple, list)) else [loss]
    if fault or not losses or not all(isinstance(one, Tensor) for one in losses):
        has = f"the keys {', '.join(map(str, result))}" if isinstance(result, Mapping) else f"a {type(result).__name__}"
        raise UserError(
            what=fault or f"{name} gives no loss for this batch: its output has {has}, no tensor `loss`",
            where="BatchSizeOptimizer",
            fix="pass loss_fn=lambda model, batch: ..., or have sample_batch_fn add what the model needs for its loss "
            "(labels)",
        )
    return torch.stack([one.float().mean() for one in losses]).sum()
