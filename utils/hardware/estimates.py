"""Estimate the memory of a training step from stated bytes a parameter and a position.

Bytes a parameter: 4 weight (float32), and for those that are trained 4 gradient and 8 Adam moments (2 with 8-bit Adam).
For XTTS v2's 441.0 million that is 16 bytes, 6.57 GB. Mixed precision keeps 2 more: the half-precision copies of the
weights that the backward pass needs again. With checkpointing those of one block at a time are enough. LoRA in half
precision on a GPU holds frozen weights in 2 bytes, and their float32 values in the machine's memory.

Bytes a position (of a packed row) and a block, for width D: what the backward pass reads again. With half-precision
products: two float32 residual streams (8 D), their normalized copies (4 D), queries, keys and values (6 D), the
attention's output (2 D), and the MLP's two inner layers (16 D): 36 D. In float32: 64 D. Checkpointing keeps one
residual stream (4 D) and holds one block in full; selective checkpointing also keeps the outputs of the four matrix
products and of attention: 24 D with it, in float32 44 D. Explicit attention adds each head's attention weights: 6 bytes
(float32 and half) or 4. So does the fused attention of a CPU in half precision: 2.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from utils.config import TrainConfig
from utils.hardware.resources import GIB
from utils.options import CODE_SAMPLES

NUM_LATENTS = 32
"""Conditioning latents before each clip's text (as `utils.model.shapes`, which loads torch)."""
CONDITIONING_FRAMES = 517
"""Mel frames of the longest conditioning crop: 6 s at hop 256."""
ENCODER_BLOCKS = 6
"""Of the conditioning encoder."""
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
TEXT_TOKENS = 120
"""Of the longest clip; 11.6 s of speech are about 170 letters."""
MAX_AUDIO_LENGTH = 255_995
"""Longest clip where nothing else is known, in samples at 22 050 Hz."""
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


def size_in(folder: Path) -> ModelSize | None:
    """Sizes of the GPT of a model folder, from its config.json and vocab.json; None where these cannot be read."""
    try:
        sizes = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_args"]
        vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        text_rows = len({*vocabulary["model"]["vocab"], *(added["content"] for added in vocabulary["added_tokens"])})
        width, layers = sizes["gpt_n_model_channels"], sizes["gpt_layers"]
        audio_rows = sizes["gpt_num_audio_tokens"]
        block = 12 * width**2 + 13 * width
        # Embeddings and heads of both vocabularies, positions of 404 tokens and 608 codes, two norms.
        ends = (2 * width + 1) * (text_rows + audio_rows) + (404 + 608 + 4) * width
        encoder = 81 * width + 6 * (4 * width**2 + 6 * width)
        inner = width * 8 // 3
        perceiver = 33 * width + 2 * (2048 * width + 3 * inner * width + 2 * inner + width)
        return ModelSize(
            num_parameters=layers * block + ends + encoder + perceiver,
            num_conditioning=encoder + perceiver,
            layers=layers,
            width=width,
            heads=sizes["gpt_n_heads"],
            text_rows=text_rows,
            audio_rows=audio_rows,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


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
        return sum(vars(self).values()) - self.host

    def __str__(self) -> str:
        parts = [f"{name} {value / GIB:.1f}" for name, value in vars(self).items() if value and name != "host"]
        return f"about {self.total / GIB:.1f} GB by calculation ({', '.join(parts)})"


def estimate(
    config: TrainConfig, model: ModelSize = XTTS_V2, *, device: str, max_audio_length: int = MAX_AUDIO_LENGTH
) -> MemoryEstimate:
    """Memory of a training step on a batch of the longest clips.

    Args:
        config: the settings of the run.
        model: sizes of the base.
        device: cpu or cuda, where it trains.
        max_audio_length: longest clip where the settings leave it open, in samples at 22 050 Hz.
    """
    is_half, checkpointing, width = config.mixed_precision != "fp32", config.gradient_checkpointing, model.width
    on_gpu, num_codes = device == "cuda", (config.max_audio_length or max_audio_length) // CODE_SAMPLES
    # Longest row: latents, START and text, start, codes and stops.
    positions = NUM_LATENTS + 1 + TEXT_TOKENS + num_codes + 5
    trained = model.num_parameters - (model.num_conditioning if config.freeze_conditioning else 0)
    halved = added = 0
    if config.lora_rank:
        trained = added = round(LORA_SHARE * model.num_parameters)
        # Tables that are looked up stay in float32; see `utils.model.lora.halve_frozen`.
        halved = model.num_parameters - (model.text_rows + model.audio_rows) * width if is_half and on_gpu else 0
    copied = 0 if halved or not is_half else model.num_parameters

    whole = (HALF_BLOCK if is_half else FULL_BLOCK) * width * positions
    if not config.sdpa or config.attention == "explicit":
        whole += (6 if is_half else 4) * model.heads * positions**2
    elif is_half and not on_gpu:
        whole += 2 * model.heads * positions**2
    selected = (HALF_SELECTED if is_half else FULL_SELECTED) * width * positions
    kept = {"none": whole, "selective": selected, "full": RESIDUAL * width * positions}[checkpointing]
    logits = LOGIT_BYTES * (TEXT_TOKENS * model.text_rows + num_codes * model.audio_rows)
    encoder = (18 if is_half else 28) * width * CONDITIONING_FRAMES * (2 if checkpointing == "full" else ENCODER_BLOCKS)
    # While one block is recomputed it is there in full. A frozen encoder is run without keeping anything.
    clip = model.layers * kept + (whole if checkpointing != "none" else 0) + logits
    clip += 0 if config.freeze_conditioning else encoder
    return MemoryEstimate(
        weights=4 * (model.num_parameters + added) - 2 * halved,
        gradients=4 * trained,
        optimizer=trained * (2 if config.eight_bit_optimizer else 8),
        copies=2 * (copied if checkpointing == "none" else copied // model.layers),
        activations=config.batch_size * clip,
        overhead=CUDA_OVERHEAD if on_gpu else CPU_OVERHEAD,
        host=4 * halved,
    )
