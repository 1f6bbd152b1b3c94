"""Try each path that only a GPU has once, on a small input, before a run relies on it.

What fails is off with the reason, and the run computes without it. Compiled blocks need no trial: a step that cannot be
compiled is computed again by the blocks as they are written. The packages of flash-attn and bitsandbytes have one
of their own.
"""

from dataclasses import replace

import torch

from utils.model.attention import varlen_attention
from utils.performance_utils.device import SIDE, half_precision_fault, trial
from utils.training.switches.base import GRAPHS, Switches
from utils.training.switches.optim import DTYPES


def try_gpu_paths(switches: Switches, device: torch.device) -> None:
    """Try what a run on this GPU is going to use, and switch off what fails."""
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
    assert bool((values == 1).all()), "a captured graph computed something else"
