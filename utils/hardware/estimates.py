"""Estimate the memory of a training step from stated bytes a parameter and a position.

Bytes a parameter: 4 weight (float32), and for those that are trained 4 gradient and 8 Adam moments (2 with 8-bit Adam).
For XTTS v2's 441.0 million that is 16 bytes, 7.06 GB. Mixed precision keeps 2 more: the half-precision copies of the
weights that the backward pass needs again. With checkpointing those of one block at a time are enough. LoRA in half
precision on a GPU holds frozen weights in 2 bytes, and their float32 values in the machine's memory.

Bytes a position (of a packed row) and a block, for width D: what the backward pass reads again. With half-precision
products: two float32 residual streams (8 D), their normalized copies (4 D), queries, keys and values (6 D), the
attention's output (2 D), and the MLP's two inner layers (16 D): 36 D. In float32: 64 D. Checkpointing keeps one
residual stream (4 D) and holds one block in full; selective checkpointing also keeps the outputs of the four matrix
products and of attention: 24 D with it, in float32 44 D. Explicit attention adds each head's attention weights: 6 bytes
(float32 and half) or 4. So does the fused attention of a CPU in half precision: 2.
"""

from dataclasses import dataclass
from typing import Literal

from utils.config import CODE_SAMPLES, Checkpointing, Precision

GB = 1_000_000_000

NUM_LATENTS = 32
"""Conditioning latents before each clip's text (as `utils.model.shapes`, which loads torch)."""
CONDITIONING_FRAMES = 517
"""Mel frames of the longest conditioning crop: 6 s at hop 256."""
CONDITIONING_BLOCKS = 6
HALF_BLOCK, FULL_BLOCK = 36, 64
"""Bytes a position, a block and a unit of width that the backward pass reads again; see above."""
HALF_SELECTED, FULL_SELECTED = 24, 44
RESIDUAL = 4
LOGIT_BYTES = 16
"""Bytes a logit: half-precision and float32 logits, their softmax and their gradients."""
CUDA_OVERHEAD = 1_000_000_000
"""CUDA context, cuBLAS and cuDNN workspaces, allocator rounding: a round figure, to be on the safe side."""
CPU_OVERHEAD = 1_500_000_000
"""Python, torch and the libraries of a process that trains on the CPU: likewise."""
LORA_SHARE = 0.04
"""Trained parameters of LoRA as a share of the model's: rank 32 on all four projections of each block is 0.036."""


@dataclass(frozen=True, kw_only=True)
class ModelSize:
    """What of a model counts for memory; the defaults are XTTS v2."""

    num_parameters: int = 441_018_563
    num_conditioning: int = 46_299_816
    """Parameters of the conditioning encoder and the perceiver, which can be frozen."""
    layers: int = 30
    width: int = 1_024
    heads: int = 16
    text_rows: int = 6_681
    audio_rows: int = 1_026


XTTS_V2 = ModelSize()


def model_size(*, width: int, layers: int, heads: int, text_rows: int, audio_rows: int) -> ModelSize:
    """Sizes of an XTTS GPT of these dimensions, every parameter counted; the rest is as in all of them.

    Args:
        width: of the model.
        layers: blocks.
        heads: of each block.
        text_rows: tokens of the vocabulary.
        audio_rows: codes, start and stop.
    """
    block = 12 * width**2 + 13 * width
    # Embeddings and heads of both vocabularies, positions of 404 tokens and 608 codes, two norms.
    ends = (2 * width + 1) * (text_rows + audio_rows) + (404 + 608 + 4) * width
    encoder = 81 * width + 6 * (4 * width**2 + 6 * width)
    inner = width * 8 // 3
    perceiver = 33 * width + 2 * (2048 * width + 3 * inner * width + 2 * inner + width)
    conditioning = encoder + perceiver
    return ModelSize(
        num_parameters=layers * block + ends + conditioning,
        num_conditioning=conditioning,
        layers=layers,
        width=width,
        heads=heads,
        text_rows=text_rows,
        audio_rows=audio_rows,
    )


