"""Plot an evaluation: the models side by side, and the figures of each sentence."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from utils.evaluation.scores import ModelScores

SHARES = {
    "retrieval": "right sentence",
    "near_miss": "right words",
    "flawless": "without defects",
}
DISTANCES = {
    "mcd_db": "mel-cepstral distortion, dB",
    "pitch": "pitch, semitones",
    "pitch_range": "range of pitch, semitones",
    "spectrum": "long-term spectrum, dB",
}


def draw(models: Sequence[ModelScores], folder: Path) -> list[Path]:
    """Write summary.png and sentences.png; returns their paths."""
    return [_summary(models, folder / "summary.png"), _sentences(models, folder / "sentences.png")]


def _summary(models: Sequence[ModelScores], path: Path) -> Path:
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axis, names, title in (
        (left, SHARES, "shares, more is better"),
        (right, DISTANCES, "distances, less is better"),
    ):
        indices = np.arange(len(names))
        width = 0.8 / len(models)
        for number, model in enumerate(models):
            measured = (model.summary[name] for name in names)
            values = [float("nan") if value is None else value for value in measured]
            axis.bar(indices + (number - (len(models) - 1) / 2) * width, values, width, label=model.name)
        axis.set_xticks(indices, [label.replace(", ", "\n") for label in names.values()], fontsize=8)
        axis.set_title(title, fontsize=10)
    left.set_ylim(0, 1)
    left.legend(fontsize=8)
    figure.savefig(path, dpi=90)
    return path


def _sentences(models: Sequence[ModelScores], path: Path) -> Path:
    """One line of dots a figure, a column a sentence; sentences with a defect are crossed."""
    names = {"duration_ratio": "length over the reference's", **DISTANCES}
    figure = Figure(figsize=(11, 2 * len(names)), layout="constrained")
    for axis, (name, label) in zip(figure.subplots(len(names), 1, sharex=True), names.items(), strict=True):
        for number, model in enumerate(models):
            values = np.array([getattr(score, name) for score in model.scores], dtype=float)
            flawed = np.array([bool(score.defects) for score in model.scores])
            indices = np.arange(len(values))
            axis.plot(indices, values, ".", color=f"C{number}", label=model.name)
            axis.plot(indices[flawed], values[flawed], "x", color=f"C{number}")
        axis.set_ylabel(label, fontsize=7)
    figure.axes[0].legend(fontsize=8, title="crossed: with a defect", title_fontsize=7)
    figure.axes[-1].set_xlabel("sentence")
    figure.savefig(path, dpi=90)
    return path
