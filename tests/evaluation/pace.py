"""Time of a measurement that only speaking takes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from utils.evaluation import by_ear
from utils.evaluation.measure import Said


def at_its_own_pace(monkeypatch: pytest.MonkeyPatch, seconds: Callable[[float], float]) -> None:
    """Texts are noise, and each takes what `seconds` says of the time it begins at."""
    now = [0.0]
    monkeypatch.setattr(by_ear.time, "monotonic", lambda: now[0])

    def speak(synthesizer: Any, pieces: list[Any], **_: Any) -> Iterator[Said]:
        for _ in pieces:
            now[0] += seconds(now[0])
            yield Said(wav=torch.randn(1, 12_000), finished=True)

    monkeypatch.setattr(by_ear, "speak_texts", speak)
