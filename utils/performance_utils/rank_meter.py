"""What one process of a run does in an epoch: throughput, waiting for data, and how busy its GPU is."""

from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from utils.hardware import find_gpus
from utils.hardware.visible import trained_on


@dataclass(frozen=True, kw_only=True)
class RankShare:
    """One process over an epoch."""

    rank: int
    audio_per_second: float
    """Seconds of speech that it trained on in a second."""
    tokens_per_second: float
    data_share: float
    """Share of the time spent waiting for data, 0 to 1."""
    gpu_busy: float | None
    """Mean utilization of its GPU as the driver reports it, 0 to 1; None on a CPU, or where the driver does not say."""


@dataclass
class RankMeter:
    """Counts the steps of this process.

    Args:
        device: that it trains on.
        rank: its number.
    """

    device: torch.device
    rank: int
    _seconds: float = 0.0
    _data: float = 0.0
    _audio: float = 0.0
    _tokens: int = 0
    _busy: list[float] = field(default_factory=list)

    def add(self, *, step_s: float, data_s: float, audio_s: float, tokens: int) -> None:
        """Count a step: its seconds, those it waited for its data, and what this process trained on."""
        self._seconds += step_s + data_s
        self._data += data_s
        self._audio += audio_s
        self._tokens += tokens

    def sample(self) -> None:
        """Ask the driver how busy the GPU is; nothing on a CPU, or where it does not say."""
        if self.device.type != "cuda":
            return
        gpu = trained_on(find_gpus().gpus)
        if gpu is not None and gpu.utilization is not None:
            self._busy.append(gpu.utilization / 100)

    def take(self) -> dict[str, Any]:
        """The share since it was taken last, as JSON values of a `RankShare`."""
        seconds = max(self._seconds, 1e-9)
        share = RankShare(
            rank=self.rank,
            audio_per_second=self._audio / seconds,
            tokens_per_second=self._tokens / seconds,
            data_share=self._data / seconds,
            gpu_busy=sum(self._busy) / len(self._busy) if self._busy else None,
        )
        self._seconds = self._data = self._audio = 0.0
        self._tokens, self._busy = 0, []
        return asdict(share)
