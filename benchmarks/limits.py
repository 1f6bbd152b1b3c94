"""What the hardware can do at most, measured, and the memory traffic of an update."""

from dataclasses import dataclass

import torch

from utils.hardware.processor import cpu
from utils.performance_utils import least_s, product_s

REPEATS = 7

PARAMETERS = {30: 441.02e6}
"""Trained parameters by number of layers, where the sizes are XTTS v2's."""
UPDATE_BYTES = 28
"""Fused AdamW reads weight, gradient and two moments, and writes three of them: 7 float32 a parameter."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Peak rates of one device."""

    device: str
    flops: float
    """Of a large matrix product, in FLOP/s: bf16, or float32 on a CPU that multiplies it faster."""
    bandwidth: float
    """Of a copy on the device, read and written, in bytes/s."""
    products: str = "bf16"
    """Data type of that product."""


def measure_limits(device: str) -> Limits:
    """Measure both rates on this machine."""
    where = torch.device(device)
    side = 8192 if where.type == "cuda" else 2048
    dtypes = {"bf16": torch.bfloat16} if where.type == "cuda" else {"bf16": torch.bfloat16, "fp32": torch.float32}
    seconds = {name: product_s(where, dtype, side=side, repeats=REPEATS) for name, dtype in dtypes.items()}
    fastest = min(seconds, key=lambda name: seconds[name])
    source = torch.empty(1 << 28, dtype=torch.uint8, device=where)
    target = torch.empty_like(source)
    copy = least_s(lambda: target.copy_(source), where, repeats=REPEATS)
    name = torch.cuda.get_device_name(where) if where.type == "cuda" else cpu().model
    threads = "" if where.type == "cuda" else f" ({torch.get_num_threads()} threads)"
    return Limits(
        device=name + threads,
        flops=2 * side**3 / seconds[fastest],
        bandwidth=2 * source.nbytes / copy,
        products=fastest,
    )


def num_parameters(layers: int, width: int, heads: int) -> float:
    """Trained parameters: XTTS v2's at full size, by its blocks and embeddings at others."""
    return PARAMETERS.get(layers, 12 * layers * width**2 + 2 * 7_707 * width)
