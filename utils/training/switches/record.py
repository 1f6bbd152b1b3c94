"""What a training step really did, read from the operations of one of its micro-batches."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from operator import sub
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import profiler_legacy
from torch.autograd.graph import saved_tensors_hooks
from torch.autograd.profiler_util import FunctionEvent
from torch.nn.attention import current_flash_attention_impl
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from utils.model.gpt import XttsGpt, saved_operations, unwatched

KERNELS = {
    "aten::_scaled_dot_product_flash_attention": "flash",
    "aten::_scaled_dot_product_flash_attention_for_cpu": "flash (CPU)",
    "aten::_scaled_dot_product_efficient_attention": "memory-efficient",
    "aten::_scaled_dot_product_cudnn_attention": "cuDNN",
    "aten::_scaled_dot_product_attention_math": "math",
    "aten::_flash_attention_forward": "varlen flash",
    "flash_attn::_flash_attn_varlen_forward": "flash-attn 2",
    "MatrixAttention": "matrix products (CPU)",
    "PackedMatrixAttention": "matrix products (CPU)",
    # What is left to see of `MatrixAttention` in compiled code; nothing else in a block computes with it.
    "aten::baddbmm": "matrix products (CPU)",
}
"""Operations that attention is dispatched to, and what people call them."""
REPLACED = {"flash", "varlen flash"}
"""Kernels of PyTorch's that another implementation takes the place of where it is active."""
IMPLEMENTATIONS = {"FA3": "flash-attn 3", "FA4": "flash-attn 4"}
"""Those of PyTorch's registry, and what people call them."""
PACKAGED = frozenset({"flash-attn 2", *IMPLEMENTATIONS.values()})
"""Kernels of the flash-attn packages."""
EXPLICIT = "explicit softmax"
SLOW = frozenset({"math", EXPLICIT})
"""Kernels that write the attention weights out in several passes: with one of these SDPA is off."""
_SOFTMAX = "aten::_softmax"
"""Tells explicit attention apart, where it is not a part of one of the kernels above."""
_BLOCK = "transformer block"
"""What a pass of a block is called among the recorded operations."""
_COMPILED = "Torch-Compiled Region"
"""Begins the name of what torch.compile made of a function, where it runs."""
_COMPILING = "(dynamo_timed)"
"""Ends the names of torch.compile's phases, where it records them: operations within are tried on tensors without
numbers, not run."""
_DISPATCHED = "PythonDispatchMode"
_TRIED = {"ApplyTemplate", _DISPATCHED}
"""What such operations are also a part of."""


@dataclass(kw_only=True)
class StepRecord:
    """What one micro-batch did, forward and backward."""

    kernels: Counter[str] = field(default_factory=Counter)
    """How often each attention kernel ran in the transformer blocks, recomputations included."""
    other_kernels: Counter[str] = field(default_factory=Counter)
    """The same of the conditioning encoder and the perceiver."""
    passes: int = 0
    """Passes of single blocks that were watched."""
    compiled: int = 0
    """Those of them that ran compiled code."""
    hidden: int = 0
    """Those of them in which no attention kernel was seen: compiled code may have one of its own."""
    forward_runs: int = 0
    """Forward passes of single transformer blocks that the forward pass itself needs."""
    recomputed: int = 0
    """Forward passes of single transformer blocks made once more in the backward pass."""
    conditioning_recomputed: int = 0
    """The same of the conditioning encoder's blocks."""
    block_bytes: int = 0
    """What one block keeps for its backward pass without checkpointing."""
    kept_bytes: int = 0
    """What it keeps as it ran."""
    product_dtype: torch.dtype | None = None
    """Data type of the matrix products, seen at the code head."""
    stream_dtype: torch.dtype | None = None
    """Data type of the last block's output."""
    num_graphs: int = 0
    """Graphs compiled in the step that the micro-batch is of."""
    num_skips: int = 0
    """Times in that step that Inductor went without CUDA graphs although they were asked for."""


@dataclass(eq=False)
class Operation:
    """A recorded operation and the one that it is a part of; the part of torch's `FunctionEvent` that is read here."""

    name: str
    cpu_parent: "Operation | None"


