"""Weights, gradients and moments cut among processes by PyTorch's FSDP2, and moments that each process saves itself.

Source: Zhao et al. 2023, "PyTorch FSDP"; `torch.distributed.fsdp.fully_shard` and `torch.distributed.checkpoint`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

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
from utils.training.optimizer.gradient_sum import BucketSum, GradientSum


class ShardedSum(GradientSum):
    """Cuts a model's weights along their first dimension; each process keeps and moves a part of each.

    A block's weights are gathered for its pass and given back after it; what lies outside the blocks is gathered for
    the whole step. Every micro-batch's gradients are summed at once: whole ones would have to be kept otherwise.

    Args:
        gpt: the model, on its device, the same in all processes; its parameters become DTensors.
        accelerator: the processes.
    """

    buckets = "gradients are cut among the processes"

    def __init__(self, gpt: XttsGpt, accelerator: Accelerator) -> None:
        mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
        for block in gpt.gpt.h:
            fully_shard(block, mesh=mesh)
        fully_shard(gpt, mesh=mesh)
        self.model = gpt
        self.sent = {}
        self._rank = accelerator.process_index
        self._parts = [module for module in gpt.modules() if isinstance(module, FSDPModule)]
        for part in self._parts:
            # Losses are divided by the targets of all processes already. A mere sum is what gloo knows, too.
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)

    def run(self, passes: Callable[[], None], sums: Tensor) -> Tensor:
        """As `GradientSum.run`, without a second try.

        Raises:
            UserError: this process is out of memory: the others are in the middle of a pass that cannot go on.
        """
        try:
            passes()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise UserError(
                what=f"process {self._rank} is out of memory, and weights that are cut cannot be taken back",
                where="--shard",
                fix="resume from the newest checkpoint with a smaller --batch-size or --gradient-checkpointing full",
            ) from error
        dist.all_reduce(sums)
        return sums

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """All weights are whole meanwhile: gathering within a pass needs as many passes in every process."""
        for part in self._parts:
            part.set_reshard_after_forward(False, recurse=False)
            part.unshard()
        try:
            yield
        finally:
            for part in self._parts:
                part.reshard()
                part.set_reshard_after_forward(part is not self.model, recurse=False)


def make_gradient_sum(gpt: XttsGpt, accelerator: Accelerator, effective: TrainConfig) -> GradientSum | None:
    """What lets several processes take a step together; None where there is one process."""
    if accelerator.num_processes == 1:
        return None
    if effective.shard:
        return ShardedSum(gpt, accelerator)
    return BucketSum(gpt, accelerator, effective.compress_gradients)


def is_sharded(model: nn.Module) -> bool:
    """Whether its weights are cut among processes."""
    return isinstance(model, FSDPModule)


@contextmanager
def whole_weights(module: nn.Module) -> Iterator[None]:
    """A module's weights are whole meanwhile, where they are cut; asked by all processes."""
    if isinstance(module, FSDPModule):
        module.unshard()
    try:
        yield
    finally:
        if isinstance(module, FSDPModule):
            module.reshard()


def part_of(whole: Tensor, like: Tensor) -> Tensor:
    """A tensor cut as another one is, without asking other processes; unchanged where that one is whole."""
    if not isinstance(like, DTensor) or isinstance(whole, DTensor):
        return whole
    return distribute_tensor(whole.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def own_bytes(tensors: Sequence[Tensor]) -> tuple[int, int]:
    """Bytes of tensors that this process keeps, and of all."""
    own = [tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors]
    return sum(tensor.nbytes for tensor in own), sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def gathered(tensors: Mapping[str, Tensor], *, keep: bool) -> dict[str, Tensor]:
    """Cut tensors as whole ones on the CPU, one at a time; asked by all processes.

    Args:
        tensors: the same names in all of them.
        keep: whether this process wants them; it gets an empty dict otherwise.
    """
    found = {}
    for name, tensor in tensors.items():
        whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if keep:
            found[name] = whole.detach().cpu()
        del whole
    return found


def save_parts(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors, each process its own part; asked by all of them.

    Args:
        folder: made anew; on a disk that all processes share.
        tensors: the same names in all processes, cut or whole.

    Raises:
        OSError: a process cannot write; raised in all of them.
    """
    # As safetensors: the format's own index is a pickle, which a folder from elsewhere could fill with code.
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    # The files know no tensors without dimensions, such as a count of steps.
    with_dimensions = {name: tensor if tensor.ndim else tensor.reshape(1) for name, tensor in tensors.items()}
    try:
        dcp.save(with_dimensions, storage_writer=writer)
    except CheckpointException as error:
        faults = [fault for fault, _ in error.failures.values()]
        known = next((fault for fault in faults if isinstance(fault, OSError)), None)
        raise known or OSError(f"process {min(error.failures)} cannot write: {faults[0]}") from error


def read_parts(folder: Path, like: Callable[[str], Tensor | None]) -> dict[str, Tensor]:
    """Read what `save_parts` wrote, of which this process reads no more than it keeps.

    Args:
        folder: from `save_parts`; the number of processes may be another now.
        like: gives an empty tensor, cut or whole, to be filled, by name; None leaves a name out.

    Raises:
        UserError: the folder is missing or damaged.
    """
    reader = HuggingFaceStorageReader(str(folder))
    try:
        names = reader.read_metadata().state_dict_metadata
        found = {name: tensor for name in names if (tensor := like(name)) is not None}
        is_cut = any(isinstance(tensor, DTensor) for tensor in found.values())
        filled = {name: tensor if tensor.ndim else tensor.reshape(1) for name, tensor in found.items()}
        dcp.load(filled, storage_reader=reader, no_dist=not is_cut)
    except (OSError, CheckpointException, SafetensorError, ValueError, RuntimeError) as error:
        raise UserError(
            what=f"the optimizer's moments cannot be read: {error}", where=str(folder), fix="name another checkpoint"
        ) from error
    return found
