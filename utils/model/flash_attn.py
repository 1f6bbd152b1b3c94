"""The flash-attn packages where they are installed: which of their kernels runs on this GPU, seen by a trial.

Shapes: T positions, H heads, C channels a head.

FlashAttention-2 is called through its package. FlashAttention-3 and 4 take the place of PyTorch's own kernel, by its
registry (`torch.nn.attention.activate_flash_attention_impl`). No GPU was at hand: what is called with which arguments
is tested, speed and results are not measured yet.
"""

import importlib
import importlib.util
import logging
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import (
    activate_flash_attention_impl,
    current_flash_attention_impl,
    list_flash_attention_impls,
    restore_flash_attention_impl,
)

Kernel = Literal["torch", "flash-attn 2", "flash-attn 3", "flash-attn 4"]

NOT_INSTALLED = "flash-attn is not installed"

log = logging.getLogger(__name__)


class Package(NamedTuple):
    """One of the packages."""

    kernel: Kernel
    module: str
    majors: tuple[int, ...]
    """Major compute capabilities that it has kernels for."""
    registered: str = ""
    """Its name in PyTorch's registry; empty where it is called itself."""


PACKAGES = (
    Package("flash-attn 4", "flash_attn.cute.interface", (10,), "FA4"),
    Package("flash-attn 3", "flash_attn_interface", (9,), "FA3"),
    Package("flash-attn 4", "flash_attn.cute.interface", (9,), "FA4"),
    Package("flash-attn 2", "flash_attn", (8, 9, 10, 11, 12)),
)
"""In the order in which they are tried: the fastest kernels of a GPU first."""


def use_flash_attn(device: torch.device, dtype: torch.dtype, channels: int) -> tuple[Kernel, str]:
    """The fastest kernel of an installed package that computes on this GPU, ready to be called; else PyTorch's own.

    Args:
        device: a CUDA device.
        dtype: of queries, keys and values.
        channels: of a head.

    Returns:
        The kernel, and why it is none of a package's; empty where it is.
    """
    faults: list[str] = []
    major, minor = torch.cuda.get_device_capability(device)
    installed = [package for package in PACKAGES if _is_installed(package.module)]
    for package in installed:
        if major not in package.majors:
            faults.append(f"{package.kernel} has no kernels for compute capability {major}.{minor}")
            continue
        try:
            activate(package.kernel)
            _try(package.kernel, device, dtype, channels)
        # A package built for another torch, without kernels for this GPU or for heads of this size says so in any way.
        except Exception as error:
            log.debug("%s cannot be used", package.kernel, exc_info=True)
            first_line = (str(error).splitlines() or [type(error).__name__])[0]
            faults.append(f"{package.kernel} failed its trial: {first_line}")
        else:
            return package.kernel, ""
    activate("torch")
    return "torch", "; ".join(dict.fromkeys(faults)) or NOT_INSTALLED


def activate(kernel: Kernel) -> None:
    """Have PyTorch's operations compute with this kernel in this process, or with their own again.

    Raises:
        ValueError: this torch does not know it.
        ImportError, RuntimeError: the package cannot be loaded.
    """
    registered = next((package.registered for package in PACKAGES if package.kernel == kernel), "")
    if registered and registered not in list_flash_attention_impls():
        raise ValueError(f"torch {torch.__version__} knows no {registered}")
    if registered:
        activate_flash_attention_impl(registered)
    elif current_flash_attention_impl() is not None:
        restore_flash_attention_impl()


def flash_attention(q: Tensor, k: Tensor, v: Tensor, *, cu_seqlens: Tensor, max_seqlen: int, kernel: Kernel) -> Tensor:
    """Causal attention within each clip of a packed row by one variable-length kernel, without dropout.

    Args:
        q, k, v: half precision, [T, H, C].
        cu_seqlens: where clips begin, and the end, int32 [N + 1].
        max_seqlen: positions of the longest clip.
        kernel: from `use_flash_attn`.
    """
    if kernel == "flash-attn 2":
        attend = importlib.import_module("flash_attn").flash_attn_varlen_func
        seen: Tensor = attend(
            q,
            k,
            v,
            cu_seqlens_q=cu_seqlens,
            cu_seqlens_k=cu_seqlens,
            max_seqlen_q=max_seqlen,
            max_seqlen_k=max_seqlen,
            dropout_p=0.0,
            causal=True,
        )
        return seen
    # The operation beneath torch's `varlen_attn`, written in Python: its forward and backward pass took 0.25 ms
    # more of the processor for each block (a quarter of a block's; on an H200 a step waits for the processor). It also
    # always passes a window, which the backward pass of FlashAttention-4 refuses.
    found: tuple[Tensor, ...] = torch.ops.aten._flash_attention_forward(
        q, k, v, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, 0.0, True, False
    )
    return found[0]


def _try(kernel: Kernel, device: torch.device, dtype: torch.dtype, channels: int) -> None:
    """A small forward and backward pass, waited for: errors of kernels come late."""
    q, k, v = (torch.zeros(8, 1, channels, dtype=dtype, device=device, requires_grad=True) for _ in range(3))
    bounds: Any = torch.tensor([0, 3, 8], dtype=torch.int32, device=device)
    flash_attention(q, k, v, cu_seqlens=bounds, max_seqlen=8, kernel=kernel).sum().backward()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    assert q.grad is not None and q.grad.shape == q.shape


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        # A package around it is missing or cannot be loaded; only the latter is a fault, which its own trial shows.
        return False
