"""A speaker encoder that nothing here is trained, chosen or guarded with: Resemblyzer's, from its package on PyPI.

Only the package's weights are used: its code needs a compiler to install and a scipy of 2023. `make bench-quality`
installs it.

Shapes: N samples at 16 000 Hz, W windows.
"""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import torch
import torch.nn.functional as F
import torchaudio
from torch import Tensor, nn

from utils.errors import UserError

RATE = 16_000
WINDOW, STEP = 160, 77
"""Frames of 10 ms in a window, and between the beginnings of two."""
LOUDNESS = 10 ** (-30 / 20)
"""Root mean square that softer speech is raised to."""


class SecondEncoder(nn.Module):
    """Three LSTM layers over mel spectra, the last state projected to a voice.

    Source: Wan et al. 2018, Generalized end-to-end loss for speaker verification; sizes of Resemblyzer 0.1.4.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(40, 256, num_layers=3, batch_first=True)
        self.linear = nn.Linear(256, 256)
        self.mel = torchaudio.transforms.MelSpectrogram(  # as librosa's, which Resemblyzer was trained with
            RATE, n_fft=400, hop_length=160, n_mels=40, norm="slaney", mel_scale="slaney", pad_mode="constant"
        )

    @torch.inference_mode()
    def forward(self, wav: Tensor) -> Tensor:
        """Speech [1, N] to a unit vector [256], the mean over its windows."""
        wav = wav * max(1.0, LOUDNESS / float(wav.square().mean().sqrt().clamp(min=1e-6)))
        frames: Tensor = self.mel(wav)[0].T
        frames = F.pad(frames, (0, 0, 0, max(0, WINDOW - len(frames))))
        _, (states, _) = self.lstm(frames.unfold(0, WINDOW, STEP).transpose(1, 2))
        voices = F.normalize(self.linear(states[-1]).relu(), dim=1)
        return F.normalize(voices.mean(0), dim=0)


def second_encoder() -> SecondEncoder:
    """With the package's weights.

    Raises:
        UserError: the package is not installed.
    """
    try:
        weights = Path(str(distribution("Resemblyzer").locate_file("resemblyzer/pretrained.pt")))
    except PackageNotFoundError as error:
        raise UserError(
            what="the second speaker encoder is not installed",
            fix="pip install --no-deps -r requirements-quality.txt",
        ) from error
    state = torch.load(weights, map_location="cpu", weights_only=True)["model_state"]
    encoder = SecondEncoder()
    for prefix, part in (("lstm", encoder.lstm), ("linear", encoder.linear)):
        part.load_state_dict({name: state[f"{prefix}.{name}"] for name in part.state_dict()})
    return encoder.eval()
