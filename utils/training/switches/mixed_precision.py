"""Mixed precision: matrix products in half precision; weights, losses and norms stay float32."""

import torch

from utils.config import TrainConfig
from utils.training.switches.base import Behavior, Off, Seen, Trace
from utils.training.switches.optim import choose_precision


def _precision(asked: TrainConfig, device: torch.device) -> str | Off:
    precision = choose_precision(asked.mixed_precision, device)
    if precision != "fp32":
        return precision
    lacking = (
        "GPU has no matrix units for half precision" if device.type == "cuda" else "processor has no fast bf16 units"
    )
    return Off(f"this {lacking}: half precision would be slower than fp32")


def _products(trace: Trace) -> Seen:
    dtypes = trace.record.product_dtype, trace.record.stream_dtype
    products, stream = (str(dtype).removeprefix("torch.") for dtype in dtypes)
    scaler = "on" if trace.scaler else "off"
    observed = f"products {products}, block outputs {stream}, gradient scaler {scaler}"
    return Seen(dtypes[0] in (torch.bfloat16, torch.float16), observed, f"{products} matrix products")


# The trainer computes in it.
PRECISION = Behavior(resolve=_precision, observe=_products)
