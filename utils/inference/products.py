"""The data types that speech is computed in, and the GPT's linear layers prepared in them for decoding.

There is one set of weights, read once for a code of every sentence.

Decoding a code reads each weight once and multiplies it once for each sentence, so its time is the time of reading the
weights: half the bytes is half the time.

Shapes: N rows (one for each sentence), n positions, I inputs, O outputs, D model width, H heads, C channels a head.
"""

import logging
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.errors import UserError
from utils.hardware.gpu import AMPERE, VOLTA
from utils.model.gpt import Block
from utils.options import SpeechPrecision
from utils.performance_utils.device import cpu_has_bf16, half_precision_fault

Product = Callable[[Tensor], Tensor]
"""[N, I] to [N, O]; float32 in and out on a CPU, any type in and the weights' type out on a GPU."""

PRODUCTS = ("c_attn", "c_proj", "c_fc", "c_out")
"""Those of a block, by their names in `PreparedBlock`."""
HALF: dict[SpeechPrecision, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}
INPUT_LEVELS = 63
"""Of an input's 8 bits, levels on either side of zero: AVX2 adds pairs of 8-bit products in 16 bits, which 127
levels would overflow (FBGEMM, reduce_range)."""
WEIGHT_LEVELS = 127
COPY_BYTES: dict[SpeechPrecision, int] = {"fp32": 0, "bf16": 2, "fp16": 2, "int8": 1}
"""Bytes of a prepared weight beside the original."""

log = logging.getLogger(__name__)


def product(weight: Tensor, bias: Tensor, precision: SpeechPrecision) -> Product:
    """A linear layer y = x W^T + b for inference.

    Args:
        weight: [O, I], float32, on its device; a transposed view will do, of which fp32 makes no copy.
        bias: [O].
        precision: of the weights. A row's result never depends on the other rows but for the rounding of float32 sums.
    """
    weight, bias = weight.detach(), bias.detach()
    if weight.is_cuda:
        # There is no 8-bit kernel for so few rows in PyTorch itself; `resolve_precision` never asks for one.
        dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[precision]
        # [I, O], as the model has it: cuBLAS multiplies one row by a square one in 4.7 microseconds, not 7.7 (H200).
        kept, added = weight.T.to(dtype).contiguous(), bias.to(dtype)
        return lambda x: torch.addmm(added, x.to(dtype), kept)
    return _ON_CPU[precision](weight, bias)


def _fp32(weight: Tensor, bias: Tensor) -> Product:
    return lambda x: F.linear(x, weight, bias)


def _bf16(weight: Tensor, bias: Tensor) -> Product:
    kept, added = weight.bfloat16().contiguous(), bias.bfloat16()

    def multiply(x: Tensor) -> Tensor:
        # For so few rows oneDNN repacks the weights at each call, which takes twice the time of reading them. TF32 is
        # left as it is: writing it makes PyTorch warn of Intel GPUs.
        with torch.backends.mkldnn.flags(enabled=False, allow_tf32=None):
            return F.linear(x.bfloat16(), kept, added).float()

    return multiply


def _fp16(weight: Tensor, bias: Tensor) -> Product:
    try:
        packed = torch.ops.quantized.linear_prepack_fp16(weight.contiguous(), bias)
        kernel = torch.ops.quantized.linear_dynamic_fp16
    except (RuntimeError, AttributeError):
        log.warning("this PyTorch has no 16-bit products for this CPU: fp32 products of rounded weights instead")
        return _fp32(weight.half().float(), bias)
    return lambda x: kernel(x, packed)


def _int8(weight: Tensor, bias: Tensor) -> Product:
    scales = (weight.abs().amax(1) / WEIGHT_LEVELS).clamp(min=1e-12)
    try:
        zeros = torch.zeros(len(scales), dtype=torch.long)
        rounded = torch.quantize_per_channel(weight.contiguous(), scales.double(), zeros, 0, torch.qint8)
        # Without the bias: it is added after the rows have their scales again.
        packed = torch.ops.quantized.linear_prepack(rounded, None)
        kernel = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
    except (RuntimeError, AttributeError):
        log.warning("this PyTorch has no 8-bit products for this CPU: fp32 products of rounded weights instead")
        rounded = (weight / scales[:, None]).round().clamp(-WEIGHT_LEVELS, WEIGHT_LEVELS)
        return _fp32(rounded * scales[:, None], bias)

    def multiply(x: Tensor) -> Tensor:
        # Each row is scaled by its own largest value: one scale for all rows, as the dynamic kernel takes it, would let
        # what is spoken beside a sentence change it. The sums of 8-bit products are exact.
        largest = x.abs().amax(1, keepdim=True).clamp_(min=1e-12)
        out: Tensor = kernel(x / largest, 1 / INPUT_LEVELS, INPUT_LEVELS + 1, packed)
        return torch.addcmul(bias, out, largest)

    return multiply