@dataclass(frozen=True, kw_only=True)
class Step:
    """The settings that memory depends on."""

    device: Literal["cpu", "cuda"]
    batch_size: int
    gradient_checkpointing: Checkpointing = "none"
    sdpa: bool = True
    mixed_precision: Precision = "fp32"
    eight_bit_optimizer: bool = False
    lora: bool = False
    freeze_conditioning: bool = False
    max_audio_length: int = 255_995
    """Longest clip, in samples at 22 050 Hz: memory must hold a batch of these."""
    text_tokens: int = 120
    """Text of such a clip; 11.6 s of speech are about 170 letters."""

    @property
    def is_half(self) -> bool:
        return self.mixed_precision != "fp32"

    @property
    def has_half_weights(self) -> bool:
        """Whether frozen weights are held in half precision; see `utils.model.lora.halve_frozen`."""
        return self.lora and self.is_half and self.device == "cuda"

    @property
    def positions(self) -> int:
        """Longest row: latents, START and text, start, codes and stops."""
        return NUM_LATENTS + 1 + self.text_tokens + self.max_audio_length // CODE_SAMPLES + 5


@dataclass(frozen=True, kw_only=True)
class MemoryEstimate:
    """Bytes on the device that trains, by what they hold."""

    weights: int
    gradients: int
    optimizer: int
    copies: int
    """Half-precision copies of weights."""
    activations: int
    overhead: int
    host: int = 0
    """Bytes of the machine's memory that the float32 values of frozen weights take besides."""

    @property
    def total(self) -> int:
        """All of them but `host`."""
        return self.weights + self.gradients + self.optimizer + self.copies + self.activations + self.overhead

    def __str__(self) -> str:
        parts = [f"{name} {value / GB:.1f}" for name, value in vars(self).items() if value and name != "host"]
        return f"about {self.total / GB:.1f} GB by calculation ({', '.join(parts)})"


def estimate(step: Step, model: ModelSize = XTTS_V2) -> MemoryEstimate:
    """Memory of a training step on a batch of the longest clips."""
    trained = _trained(step, model)
    # Tables that are looked up stay in float32.
    products = model.num_parameters - (model.text_rows + model.audio_rows) * model.width
    halved = products if step.has_half_weights else 0
    weights = 4 * (model.num_parameters + (trained if step.lora else 0)) - 2 * halved
    return MemoryEstimate(
        weights=weights,
        gradients=4 * trained,
        optimizer=trained * (2 if step.eight_bit_optimizer else 8),
        copies=_copies(step, model),
        activations=step.batch_size * activations(step, model),
        overhead=CUDA_OVERHEAD if step.device == "cuda" else CPU_OVERHEAD,
        host=4 * halved,
    )


def activations(step: Step, model: ModelSize = XTTS_V2) -> int:
    """Bytes that the backward pass needs of one clip of the longest kind."""
    whole = (HALF_BLOCK if step.is_half else FULL_BLOCK) * model.width * step.positions
    if not step.sdpa:
        whole += (6 if step.is_half else 4) * model.heads * step.positions**2
    elif step.is_half and step.device == "cpu":
        whole += 2 * model.heads * step.positions**2
    selected = (HALF_SELECTED if step.is_half else FULL_SELECTED) * model.width * step.positions
    kept = {"none": whole, "selective": selected, "full": RESIDUAL * model.width * step.positions}
    # While one block is recomputed it is there in full.
    blocks = model.layers * kept[step.gradient_checkpointing] + (whole if step.gradient_checkpointing != "none" else 0)
    num_codes = step.max_audio_length // CODE_SAMPLES
    logits = LOGIT_BYTES * (step.text_tokens * model.text_rows + num_codes * model.audio_rows)
    return blocks + logits + _conditioning(step, model)


def _copies(step: Step, model: ModelSize) -> int:
    """Half-precision copies of the weights; see above."""
    if not step.is_half or step.has_half_weights:
        return 0
    of_one_block = step.gradient_checkpointing != "none"
    return 2 * (model.num_parameters // model.layers if of_one_block else model.num_parameters)


def _conditioning(step: Step, model: ModelSize) -> int:
    """Mel frames through the conditioning encoder; a frozen one is run without keeping anything."""
    if step.freeze_conditioning:
        return 0
    block = (18 if step.is_half else 28) * model.width * CONDITIONING_FRAMES
    return block * (2 if step.gradient_checkpointing == "full" else CONDITIONING_BLOCKS)


def _trained(step: Step, model: ModelSize) -> int:
    if step.lora:
        return round(LORA_SHARE * model.num_parameters)
    return model.num_parameters - (model.num_conditioning if step.freeze_conditioning else 0)
