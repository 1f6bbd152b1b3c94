"""Try each path that only a GPU has once, on a small input, before a run relies on it.

What fails is off with the reason, and the run computes without it. Compiled blocks need no trial: a step that cannot be
compiled is computed again by the blocks as they are written. The packages of flash-attn and bitsandbytes have one
of their own.
"""

import logging
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from utils.model.attention import varlen_attention
from utils.training.switches.base import Switches
from utils.training.switches.optim import DTYPES

log = logging.getLogger(__name__)

SIDE = 64
"""Positions and width of what is tried: as the head of an XTTS GPT."""


def trial(work: Callable[[], object]) -> str:
    """Why a piece of work fails on the GPU, in a line; empty where it works."""
    try:
        # What a run draws must not depend on what was tried before it.
        with torch.random.fork_rng():
            work()
        # Kernels fail after the call that launches them.
        torch.cuda.synchronize()
    # A driver, a compiler or a package built for another GPU may say so in any way.
    except Exception as error:
        log.debug("a trial failed", exc_info=True)
        return (str(error).splitlines() or [type(error).__name__])[0]
    return ""


def try_gpu_paths(switches: Switches, device: torch.device) -> None:
    """Try what a run on this GPU is going to use, and switch off what fails."""
    effective = switches.effective
    dtype = DTYPES[effective.mixed_precision]
    if dtype != torch.float32 and (fault := trial(lambda: _half_precision(device, dtype))):
        switches.off["mixed_precision"] = f"{effective.mixed_precision} failed its trial: {fault}"
        switches.effective = effective = replace(effective, mixed_precision="fp32")
        switches.layout = "rows"
    if switches.layout == "packed" and (fault := trial(lambda: _packed_attention(device, dtype))):
        switches.layout = "rows"
        switches.without_flash_attn = f"variable-length attention failed its trial: {fault}"
    if effective.compile == "reduce-overhead" and (fault := trial(lambda: _captured_graph(device))):
        log.warning("compiling without CUDA graphs, whose trial failed: %s", fault)
        switches.effective = replace(effective, compile="default")


def pinning_fault() -> str:
    """Why this machine has no page-locked memory, from which a GPU copies while it computes; empty where it has."""
    return trial(lambda: torch.empty(SIDE).pin_memory())


def _half_precision(device: torch.device, dtype: torch.dtype) -> None:
    layer, scaler = nn.Linear(SIDE, SIDE, device=device), torch.amp.GradScaler(device.type)
    with torch.autocast(device.type, dtype=dtype):
        loss = layer(torch.ones(SIDE, SIDE, device=device)).float().mean()
    scaler.scale(loss).backward()
    assert layer.weight.grad is not None and bool(layer.weight.grad.isfinite().all()), "gradients are not finite"


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
    assert bool((values == 1).all()), "a captured graph computed something else"
