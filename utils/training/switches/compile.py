"""torch.compile of the repeated blocks, in place, where this machine can compile at all.

The compiler takes seconds to load, which only a run that compiles has to wait for.
"""

import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import nn

from utils.config import TrainConfig
from utils.hardware.processor import compiler
from utils.model.gpt import XttsGpt
from utils.options import CompileMode
from utils.training.switches.base import GRAPHS, Behavior, Off, Seen, Trace

TRITON_CAPABILITY = (7, 0)
"""First CUDA compute capability that PyTorch tries Triton on, which writes the kernels (torch.utils._triton). Triton
itself promises 8.0 and newer, so that `recommend` advises it there only."""
MAX_SHAPES = 64
"""Versions of a block that may be compiled; torch stops at 8."""


def compiler_problem(device: torch.device) -> str | None:
    """Why nothing can be compiled for this device on this machine; None when it can be tried."""
    from torch._dynamo.eval_frame import is_dynamo_supported

    if not is_dynamo_supported():
        return f"torch.compile does not support Python {platform.python_version()}"
    if device.type == "mps":
        return "compiled blocks were not tried on Apple's GPU"
    if device.type == "cuda":
        return triton_problem(device)
    return headers_problem() or (None if compiler() else "no compiler; install g++ (or set CXX to one)")


def headers_problem() -> str | None:
    """Why nothing can be built that Python is to call; None when it can be tried."""
    found = (Path(sysconfig.get_path("include")) / "Python.h").is_file()
    return None if found else "no Python headers; install python3-dev"


def triton_problem(device: torch.device) -> str | None:
    """Why no kernel in Triton runs on this GPU; None when it can be tried."""
    capability = torch.cuda.get_device_capability(device)
    if capability < TRITON_CAPABILITY:
        return f"Triton has no kernels for compute capability {capability[0]}.{capability[1]}; it needs 7.0"
    if find_spec("triton") is None:
        return "Triton is not installed; it comes with torch on Linux, as triton-windows on Windows"
    names = [os.environ.get("CC", "cc"), "gcc", "clang"]
    if platform.system() != "Windows" and not any(map(shutil.which, names)):
        return "no compiler; install gcc"
    return headers_problem()


def compile_blocks(gpt: XttsGpt, mode: CompileMode) -> None:
    """Compile each block in place at its first call, unless that is off; names of weights stay."""
    if mode == "off":
        return
    import torch._dynamo

    # What an earlier run in this process compiled would hide whether this one does, and count against its shapes.
    torch._dynamo.reset()
    torch._dynamo.config.recompile_limit = MAX_SHAPES
    # Otherwise what is beyond the limit runs uncompiled without a word.
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    for block in _blocks(gpt):
        block.compile(mode=None if mode == "default" else mode)


def uncompile_blocks(gpt: XttsGpt) -> None:
    """Run the blocks as they are written again."""
    import torch._dynamo

    torch._dynamo.config.fail_on_recompile_limit_hit = False
    for block in _blocks(gpt):
        block._compiled_call_impl = None


def mark_step() -> None:
    """Let CUDA graphs reuse the memory of the step before, where there are any."""
    if "torch._inductor.cudagraph_trees" in sys.modules:  # loading it for nothing takes seconds
        torch.compiler.cudagraph_mark_step_begin()


def failures() -> tuple[type[Exception], ...]:
    """What compiling raises when it fails, at the first step rather than before."""
    from torch._dynamo.exc import FailOnRecompileLimitHit, TorchDynamoException
    from torch._inductor.exc import InductorError, InvalidCxxCompiler

    return TorchDynamoException, FailOnRecompileLimitHit, InductorError, InvalidCxxCompiler


def failure(error: BaseException) -> str:
    """What one of `failures` says, in a line."""
    from torch._dynamo.exc import FailOnRecompileLimitHit

    if isinstance(error, FailOnRecompileLimitHit):
        return f"a block was to be compiled more than {MAX_SHAPES} times"
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def _blocks(gpt: XttsGpt) -> Iterator[nn.Module]:
    yield from gpt.gpt.h
    yield from gpt.conditioning_encoder.attn


def compile_mode(asked: TrainConfig, device: torch.device) -> CompileMode | Off:
    if problem := compiler_problem(device):
        return Off(problem)
    if device.type == "cpu" and asked.compile == "reduce-overhead":
        return Off("reduce-overhead records CUDA graphs, which a CPU has none of; use default")
    return asked.compile


def _compiled(trace: Trace) -> Seen:
    record, switches = trace.record, trace.switches
    if "compile" in switches.off:
        # It may have failed after the step that was watched.
        return Seen(False, "the blocks run as they are written")
    observed = f"{record.compiled} of {record.passes} block passes ran compiled"
    observed += f"; {record.num_graphs} graphs compiled in this step"
    if record.num_skips:
        observed += f"; CUDA graphs skipped {record.num_skips} times"
    if GRAPHS in switches.off:
        return Seen(False, f"{observed}; without CUDA graphs, which failed their trial: {switches.off[GRAPHS]}")
    # Of max-autotune the graphs are only a part.
    lacks_graphs = record.num_skips > 0 and switches.effective.compile == "reduce-overhead"
    return Seen(0 < record.compiled == record.passes and not lacks_graphs, observed)


COMPILE = Behavior(
    resolve=compile_mode,
    apply=lambda gpt, effective: compile_blocks(gpt, effective.compile),
    observe=_compiled,
)
