"""Detect speech with silero-vad, for all frames of a block at once; find pauses by the level, in constant memory.

Shapes: N samples at 16 000 Hz, F = ceil(N / 512) frames of 32 ms.

Weights and arithmetic are those of the silero-vad package (see its tinygrad_model.py); only the order of work differs.
The recurrent cell runs frame by frame, but for several clips at the same time; the convolutions run on all frames
together. The spectrum is an FFT, not the convolution with its sines and cosines that the package has for it. The
package itself is not imported, because that sets torch's threads for the whole process.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from utils.errors import UserError

VAD_RATE = 16_000
"""Sample rate that speech is looked for at, in Hz."""
FRAME = 512
"""Samples a frame at `VAD_RATE`: 32 ms."""
_CONTEXT = 64
_WINDOW = 256
_BLOCK_FRAMES = 1_024
"""Frames at a time (33 s): bounds memory."""


VadState = tuple[Tensor, Tensor, Tensor]
"""What is carried from one part of a recording to the next: the cell's two states, and the last 64 samples."""


class VoiceActivity(nn.Module):
    """Silero's voice activity model."""

    def __init__(self) -> None:
        super().__init__()
        self.window = nn.Buffer(torch.empty(_WINDOW))
        self.conv1 = nn.Conv1d(129, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm = nn.LSTM(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)

    @torch.inference_mode()
    def forward(self, wav: Tensor, state: VadState | None = None) -> tuple[Tensor, VadState]:
        """Probability of speech in each frame.

        Args:
            wav: audio at 16 000 Hz, [1, N]; a last frame that is not whole is filled with zeros.
            state: of the part before, which must have been a whole number of frames; None at a beginning.

        Returns:
            Probabilities, [F], and the state for the next call.
        """
        assert wav.ndim == 2 and wav.shape[0] == 1 and wav.shape[1] > 0, wav.shape
        state = state or (torch.zeros(1, 128), torch.zeros(1, 128), torch.zeros(1, _CONTEXT))
        found = []
        for part in wav.split(_BLOCK_FRAMES * FRAME, dim=1):
            block, state = self._block(F.pad(part, (0, -part.shape[1] % FRAME)), state)
            found.append(block)
        return torch.cat(found), state

    @torch.inference_mode()
    def of_clips(self, wavs: Sequence[Tensor]) -> list[Tensor]:
        """As `forward`, for clips that have nothing to do with each other: [1, N] each.

        A clip's probabilities depend on the clips beside it by no more than the rounding of float32.
        """
        found: list[Tensor] = [torch.empty(0)] * len(wavs)
        short = [n for n, wav in enumerate(wavs) if wav.shape[1] <= _BLOCK_FRAMES * FRAME]
        for n in set(range(len(wavs))) - set(short):
            found[n] = self(wavs[n])[0]
        if not short:
            return found
        padded = [F.pad(wavs[n], (_CONTEXT, -wavs[n].shape[1] % FRAME)) for n in short]
        frames = [wav[0].unfold(0, _CONTEXT + FRAME, FRAME) for wav in padded]
        sizes = [len(part) for part in frames]
        # The cell looks back only, so what fills up the shorter clips changes nothing of them.
        output, _ = self.lstm(pad_sequence(self._encode(torch.cat(frames)).split(sizes)))
        for n, size, part in zip(short, sizes, output.unbind(1), strict=True):
            found[n] = self._speech(part[:size])
        return found

    def _block(self, wav: Tensor, state: VadState) -> tuple[Tensor, VadState]:
        *cell, context = state
        frames = torch.cat([context, wav], dim=1)[0].unfold(0, _CONTEXT + FRAME, FRAME)
        output, (hidden, memory) = self.lstm(self._encode(frames), tuple(cell))
        return self._speech(output), (hidden, memory, wav[:, -_CONTEXT:])

    def _encode(self, frames: Tensor) -> Tensor:
        """What the recurrent cell reads: [F, 576] samples to [F, 128].

        The convolutions see 4 positions a frame at most: as matrix products they take a third of the time.
        """
        windows = F.pad(frames[:, None], (0, _CONTEXT), mode="reflect")[:, 0].unfold(1, _WINDOW, _WINDOW // 2)
        spectrum = torch.fft.rfft(windows * self.window)
        # Not abs, which guards against overflow and takes as long as all the rest.
        x = (spectrum.real.square() + spectrum.imag.square()).sqrt()
        for conv in (self.conv1, self.conv2, self.conv3, self.conv4):
            taps = F.pad(x, (0, 0, 1, 1)).unfold(1, 3, conv.stride[0]).flatten(2)
            x = F.linear(taps, conv.weight.flatten(1), conv.bias).relu()
        return x[:, 0]

    def _speech(self, output: Tensor) -> Tensor:
        return F.linear(output.relu(), self.final_conv.weight[..., 0], self.final_conv.bias)[:, 0].sigmoid()


def load_voice_activity() -> VoiceActivity:
    """The model with the weights that the silero-vad package carries; nothing is downloaded.

    Raises:
        UserError: the package is not installed.
    """
    # The package's other file, silero_vad_16k.safetensors, holds the weights of an earlier version.
    theirs = dict(torch.jit.load(_weights(), map_location="cpu")._model.state_dict())
    model = VoiceActivity()
    # Their spectrum's first basis function, the constant, is the window itself.
    state = {"window": theirs["stft.forward_basis_buffer"][0, 0]}
    model.load_state_dict(state | {ours: theirs[name] for name, ours in _names().items()})
    return model.eval().requires_grad_(False)


def _weights() -> Path:
    spec = find_spec("silero_vad")
    if spec is None or spec.origin is None:
        raise UserError(
            what="speech detection needs a package: silero-vad is not installed", fix="pip install silero-vad==6.2.3"
        )
    return Path(spec.origin).parent / "data" / "silero_vad.jit"


def _names() -> dict[str, str]:
    """{their tensor: ours}; a cell's weights are those of an LSTM of one layer."""
    names: dict[str, str] = {}
    for kind in ("weight", "bias"):
        names |= {f"encoder.{n}.reparam_conv.{kind}": f"conv{n + 1}.{kind}" for n in range(4)}
        names |= {f"decoder.rnn.{kind}_{side}": f"lstm.{kind}_{side}_l0" for side in ("ih", "hh")}
        names[f"decoder.decoder.2.{kind}"] = f"final_conv.{kind}"
    return names


FRAMES_PER_SECOND = 100
SHORTEST_PAUSE_S = 0.16
"""Shorter dips are the closures of p, t and k, in the middle of words."""
_WINDOW_S = 30
"""Loudness and noise are those of this much of the recording around a place."""
_GRID_S = 5
_SILENT_DB = -60.0
"""Where nothing within the window is louder than this, there is no speech."""
_NO_SOUND_DB = -119.0
_CLICK_FRAMES = 5
_FLAT_DB = 6.0
"""Loud and quiet frames that lie nearer together than this are one steady noise."""


@dataclass(frozen=True)
class Pause:
    """A stretch without speech, in seconds."""

    start_s: float
    end_s: float

    @property
    def middle_s(self) -> float:
        return (self.start_s + self.end_s) / 2

    @property
    def seconds(self) -> float:
        return self.end_s - self.start_s


def stream_levels(blocks: Iterable[Tensor], sample_rate: int) -> NDArray[np.float32]:
    """Level of every 10 ms in dB below full scale, [F]; silence is -120, and a constant offset counts as silence.

    Args:
        blocks: successive parts of a mono recording, [1, n] each, of any lengths.
        sample_rate: in Hz.
    """
    edges = np.arange(FRAMES_PER_SECOND) * sample_rate // FRAMES_PER_SECOND
    found: list[NDArray[np.float32]] = []
    rest = np.empty(0, dtype=np.float32)
    for block in blocks:
        rest = np.concatenate([rest, block[0].numpy()])
        while len(rest) >= sample_rate:
            found.append(_levels(rest[:sample_rate], edges))
            rest = rest[sample_rate:]
    if len(rest):
        found.append(_levels(rest, edges[edges < len(rest)]))
    return np.concatenate(found) if found else np.empty(0, dtype=np.float32)


def _levels(samples: NDArray[np.float32], edges: NDArray[np.int64]) -> NDArray[np.float32]:
    centered = samples - samples.mean()
    counts = np.diff(np.append(edges, len(samples)))
    power = np.add.reduceat(np.square(centered, dtype=np.float64), edges) / np.maximum(1, counts)
    return (10 * np.log10(np.maximum(power, 1e-12))).astype(np.float32)


def find_pauses(levels: NDArray[np.float32]) -> list[Pause]:
    """Stretches without speech, in order; the ends of the recording are not pauses of their own.

    A frame is quiet when it lies 40 dB below the loud frames of the half minute around it, or, where noise is nearer
    than that, little above the noise: 10 dB, and at most two fifths of the way from noise to speech.

    Args:
        levels: of `stream_levels`, [F].
    """
    if not len(levels):
        return []
    # 50 ms: single quiet frames are zero crossings, single louder ones are noise.
    power = np.convolve(np.pad(10 ** (levels.astype(np.float64) / 10), 2, mode="edge"), np.full(5, 0.2), mode="valid")
    smooth = 10 * np.log10(np.maximum(power, 1e-12)).astype(np.float32)
    quiet = smooth < _thresholds(smooth)
    spans = np.flatnonzero(np.diff(np.pad(quiet.astype(np.int8), 1))).reshape(-1, 2)
    if not len(spans):
        return []
    # What lasts 50 ms between two quiet stretches is a click, no word.
    apart = np.flatnonzero(spans[1:, 0] - spans[:-1, 1] > _CLICK_FRAMES)
    starts, stops = spans[np.append(0, apart + 1), 0], spans[np.append(apart, len(spans) - 1), 1]
    found = [
        Pause(float(a), float(b)) for a, b in zip(starts / FRAMES_PER_SECOND, stops / FRAMES_PER_SECOND, strict=True)
    ]
    return [pause for pause in found if pause.seconds >= SHORTEST_PAUSE_S - 1e-9]


def _thresholds(levels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Level below which a frame is quiet, [F]."""
    step, half = _GRID_S * FRAMES_PER_SECOND, _WINDOW_S * FRAMES_PER_SECOND // 2
    # Before a sound track begins there is less than the room's noise.
    first = int((levels > _NO_SOUND_DB).argmax())
    found = []
    for start in range(0, len(levels), step):
        middle = max(start + step // 2, first)
        floor, loud = np.percentile(levels[max(first, middle - half) : middle + half], [3, 95])
        found.append(_threshold(float(floor), float(loud)))
    return np.repeat(np.asarray(found, dtype=np.float32), step)[: len(levels)]


def _threshold(floor: float, loud: float) -> float:
    if loud < _SILENT_DB:
        return float("inf")
    if loud - floor < _FLAT_DB:
        return float("-inf")
    return max(loud - 40, min(floor + 10, floor + 0.4 * (loud - floor)))