_ON_CPU: dict[SpeechPrecision, Callable[[Tensor, Tensor], Product]] = {
    "fp32": _fp32,
    "bf16": _bf16,
    "fp16": _fp16,
    "int8": _int8,
}


class PreparedBlock:
    """A block of the GPT with its products prepared; the sum that runs through the blocks stays float32.

    Args:
        block: on its device.
        precision: of the products.
        release: free the original weights whose prepared form is another tensor.
    """

    def __init__(self, block: Block, precision: SpeechPrecision, *, release: bool = False) -> None:
        self.heads = block.attn.heads
        self.ln_1, self.ln_2 = block.ln_1, block.ln_2
        layers = (block.attn.c_attn, block.attn.c_proj, block.mlp.c_fc, block.mlp.c_proj)
        self.num_bytes = COPY_BYTES[precision] * sum(layer.weight.numel() for layer in layers)
        prepared = (product(layer.weight.T, layer.bias, precision) for layer in layers)
        self.c_attn, self.c_proj, self.c_fc, self.c_out = prepared
        if release and self.num_bytes:
            for layer in layers:
                layer.weight = nn.Parameter(layer.weight.new_empty(0), requires_grad=False)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Of [N, n, D] queries, [N, H, n, C], and keys and values, [2, N, H, n, C]."""
        rows, length, width = x.shape
        out = self.c_attn(self.ln_1(x).view(-1, width)).view(rows, length, 3, self.heads, width // self.heads)
        found = out.permute(2, 0, 3, 1, 4)
        return found[0], found[1:]

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """The block's output [N, n, D] from its input and its attention's, [N, H, n, C]."""
        width = x.size(-1)
        x = x + self.c_proj(attended.transpose(1, 2).reshape(-1, width)).view_as(x)
        inner = F.gelu(self.c_fc(self.ln_2(x).view(-1, width)), approximate="tanh")
        return x + self.c_out(inner).view_as(x)


def resolve_precision(wanted: SpeechPrecision, device: torch.device) -> SpeechPrecision:
    """The data type of the GPT's weights.

    Args:
        wanted: auto takes 16 bits where they are faster: float16 on a CPU, bfloat16 on a GPU of the Ampere generation
            or newer, float16 on Volta and Turing.
        device: where it computes.

    Raises:
        UserError: 8 bits on a GPU, or a type that the device has no fast kernels for.
    """
    if device.type == "mps":
        if wanted not in ("auto", "fp32"):
            raise UserError(what=f"Apple's GPU speaks in fp32, not in {wanted}", fix="use --precision fp32 or auto")
        return "fp32"
    if device.type == "cpu":
        return "fp16" if wanted == "auto" else wanted
    if wanted == "int8":
        raise UserError(what="8-bit weights are for CPUs only", fix="use --precision bf16 on a GPU")
    generation = torch.cuda.get_device_capability(device)
    if wanted == "bf16" and generation < AMPERE:
        raise UserError(what="this GPU has no bfloat16 products", fix="use --precision fp16 or auto")
    if wanted != "auto":
        return wanted
    half: SpeechPrecision = "bf16" if generation >= AMPERE else "fp16" if generation >= VOLTA else "fp32"
    fault = half_precision_fault(device, HALF[half]) if half in HALF else ""
    if fault:
        log.warning("speaking in float32: %s failed its trial: %s", half, fault)
    return "fp32" if fault else half


def vocoder_in_bf16(precision: SpeechPrecision, device: torch.device) -> bool:
    """Whether the decoder computes in bfloat16: with less than 32 bits, where the processor multiplies it natively."""
    if precision == "fp32":
        return False
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= AMPERE
    return cpu_has_bf16()