@contextmanager
def record_step(gpt: XttsGpt) -> Iterator[StepRecord]:
    """Watch the operations of a forward and backward pass; the record is complete when the block ends.

    Each operation takes time to note and memory until the end: a step is watched in one of its micro-batches only.

    Args:
        gpt: the model that is trained; small hooks are attached for that time.
    """
    record, num_passes, block_inputs = StepRecord(), 0, tuple[Any, ...]()

    def heads(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        nonlocal num_passes
        num_passes += 1
        record.product_dtype = output.dtype

    def stream(module: nn.Module, inputs: tuple[Tensor]) -> None:
        record.stream_dtype = inputs[0].dtype

    def block_pass(*inputs: Any) -> AbstractContextManager[Any]:
        nonlocal block_inputs
        # A recomputation in the backward pass comes here too; any of them will do.
        block_inputs = (inputs[0].detach(), *inputs[1:])
        return record_function(_BLOCK)

    hooks = [gpt.mel_head.register_forward_hook(heads), gpt.gpt.ln_f.register_forward_pre_hook(stream)]
    gpt.watch = block_pass
    before, compiled = (gpt.block_runs, gpt.conditioning_runs), compile_counts()
    try:
        with _operations(gpt.mel_head.weight.device) as events:
            yield record
    finally:
        gpt.watch = unwatched
        for hook in hooks:
            hook.remove()
    count_kernels(events, record)
    # The heads run once in each forward pass, so this many runs of a block the forward passes need. Any more were
    # recomputations: activation checkpointing is proven by what ran, whatever the settings say.
    record.forward_runs = num_passes * gpt.shape.layers
    record.recomputed = gpt.block_runs - before[0] - record.forward_runs
    conditioning_runs = num_passes * len(gpt.conditioning_encoder.attn)
    record.conditioning_recomputed = gpt.conditioning_runs - before[1] - conditioning_runs
    record.num_graphs, record.num_skips = map(sub, compile_counts(), compiled)
    if block_inputs:
        gpus = [x.device for x in block_inputs[:1] if x.is_cuda]
        # Later micro-batches of the step must draw what they would have drawn without this.
        with torch.random.fork_rng(gpus):
            record.block_bytes, record.kept_bytes = _block_bytes(gpt, block_inputs, record)


@contextmanager
def _operations(device: torch.device) -> Iterator[list[Operation | FunctionEvent]]:
    """The operations that ran on `device`'s behalf; the list is filled when the block ends."""
    events: list[Operation | FunctionEvent] = []
    if device.type == "cpu":
        # Without Kineto: that asks CUDA for GPUs, and prints an error where there is no driver.
        profiler_legacy._enable_profiler_legacy(profiler_legacy.profile().config())
        records: list[list[Any]] = []
        try:
            yield events
        finally:
            records = profiler_legacy._disable_profiler_legacy()
        for thread in records:
            events.extend(_nested(thread))
    else:
        with profile(activities=[ProfilerActivity.CPU], acc_events=True) as watched:
            yield events
        events.extend(watched.events())


def _nested(records: list[Any]) -> Iterator[Operation]:
    """A thread's operations, each with the innermost one that was open when it began.

    Torch's own reader of these records also takes times and memory, which takes longer than the step of a small model,
    and fails on ends of what began in another thread, such as DDP's exchanges of gradients.
    """
    open_operations: dict[tuple[int, int], Operation] = {}
    before = ""
    for record in records:
        key, kind = (record.handle(), record.node_id()), record.kind()
        name = record.name() if kind == "push" else ""
        # The dispatcher records some operations twice in a row.
        if kind == "push" and name != before:
            open_operations[key] = Operation(name, next(reversed(open_operations.values()), None))
            yield open_operations[key]
        elif kind == "pop" and (ended := open_operations.pop(key, None)):
            # A range that began inside an operation and outlives it is no part of it: under a dispatch mode, such as of
            # selective checkpointing, the operation that begins the range ends at once.
            for inner in open_operations.values():
                if inner.cpu_parent is ended:
                    inner.cpu_parent = ended.cpu_parent
        before = name


def _block_bytes(gpt: XttsGpt, inputs: tuple[Any, ...], record: StepRecord) -> tuple[int, int]:
    """What one block keeps without checkpointing, and as it ran: from its operations, run once more."""
    x = inputs[0].detach().requires_grad_()
    block = gpt.gpt.h[0].forward
    dtype = record.product_dtype or torch.float32
    autocast = torch.autocast(x.device.type, dtype=dtype, enabled=dtype != torch.float32)
    with autocast:
        everything = saved_bytes(lambda: block(x, *inputs[1:]), but=gpt.gpt.h[0].parameters())
        if record.recomputed == 0:
            return everything, everything
        if gpt.options.checkpointing == "full":
            return everything, x.nbytes
        with _KeptOutputs() as kept:
            block(x, *inputs[1:])
    return everything, x.nbytes + kept.num_bytes


class _KeptOutputs(TorchDispatchMode):
    """Adds up the outputs of the operations that selective checkpointing keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = set(saved_operations())
        self.num_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in self.kept:
            self.num_bytes += sum(t.nbytes for t in tree_leaves(out) if isinstance(t, Tensor))
        return out


def saved_bytes(forward: Callable[[], Tensor], *, but: Iterable[Tensor] = ()) -> int:
    """Memory that a forward pass keeps for its backward pass, in bytes; storages that are kept twice count once.

    Args:
        forward: computes something that requires gradients; what it saves is measured, then dropped.
        but: what does not count: the weights, which are there anyway, those that do not learn among them.
    """
    storages: dict[int, int] = {}
    weights = {tensor.untyped_storage().data_ptr() for tensor in but}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        kept = forward()
    del kept
    return sum(storages.values())


def kernel_of(operation: str) -> str | None:
    """What people call the attention kernel that an operation is; None of all others."""
    kernel = KERNELS.get(operation, EXPLICIT if operation == _SOFTMAX else None)
    active = current_flash_attention_impl()
    return IMPLEMENTATIONS.get(active, active) if active and kernel in REPLACED else kernel


def count_kernels(events: Iterable[Operation | FunctionEvent], record: StepRecord) -> None:
    """Attention kernels of the blocks, pass by pass, and of all else."""
    events = list(events)
    passes: dict[int, Counter[str]] = {id(event): Counter() for event in events if event.name == _BLOCK}
    compiled = {_block_of(event) for event in events if event.name.startswith(_COMPILED)}
    dispatched = {id(outer) for event in events if event.name == _DISPATCHED for outer in _ancestors(event)}
    for event in events:
        kernel, around = kernel_of(event.name), list(_ancestors(event))
        if kernel is None:
            continue
        if any(outer.name in KERNELS or outer.name in _TRIED or outer.name.endswith(_COMPILING) for outer in around):
            continue  # A part of a kernel that is counted, or an operation that was only tried.
        block, is_compiled = _block_of(event), any(outer.name.startswith(_COMPILED) for outer in around)
        if block is None:
            tried = not is_compiled and None in compiled and id(event) in dispatched
        else:
            # Before a pass runs compiled code, it is tried; behind it is the backward pass of such code.
            tried = is_compiled != (block in compiled)
        if tried:
            continue
        seen = record.other_kernels if block is None else passes.setdefault(block, Counter())
        seen[kernel] += 1
    record.passes, record.compiled = len(passes), len(compiled - {None})
    record.hidden = sum(not kernels for kernels in passes.values())
    record.kernels = sum(passes.values(), Counter())


def _block_of(event: Operation | FunctionEvent) -> int | None:
    """The pass of a block that an operation is a part of."""
    return next((id(outer) for outer in _ancestors(event) if outer.name == _BLOCK), None)


def _ancestors(event: Operation | FunctionEvent) -> Iterator[Operation | FunctionEvent]:
    """The operations that an operation is a part of, the innermost first."""
    outer = event.cpu_parent
    while outer is not None:
        yield outer
        outer = outer.cpu_parent


def compile_counts() -> tuple[int, int]:
    """Of this process so far: graphs that were compiled, and times that Inductor went without the CUDA graphs that were
    asked for, which it only logs."""
    loaded = sys.modules.get("torch._dynamo.utils")
    return (
        (loaded.counters["stats"]["unique_graphs"], loaded.counters["inductor"]["cudagraph_skips"])
        if loaded
        else (0, 0)
    )
