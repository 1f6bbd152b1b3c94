"""The GPT of XTTS with a packed training forward: the same weights and keys as coqui-tts, without its padding mask.

Shapes: B clips, D model width, H heads, C channels a head, F mel frames, P = 32 latents,
    Lp text and Mp code positions (padded), R packed rows of T positions.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from utils.model.attention import (
    Attend,
    clip_by_clip,
    explicit_attention,
    packed_attention,
    sdpa_attention,
    varlen_attention,
)
from utils.model.conditioning import ConditioningEncoder, PerceiverResampler
from utils.model.flash_attn import Kernel
from utils.model.guided_attention import guided_blocks, reading_loss
from utils.model.matrix_attention import plan_groups
from utils.model.packing import IGNORED, PackedBatch
from utils.model.shapes import GptShape
from utils.options import Checkpointing

_SAVED_NAMES = (
    "aten.mm",
    "aten.addmm",
    "aten.bmm",
    "aten._scaled_dot_product_flash_attention",
    "aten._scaled_dot_product_flash_attention_for_cpu",
    "aten._scaled_dot_product_efficient_attention",
    "aten._scaled_dot_product_cudnn_attention",
    "aten._flash_attention_forward",
    "flash_attn._flash_attn_varlen_forward",
)
"""Operations whose outputs selective checkpointing keeps: matrix products and attention; the rest is cheap to redo."""


@dataclass(kw_only=True)
class ForwardOptions:
    """How the training forward computes; what it computes stays the same."""

    sdpa: bool = False
    """Fused attention; otherwise softmax attention written out, the reference."""
    kernel: Kernel = "torch"
    """Whose variable-length kernel computes the attention of packed rows on CUDA."""
    checkpointing: Checkpointing = "none"
    """What each block recomputes in the backward pass; blocks of the conditioning encoder as well."""
    dropout: float = 0.1
    """Share dropped from embeddings and residuals while training, and by explicit attention from its weights.

    Fused kernels drop no attention weights: the variable-length one cannot, and on a CPU it would cost the fast path.
    """
    reading_weight: float = 0.0
    """Weight of the guided attention loss (`utils.model.guided_attention`); 0 turns it off."""


class GptLosses(NamedTuple):
    """Sums of cross-entropies over valid targets, in nats and float32; divide by the targets' counts."""

    text: Tensor
    codes: Tensor
    reading: Tensor
    """Mean over the guided heads, weighted; 0 where none is guided."""


class Conv1D(nn.Module):
    """A linear layer that keeps its weight as [in, out], as GPT-2's checkpoints do.

    Hugging Face's class of this name is the same function; loading it loads all of transformers, which takes seconds.
    """

    def __init__(self, num_out: int, num_in: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_in, num_out).normal_(std=0.02))
        self.bias = nn.Parameter(torch.zeros(num_out))

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.shape[:-1], -1)


