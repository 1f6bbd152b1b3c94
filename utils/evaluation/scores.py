"""The scores of one spoken sentence, and of all sentences of a model."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from utils.evaluation.recognition import UNDERSTOOD, Recognized

DEFECTS = ("silent", "run_on", "early_stop", "loop")
"""See `utils.evaluation.defects.find_defects`."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """One sentence as one model spoke it; None where something needed was not at hand."""

    text: str
    wav: str
    """File below the evaluation's folder."""
    audio_s: float
    took_s: float
    wer: float | None
    """Word error rate of the recognizer."""
    cer: float | None
    """Character error rate of the recognizer."""
    num_words: int
    """Words that should have been said, as the recognizer's normalization counts them; 0 without a recognizer."""
    num_characters: int
    heard: str | None
    """The recognized text."""
    retrieval_rank: int
    """Place of the right sentence among all sentences, 1 is right."""
    near_miss_rank: int | None
    """Place of the right sentence among itself and variants with a fifth of the words swapped."""
    mcd_db: float
    """Mel-cepstral distortion along the best path, against the reference."""
    cosine: float | None
    """Of the speaker embeddings of speech and reference voice."""
    second_cosine: float | None
    """The same in an encoder that had no part in training."""
    pitch: float
    """Distance to the voice's median pitch, in semitones; not a number where nothing is voiced."""
    pitch_range: float
    """Distance to the voice's range of pitch, in semitones."""
    spectrum: float
    """Distance to the voice's long-term spectrum, in dB."""
    duration_ratio: float
    """Length of the speech over the reference's."""
    defects: list[str] = field(default_factory=list)
    """Of `DEFECTS`, in that order."""

    @property
    def agrees(self) -> bool | None:
        """Whether recognizer and near misses come to the same judgement of the words; None without one of them."""
        if self.wer is None or self.near_miss_rank is None:
            return None
        return (self.wer < UNDERSTOOD) == (self.near_miss_rank == 1)


Summary = dict[str, Any]
"""All sentences of one model: shares from 0 to 1, means over sentences where the figure exists, else None.

sentences: how many. wer, cer: wrong words or characters of all sentences over those of all. agreement: sentences that
recognizer and near misses judge alike, both right or both wrong. flawless: sentences without any defect. real_time:
seconds of work for a second of speech, below 1 is faster than real time. All others as in `Score`.
"""


@dataclass(frozen=True, kw_only=True)
class ModelScores:
    """One model's sentences."""

    name: str
    scores: list[Score]

    @property
    def summary(self) -> Summary:
        scores = self.scores
        assert scores, "nothing was spoken"
        near = [score.near_miss_rank == 1 for score in scores if score.near_miss_rank is not None]
        flaws = {name: float(np.mean([name in score.defects for score in scores])) for name in DEFECTS}
        return Summary(
            sentences=len(scores),
            retrieval=float(np.mean([score.retrieval_rank == 1 for score in scores])),
            near_miss=float(np.mean(near)) if near else None,
            wer=_rate([(score.wer, score.num_words) for score in scores]),
            cer=_rate([(score.cer, score.num_characters) for score in scores]),
            agreement=_mean([score.agrees for score in scores]),
            cosine=_mean([score.cosine for score in scores]),
            second_cosine=_mean([score.second_cosine for score in scores]),
            **{name: _known(scores, name) for name in ("mcd_db", "pitch", "pitch_range", "spectrum", "duration_ratio")},
            **flaws,
            flawless=float(np.mean([not score.defects for score in scores])),
            real_time=sum(score.took_s for score in scores) / max(sum(score.audio_s for score in scores), 1e-9),
        )


def error_rates(recognized: Sequence[Recognized]) -> dict[str, float]:
    """Word and character error rate over all sentences, as wer and cer."""
    wer = _rate([(one.wer, one.num_words) for one in recognized])
    cer = _rate([(one.cer, one.num_characters) for one in recognized])
    assert wer is not None and cer is not None, "nothing was recognized"
    return {"wer": wer, "cer": cer}


def as_values(models: Sequence[ModelScores], missing: dict[str, str], facts: dict[str, Any]) -> dict[str, Any]:
    """Everything as plain values for a JSON file; what is no finite number becomes null."""
    content = {
        **facts,
        "missing": missing,
        "models": [
            {
                "name": model.name,
                "summary": model.summary,
                "sentences": [dataclasses.asdict(score) for score in model.scores],
            }
            for model in models
        ],
    }
    plain: dict[str, Any] = _plain(content)
    return plain


def _rate(rates: list[tuple[float | None, int]]) -> float | None:
    """Errors of all sentences over the length of all: (rate, length) of each."""
    known = [(rate, length) for rate, length in rates if rate is not None]
    return sum(rate * length for rate, length in known) / sum(length for _, length in known) if known else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _known(scores: list[Score], name: str) -> float:
    """Mean of the finite values; not a number when there is none."""
    values = np.array([getattr(score, name) for score in scores], dtype=float)
    kept = values[np.isfinite(values)]
    return float(kept.mean()) if len(kept) else float("nan")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return round(value, 4) if np.isfinite(value) else None
    return value
