"""Weights, gradients and moments sharded among processes by PyTorch's FSDP2; each process saves its own moments.

Source: Zhao et al. 2023, "PyTorch FSDP"; `torch.distributed.fsdp.fully_shard` and `torch.distributed.checkpoint`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from accelerate import Accelerator
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from utils.config import TrainConfig
from utils.errors import UserError
from utils.model.gpt import XttsGpt
from utils.performance_utils import is_out_of_memory
from utils.training.optimizer.agreement import (
    AgreedError,
    in_memory,
    out_of_memory,
    process_named,
    require_everywhere,
    require_memory,
)
from utils.training.optimizer.gradient_sum import BucketSum, GradientSum

FOR_EVALUATION = "gathering the weights for evaluation"
FOR_CHECKPOINT = "gathering the weights for a checkpoint"


class ShardedSum(GradientSum):
    """Shards a model's weights along their first dimension; each process keeps and updates a part of each.

    A block's weights are gathered for its pass and freed after it; what lies outside the blocks is gathered for the
    whole step. Every micro-batch's gradients are summed at once: whole ones would have to be kept otherwise.

    Args:
        gpt: the model, on its device, the same in all processes; its parameters become DTensors.
        accelerator: the processes.
    """

    buckets = "gradients are sharded among the processes"

    def __init__(self, gpt: XttsGpt, accelerator: Accelerator) -> None:
        mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
        for block in gpt.gpt.h:
            fully_shard(block, mesh=mesh)
        fully_shard(gpt, mesh=mesh)
        self.model = gpt
        self._device = accelerator.device
        self._parts = [module for module in gpt.modules() if isinstance(module, FSDPModule)]
        self._whole_bytes = _whole_bytes(gpt, list(gpt.gpt.h))
        for part in self._parts:
            # Losses are divided by the targets of all processes already. A mere sum is what gloo knows, too.
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)

    def run(self, passes: Callable[[], None], sums: Tensor) -> Tensor:
        """As `GradientSum.run`, without a second try.

        Raises:
            UserError: this process is out of memory: the others are in the middle of a pass that cannot go on.
        """
        with process_named("training on sharded weights, whose steps cannot be repeated"):
            passes()
        dist.all_reduce(sums)
        return sums

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """All weights are whole meanwhile: gathering within a pass needs as many passes in every process.

        Raises:
            AgreedError: a process has no memory for them; raised in all processes, before any of them gathers.
            UserError: this process ran out of memory all the same.
        """
        # Next to all weights stands what is received of the part that is being gathered.
        require_memory([*self._whole_bytes, max(self._whole_bytes)], self._device, FOR_EVALUATION)
        with process_named(FOR_EVALUATION):
            for part in self._parts:
                part.set_reshard_after_forward(False, recurse=False)
                part.unshard()
        try:
            yield
        finally:
            for part in self._parts:
                part.reshard()
                part.set_reshard_after_forward(part is not self.model, recurse=False)


def _whole_bytes(gpt: nn.Module, blocks: Sequence[nn.Module]) -> list[int]:
    """Bytes of the whole weights of each block, then of all that lies outside the blocks."""
    each = [own_bytes(list(block.parameters()))[1] for block in blocks]
    return [*each, own_bytes(list(gpt.parameters()))[1] - sum(each)]


def make_gradient_sum(gpt: XttsGpt, accelerator: Accelerator, effective: TrainConfig) -> GradientSum | None:
    """What lets several processes take a step together; None where there is one process."""
    if accelerator.num_processes == 1:
        return None
    if effective.shard:
        return ShardedSum(gpt, accelerator)
    return BucketSum(gpt, accelerator)


def is_sharded(model: nn.Module) -> bool:
    """Whether its weights are sharded among processes."""
    return isinstance(model, FSDPModule)


@contextmanager
def whole_weights(module: nn.Module) -> Iterator[None]:
    """Gather a module's weights meanwhile, where they are sharded; all processes call this together."""
    if isinstance(module, FSDPModule):
        module.unshard()
    try:
        yield
    finally:
        if isinstance(module, FSDPModule):
            module.reshard()