class Attention(nn.Module):
    """Multi-head self-attention; the kernel is the caller's choice."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = Conv1D(3 * width, width)
        self.c_proj = Conv1D(width, width)

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        rows, length, width = x.shape
        q, k, v = self.c_attn(x).view(rows, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        return self.c_proj(attend(q, k, v).transpose(1, 2).reshape(rows, length, width))


class Mlp(nn.Module):
    """Two layers with a tanh GELU: HF's `gelu_new` is this function, unfused."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.c_fc = Conv1D(4 * width, width)
        self.c_proj = Conv1D(width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    """A GPT-2 block: norm, attention, norm, MLP, each with a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = Mlp(width)

    def forward(self, x: Tensor, attend: Attend, dropout: float = 0.0) -> Tensor:
        """[B, T, D] -> [B, T, D]; `dropout` is the share of each residual branch that is dropped."""
        x = x + _dropped(self.attn(self.ln_1(x), attend), dropout)
        return x + _dropped(self.mlp(self.ln_2(x)), dropout)


class Transformer(nn.Module):
    """The stack of blocks; its names are GPT-2's."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.h = nn.ModuleList(Block(shape.width, shape.heads) for _ in range(shape.layers))
        self.ln_f = nn.LayerNorm(shape.width)


class PositionTable(nn.Module):
    """Learned position embeddings."""

    def __init__(self, num_positions: int, width: int) -> None:
        super().__init__()
        self.emb = nn.Embedding(num_positions, width)
        nn.init.normal_(self.emb.weight, std=0.02)

    def first(self, count: int) -> Tensor:
        """Embeddings of positions 0 to count - 1: [count, D]."""
        return self.emb.weight[:count]


def unwatched(*inputs: Any) -> AbstractContextManager[None]:
    """(no-op watcher of a block)"""
    return nullcontext()


class XttsGpt(nn.Module):
    """Text and a voice's latents in, audio codes out.

    Args:
        shape: sizes and special tokens.
        options: how the training forward computes; may be changed between steps.
    """

    def __init__(self, shape: GptShape, options: ForwardOptions | None = None) -> None:
        super().__init__()
        self.shape = shape
        self.options = options or ForwardOptions()
        self.added_rows: tuple[int, ...] | None = ()
        """Text rows that its base's vocabulary was grown by, which LoRA trains; None where that is not known."""
        self.block_runs = 0
        """Forward passes of single blocks so far, recomputations included."""
        self.conditioning_runs = 0
        """The same of the conditioning encoder's blocks."""
        self.watch: Callable[..., AbstractContextManager[None]] = unwatched
        """Called with the inputs of each block's pass, which then runs within what it gives: proofs look through it.

        Not a hook of the block: a compiled block would be compiled with it, and once more without.
        """
        self.conditioning_encoder = ConditioningEncoder(shape.width, shape.heads)
        self.conditioning_perceiver = PerceiverResampler(shape.width)
        self.text_embedding = nn.Embedding(shape.text_rows, shape.width)
        self.mel_embedding = nn.Embedding(shape.audio_rows, shape.width)
        self.text_pos_embedding = PositionTable(shape.text_positions, shape.width)
        self.mel_pos_embedding = PositionTable(shape.audio_positions, shape.width)
        self.gpt = Transformer(shape)
        self.final_norm = nn.LayerNorm(shape.width)
        self.text_head = nn.Linear(shape.width, shape.text_rows)
        self.mel_head = nn.Linear(shape.width, shape.audio_rows)

    def forward(self, batch: PackedBatch, cond_mels: Tensor) -> GptLosses:
        """Loss sums of a packed batch.

        Args:
            batch: from `packing.pack`, on the model's device.
            cond_mels: mel spectrogram of each clip's conditioning crop, [B, 80, F]; more rows may follow, unused.
        """
        rows, reading = self._read(self.embed(batch, self.latents(cond_mels)[: len(batch.text)]), batch)
        hidden = self.final_norm(rows).flatten(0, 1)
        # Only positions that are scored go through the heads: padding and the conditioning segment cost nothing there.
        return GptLosses(
            text=_cross_entropy_sum(self.text_head(hidden.index_select(0, batch.text_indices)), batch.text_targets),
            codes=_cross_entropy_sum(self.mel_head(hidden.index_select(0, batch.code_indices)), batch.code_targets),
            reading=reading,
        )

    def latents(self, mels: Tensor) -> Tensor:
        """Conditioning latents of recordings: mels [B, 80, F] -> [B, 32, D]."""
        kernel = sdpa_attention if self.options.sdpa else explicit_attention
        features = self.conditioning_encoder(mels, kernel, self._run_conditioning).transpose(1, 2)
        return self.conditioning_perceiver(features, kernel)

    def embed(self, batch: PackedBatch, latents: Tensor) -> Tensor:
        """Packed input rows [R, T, D]: positions are added in the padded parts, before packing."""
        # Text and codes are each counted from 0 within their clip (coqui-tts, GPT.forward). Added after packing, a
        # clip's first code would get the position at which the row happens to hold it.
        text = self.text_embedding(batch.text) + self.text_pos_embedding.first(batch.text.size(1))
        codes = self.mel_embedding(batch.codes) + self.mel_pos_embedding.first(batch.codes.size(1))
        parts = torch.cat([latents.to(text.dtype), text, codes], dim=1)
        rows = parts.flatten(0, 1).index_select(0, batch.gather_indices.flatten())
        # No view for autograd: the first block, if its input alone were one, would be compiled apart from the others.
        packed: Tensor = torch.ops.aten._unsafe_view(rows, [*batch.gather_indices.shape, parts.size(-1)])
        return packed

    def transform(self, x: Tensor, batch: PackedBatch) -> Tensor:
        """The blocks and the GPT's own last norm over packed rows, causally: [R, T, D] -> [R, T, D]."""
        return self._read(x, batch)[0]

    def _read(self, x: Tensor, batch: PackedBatch) -> tuple[Tensor, Tensor]:
        """What `transform` gives, and the guided attention loss."""
        dropout = self.options.dropout if self.training else 0.0
        attend = self._attend(batch, dropout)
        learns = self.training and self.options.reading_weight > 0 and len(batch.reading) > 0
        guided = guided_blocks(len(self.gpt.h)) if learns else {}
        reading = x.new_zeros((), dtype=torch.float32)
        x = _dropped(x, dropout)
        for number, block in enumerate(self.gpt.h):
            run = partial(run_checkpointed, self._mode, keep_rng=dropout > 0)
            if number not in guided:
                x = run(self._counted_block, block, x, attend, dropout)
                continue
            x, missed = run(self._guided_block, block, x, attend, dropout, batch, guided[number])
            reading = reading + missed * (self.options.reading_weight / len(guided))
        return self.gpt.ln_f(x), reading

    def _guided_block(
        self, block: nn.Module, x: Tensor, attend: Attend, dropout: float, batch: PackedBatch, ahead: bool
    ) -> tuple[Tensor, Tensor]:
        """One block, and how far its guided head's attention is from the text that is read."""
        missed = []

        def watched(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            missed.append(reading_loss(q, k, batch, ahead=ahead))
            return attend(q, k, v)

        return self._counted_block(block, x, watched, dropout), missed[0]

    def gradient_checkpointing_enable(self, **_: Any) -> None:
        """Recompute each block in the backward pass: Hugging Face's method, whose arguments have no use here."""
        self.options = replace(self.options, checkpointing="full")

    @property
    def _mode(self) -> Checkpointing:
        return self.options.checkpointing if self.training else "none"

    def _run_conditioning(self, block: nn.Module, *inputs: Any) -> Tensor:
        """One block of the conditioning encoder; nothing is recomputed for one that does not learn."""
        learns = any(parameter.requires_grad for parameter in block.parameters())

        def counted(*inputs: Any) -> Tensor:
            self.conditioning_runs += 1
            out: Tensor = block(*inputs)
            return out

        return run_checkpointed(self._mode if learns else "none", counted, *inputs)

    def _counted_block(self, block: nn.Module, x: Tensor, attend: Attend, dropout: float) -> Tensor:
        """One block, counted: a recomputation shows as a run beyond the forward pass's own."""
        self.block_runs += 1
        with self.watch(x, attend, dropout):
            out: Tensor = block(x, attend, dropout)
        return out

    def _attend(self, batch: PackedBatch, dropout: float) -> Attend:
        """Causal attention within each clip of the batch."""
        if not self.options.sdpa:
            kernel: Callable[..., Tensor] = partial(explicit_attention, causal=True, dropout=dropout)
            return partial(clip_by_clip, kernel=kernel, lengths=batch.lengths) if batch.lengths else kernel
        kernel = partial(sdpa_attention, causal=True)
        if not batch.lengths:
            return kernel
        if batch.gather_indices.is_cuda:
            bounds: dict[str, Any] = {"cu_seqlens": batch.cu_seqlens, "max_seqlen": batch.max_seqlen}
            return partial(varlen_attention, **bounds, kernel=self.options.kernel)
        return partial(packed_attention, lengths=batch.lengths, plan=plan_groups(batch.lengths, self.shape.heads))


def _dropped(x: Tensor, share: float) -> Tensor:
    if share <= 0:
        return x
    return x * _noise(x, share) if x.device.type == "cpu" else F.dropout(x, p=share)


def _noise(x: Tensor, share: float) -> Tensor:
    """What dropout multiplies with, on a CPU: 0, or 1 / (1 - share).

    Four lots of 16 bits come from each random number; torch's own dropout draws one for each element, which took a
    fortieth of a training step.
    """
    numbers = torch.empty(-(-x.numel() // 4), dtype=torch.long, device=x.device)
    lots = numbers.random_(torch.iinfo(torch.long).min, None).view(torch.int16)[: x.numel()]
    kept = lots >= round(share * 2**16) - 2**15
    return kept.to(x.dtype).mul_(1 / (1 - share)).view_as(x)


def _cross_entropy_sum(logits: Tensor, targets: Tensor) -> Tensor:
    """Summed in float32: a half-precision sum of thousands of terms loses the small ones."""
    return F.cross_entropy(logits.float(), targets, ignore_index=IGNORED, reduction="sum")


def saved_operations() -> list[Any]:
    """The operations of `_SAVED_NAMES` that this torch has."""
    found = []
    for name in _SAVED_NAMES:
        space, operation = name.split(".")
        packet = getattr(getattr(torch.ops, space), operation, None)
        if packet is not None:
            found.append(packet.default)
    return found


def run_checkpointed(mode: Checkpointing, block: Callable[..., Any], *inputs: Any, keep_rng: bool = False) -> Any:
    """The block's output, with what its backward pass needs kept or recomputed as `mode` says.

    Args:
        mode: none keeps all; selective keeps the outputs of matrix products and attention; full keeps the inputs only.
        block: called with `inputs`.
        keep_rng: replay the random state, which costs a device synchronization a block: only dropout needs it.

    Source: PyTorch's non-reentrant checkpoint and its selective policies (torch.utils.checkpoint).
    """
    if mode == "none":
        return block(*inputs)
    context: dict[str, Any] = {}
    if mode == "selective":
        context = {"context_fn": partial(create_selective_checkpoint_contexts, saved_operations())}
    return checkpoint(block, *inputs, use_reentrant=False, preserve_rng_state=keep_rng, **context)
