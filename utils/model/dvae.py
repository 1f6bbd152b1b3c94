"""The frozen DVAE encoder: mel spectrograms to audio codes, 21.5 per second.

Shapes: B rows, N samples at 22 050 Hz, M = ceil(N / 1024) codes.
"""

import hashlib
import re
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.errors import UserError
from utils.model.mel import dvae_mel
from utils.model.no_tf32 import exact_float32
from utils.model.weights import State, read_weights
from utils.options import CODE_SAMPLES

TAIL_SAMPLES = 8_192
"""Zeros appended to a clip: the last six encoder positions depend on what follows them."""
DERIVED = "codebook.embed_avg"
"""The codes times the smoothed number of their uses, which is how stock's codebook computes the codes from it."""
LOSS_PREFIX = "discrete_loss."


class CodeEncoder(nn.Module):
    """Audio to codes; only the encoder and the codebook are held, the DVAE's decoder is dead weight here.

    Args:
        state: a DVAE's weights, with or without its decoder.
        mel_stats: one scale a mel channel, [80].
    """

    def __init__(self, state: State, mel_stats: Tensor) -> None:
        super().__init__()
        dvae = build_dvae(state)
        self.mel = dvae_mel(mel_stats)
        self.encoder: nn.Module = dvae.encoder
        self.codebook: Any = dvae.codebook
        self.eval().requires_grad_(False)

    @torch.no_grad()
    def forward(self, wavs: Tensor, lengths: list[int]) -> list[Tensor]:
        """Codes of each clip.

        Args:
            wavs: mono audio in [-1, 1], zero-padded to one length, [B, N], float32.
            lengths: samples of each clip.

        Returns:
            For each clip its codes, [ceil(length / 1024)], int16, on the CPU.

        Source: coqui-tts, DiscreteVAE.get_codebook_indices. Encoded in float32 without TF32: a code is the nearest of
        thousands of vectors, and rounding flips close calls.
        """
        padded = F.pad(wavs, (0, TAIL_SAMPLES))
        with exact_float32():
            features = self.encoder(self.mel(padded)).transpose(1, 2)
            distances = -2 * features @ self.codebook.embed + self.codebook.embed.pow(2).sum(0)
            codes = distances.argmin(dim=-1).to(torch.int16).cpu()
        return [row[: -(-length // CODE_SAMPLES)] for row, length in zip(codes, lengths, strict=True)]


def lay_out_dvae(**sizes: Any) -> Any:
    """A DiscreteVAE with random weights, laid out like the one of XTTS v2 (coqui-tts, GPTTrainer.__init__).

    Args:
        sizes: channels, hidden_dim, kernel_size, codebook_dim, num_tokens, num_resnet_blocks.
    """
    from TTS.tts.layers.xtts.dvae import DiscreteVAE

    return DiscreteVAE(num_layers=2, positional_dims=1, use_transposed_convs=False, **sizes)


def build_dvae(state: State) -> Any:
    """A DiscreteVAE with the sizes found in the weights' own shapes, loaded.

    Raises:
        UserError: the weights are not a DVAE's.
    """
    try:
        first, codebook = state["encoder.0.0.weight"], state["codebook.embed"]
    except KeyError as error:
        raise UserError(what=f"these are not the weights of a DVAE: {error} is missing") from error
    residuals = {found[1] for name in state if (found := re.match(r"encoder\.(\d+)\.net\.", name))}
    dvae = lay_out_dvae(
        channels=first.shape[1],
        hidden_dim=first.shape[0],
        kernel_size=first.shape[2],
        codebook_dim=codebook.shape[0],
        num_tokens=codebook.shape[1],
        num_resnet_blocks=len(residuals),
    )
    missing, _ = dvae.load_state_dict(state, strict=False)
    needed = [name for name in missing if name.startswith(("encoder.", "codebook.")) and name != DERIVED]
    if needed:
        raise UserError(what=f"the DVAE's weights are incomplete: {needed[0]} and {len(needed) - 1} more are missing")
    if DERIVED in missing:
        book = dvae.codebook
        total = book.cluster_size.sum()
        smoothed = (book.cluster_size + book.eps) / (total + book.n_embed * book.eps) * total
        book.embed_avg.copy_(book.embed * smoothed)
    return dvae


def needed_tensors(state: State) -> State:
    """A DVAE's weights without what others of them say as well, and without what its losses counted in training."""
    return {name: tensor for name, tensor in state.items() if name != DERIVED and not name.startswith(LOSS_PREFIX)}


def load_code_encoder(path: Path, mel_stats: Tensor) -> CodeEncoder:
    """The encoder of a DVAE file.

    Raises:
        UserError: missing, damaged, or not a DVAE.
    """
    return CodeEncoder(read_weights(path), mel_stats)


def fingerprint(path: Path, mel_stats: Tensor) -> str:
    """12 hex digits that change when the DVAE or the mel scale does: codes of one are nothing to another."""
    digest = hashlib.sha256(mel_stats.float().numpy().tobytes())
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()[:12]