def part_of(whole: Tensor, like: Tensor) -> Tensor:
    """A tensor sharded as another one is, without asking other processes; unchanged where that one is whole."""
    if not isinstance(like, DTensor) or isinstance(whole, DTensor):
        return whole
    return distribute_tensor(whole.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def own_bytes(tensors: Sequence[Tensor]) -> tuple[int, int]:
    """Bytes of tensors that this process keeps, and of all."""
    own = [tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors]
    return sum(tensor.nbytes for tensor in own), sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def gathered(tensors: Mapping[str, Tensor], device: torch.device, *, keep: bool) -> dict[str, Tensor]:
    """Gather sharded tensors one at a time, as copies in the machine's memory; all processes call this together.

    Args:
        tensors: the same names in all processes, sharded or whole.
        device: where they are.
        keep: whether this process wants them; it gets an empty dict otherwise.

    Raises:
        AgreedError: a process has no memory for it; raised in all of them.
        UserError: this process ran out of memory while the others went on.
    """
    largest = max((tensor.numel() * tensor.element_size() for tensor in tensors.values()), default=0)
    # A tensor, and what is received of it.
    require_memory([largest, largest], device, FOR_CHECKPOINT)
    found: dict[str, Tensor] = {}
    has_memory = True
    for name, tensor in tensors.items():
        with process_named(FOR_CHECKPOINT):
            whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor.detach().clone()
        if keep and has_memory:
            if (copy := in_memory(whole.detach().cpu)) is not None:
                found[name] = copy
            else:
                # Not raised yet: the others wait for this process in the next tensor.
                has_memory = False
                found.clear()
        del whole
    require_everywhere(has_memory, device, FOR_CHECKPOINT)
    return found


def save_parts(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors, each process its own part; all processes call this together.

    Args:
        folder: is created; on a disk that all processes share.
        tensors: the same names in all processes, sharded or whole.

    Raises:
        OSError: a process cannot write; raised in all of them.
        AgreedError: a process is out of memory; raised in all of them.
        SystemExit: a process was asked a second time to stop; raised in all of them.
    """
    # As safetensors: the format's own index is a pickle, which a folder from elsewhere could fill with code.
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    # The files know no tensors without dimensions, such as a count of steps.
    with_dimensions = {name: tensor if tensor.ndim else tensor.reshape(1) for name, tensor in tensors.items()}
    try:
        dcp.save(with_dimensions, storage_writer=writer)
    except CheckpointException as error:
        raise _fault_of(error) from error


def _fault_of(error: CheckpointException) -> BaseException:
    """What went wrong in the processes that could not write."""
    faults = {rank: fault for rank, (fault, _) in sorted(error.failures.items())}
    # torch takes a request to stop for a fault like any other.
    if stop := next((fault for fault in faults.values() if not isinstance(fault, Exception)), None):
        return stop
    if known := next((fault for fault in faults.values() if isinstance(fault, OSError)), None):
        return known
    if short := [rank for rank, fault in faults.items() if is_out_of_memory(fault)]:
        return out_of_memory(AgreedError, short, "writing a checkpoint")
    rank, fault = next(iter(faults.items()))
    return OSError(f"process {rank} cannot write: {fault}")


def read_parts(folder: Path, like: Callable[[str], Tensor | None]) -> dict[str, Tensor]:
    """Read what `save_parts` wrote, of which this process reads no more than it keeps.

    Args:
        folder: from `save_parts`; the number of processes may be another now.
        like: gives an empty tensor, sharded or whole, to be filled, by name; None skips a name.

    Raises:
        UserError: the folder is missing or damaged.
    """
    reader = HuggingFaceStorageReader(str(folder))
    try:
        names = reader.read_metadata().state_dict_metadata
        found = {name: tensor for name in names if (tensor := like(name)) is not None}
        is_any_sharded = any(isinstance(tensor, DTensor) for tensor in found.values())
        filled = {name: tensor if tensor.ndim else tensor.reshape(1) for name, tensor in found.items()}
        dcp.load(filled, storage_reader=reader, no_dist=not is_any_sharded)
    except (OSError, CheckpointException, SafetensorError, ValueError, RuntimeError) as error:
        raise UserError(
            what=f"the optimizer's moments cannot be read: {error}", where=str(folder), fix="name another checkpoint"
        ) from error
    return found
