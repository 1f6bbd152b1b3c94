"""Float32 products in float32, also where training has them in TF32."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def exact_float32() -> Iterator[None]:
    """Keep TF32 out of matrix products and convolutions inside the block.

    Through torch's older settings, which write its newer ones alike: where a newer one alone was written, torch 2.11
    raises when anything reads the older one. They are the process's: two threads must not be inside at once.
    """
    backends: Any = torch.backends
    products, convolutions = torch.get_float32_matmul_precision(), backends.cudnn.allow_tf32
    places = (backends.cuda.matmul, backends.mkldnn.matmul, backends.cudnn.conv, backends.cudnn.rnn)
    kept = [place.fp32_precision for place in places]
    try:
        torch.set_float32_matmul_precision("highest")
        backends.cudnn.allow_tf32 = False
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        backends.cudnn.allow_tf32 = convolutions
        # Finer than the older settings tell them apart.
        for place, precision in zip(places, kept, strict=True):
            place.fp32_precision = precision
