"""Gradients summed over processes while the backward pass runs, so that one process may fail and none waits for it.

DistributedDataParallel sums each bucket of gradients as soon as it is full. A process that runs out of memory half-way
would leave the others waiting in the next bucket: it adds zeros to all that it did not come to, and then all of them
discard the step together. Sharded weights: see `utils.training.optimizer.sharding`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from utils.performance_utils import is_out_of_memory


class OutOfMemoryInRun(MemoryError):
    """A process of the run is out of memory; raised in all of them, at the same point.

    Args:
        message: of the process that is; empty in the others.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message or "another process is out of memory")
        self.is_own = bool(message)
        """Whether it is this process."""


def words_of(error: BaseException) -> str:
    """What an error says, never empty: Python's own MemoryError says nothing."""
    return str(error) or type(error).__name__


class GradientSum(ABC):
    """How several processes take a step together."""

    model: nn.Module
    """What is called for a forward pass in training."""
    buckets: str
    """Where gradients lie, for the run's log."""

    @abstractmethod
    def run(self, passes: Callable[[], None], sums: Tensor) -> Tensor:
        """Run the passes of a step, in all processes.

        Args:
            passes: forward and backward; all but the last within `more_follow`.
            sums: of losses, filled by the passes, [N].

        Returns:
            The sums over all processes, [N]; the gradients are summed as well.

        Raises:
            OutOfMemoryInRun: a process is out of memory; the gradients are to be discarded, then all may try again.
        """

    def more_follow(self) -> AbstractContextManager[None]:
        """Around a pass after which the step has another one."""
        return nullcontext()

    def evaluating(self) -> AbstractContextManager[None]:
        """Around passes without gradients, of which each process may have another number."""
        return nullcontext()


class BucketSum(GradientSum):
    """Wraps a model for training in several processes.

    Until it has seen a whole backward pass with the buckets as they are, it sums them after the pass: a process that
    failed would not know yet what the others wait for.

    Args:
        gpt: the model, on its device; its weights become those of the first process.
        accelerator: the processes.
    """

    def __init__(self, gpt: nn.Module, accelerator: Accelerator) -> None:
        self._device = accelerator.device
        on_gpu = self._device.type == "cuda"
        self.model: DistributedDataParallel = DistributedDataParallel(
            gpt,
            device_ids=[self._device] if on_gpu else None,
            # Gradients lie in the buckets that are summed: a copy of all of them less. There are no buffers to send.
            gradient_as_bucket_view=True,
            broadcast_buffers=False,
        )
        self.model.register_comm_hook(None, self._take_bucket)
        self._devices = [self._device] if on_gpu else None
        self._sizes: list[int] | None = None
        """Values in each bucket, in the order of the sums; None until a whole backward pass has shown them."""
        self._held: list[Tensor] = []
        """Buckets of this backward pass that wait for its end."""
        self._num_summed = 0
        """Buckets of this backward pass that are being summed."""
        self.buckets = "gradients lie in them" if self.model.gradient_as_bucket_view else "gradients are copied"

    def more_follow(self) -> AbstractContextManager[None]:
        """They are summed with those of the last pass."""
        return self.model.no_sync()

    def run(self, passes: Callable[[], None], sums: Tensor) -> Tensor:
        # torch lays the buckets out anew once, together: not in a pass that one process may not come to.
        if self.model.reducer._rebuild_buckets():
            self._sizes = None
        self._num_summed, failure = 0, ""
        try:
            passes()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            failure = words_of(error)
        # Outside the handler: the traceback held on to the activations of the failed pass.
        if failure and self._sizes is not None:
            for size in self._sizes[self._num_summed :]:
                dist.all_reduce(torch.zeros(size, device=self._device))
        agreed = torch.cat([sums, sums.new_tensor([bool(failure)])])
        dist.all_reduce(agreed)
        held, self._held = self._held, []
        if float(agreed[-1]) > 0:
            # The pass may have stopped half-way, which DistributedDataParallel would take for a fault of the model.
            self.model.reducer._reset_state()
            self._sizes = None
            raise OutOfMemoryInRun(failure)
        if self._sizes is None:
            for bucket in held:
                self._sum(bucket).wait()
            self._sizes = [bucket.numel() for bucket in held]
        return agreed[:-1]

    def _take_bucket(self, state: Any, bucket: dist.GradBucket) -> Future[Tensor]:
        buffer = bucket.buffer()
        if self._sizes is not None:
            future = self._sum(buffer)
            self._num_summed += 1
            return future
        self._held.append(buffer)
        taken: Future[Tensor] = Future(devices=self._devices)
        taken.set_result(buffer)
        return taken

    def _sum(self, buffer: Tensor) -> Future[Tensor]:
        future = dist.all_reduce(buffer, async_op=True).get_future()
        return future.then(lambda done: buffer)


def total_norm(parameters: Iterable[Tensor]) -> Tensor:
    """L2 norm of all gradients, a float32 scalar, whatever their own data type."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norms: list[Tensor] = []
    # All of a data type in one launch.
    for dtype in {gradient.dtype for gradient in gradients}:
        of_type = [gradient for gradient in gradients if gradient.dtype == dtype]
        norms += torch._foreach_norm(of_type, 2, torch.float32)
    norm = torch.linalg.vector_norm(torch.stack(norms))
    return norm.full_tensor() if isinstance(norm, DTensor) else norm
