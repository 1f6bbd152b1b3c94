"""Measure speech quality: python -m utils.cli.evaluate --project NAME --checkpoint best,base."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from utils.callbacks import ProgressFn
from utils.cli.common import progress_phases, run_command
from utils.evaluation.settings import EvaluateConfig

if TYPE_CHECKING:
    from utils.evaluation.evaluate import Evaluation
    from utils.evaluation.scores import ModelScores

SHARE = "{:.0%}"
FEW = 50
"""With fewer sentences a share is shown with its count, too: a percentage suggests more precision than it has."""
ROWS = {
    "wer": ("word error rate", "{:.1%}", "lower"),
    "cer": ("character error rate", "{:.1%}", "lower"),
    "near_miss": ("right sentence among near misses", SHARE, "higher"),
    "agreement": ("recognizer and near misses agree", SHARE, "higher"),
    "retrieval": ("right sentence among all", SHARE, "higher"),
    "mcd_db": ("mel-cepstral distortion, dB", "{:.2f}", "lower"),
    "second_cosine": ("speaker similarity, second encoder", "{:.3f}", "higher"),
    "cosine": ("speaker similarity, cosine", "{:.3f}", "higher"),
    "pitch": ("pitch off by, semitones", "{:.2f}", "lower"),
    "pitch_range": ("range of pitch off by, semitones", "{:.2f}", "lower"),
    "spectrum": ("long-term spectrum off by, dB", "{:.2f}", "lower"),
    "duration_ratio": ("length over the reference's", "{:.2f}", "near 1"),
    "silent": ("silent or with long pauses", SHARE, "lower"),
    "run_on": ("talks on after the end", SHARE, "lower"),
    "early_stop": ("stops early", SHARE, "lower"),
    "loop": ("loops", SHARE, "lower"),
    "real_time": ("seconds of work a second of speech", "{:.2f}", "lower"),
}
"""What is printed of a summary: name, format, and which way is better."""


def _evaluate(config: EvaluateConfig) -> None:
    with progress_phases() as report:
        evaluate_and_print(config, report)


def evaluate_and_print(config: EvaluateConfig, report: ProgressFn) -> None:
    """Measure, and print the table.

    Args:
        config: what to measure.
        report: called with how far it is.

    Raises:
        UserError: see `utils.evaluation.evaluate.evaluate`.
    """
    # Imported late: torch takes seconds to load, and a wrong flag should be answered at once.
    from utils.evaluation.evaluate import RESULT_FILE, evaluate

    found = evaluate(config, progress=report)
    Console().print(table(found.models))
    for line in notes(found):
        print(line)
    print(f"figures, pictures and wavs: {found.folder} ({RESULT_FILE}, summary.png, sentences.png)")


def notes(found: "Evaluation") -> list[str]:
    """What belongs under the table: the recognizer's own errors, and what was not measured."""
    lines = []
    if found.floor:
        rates = f"word error rate {found.floor['wer']:.1%}, character error rate {found.floor['cer']:.1%}"
        lines = [f"the recognizer on the original recordings: {rates}"]
    return lines + [f"not measured: {ROWS[measure][0]}: {reason}" for measure, reason in found.missing.items()]


def table(models: Sequence["ModelScores"]) -> Table:
    """One column a model, one row a measure."""
    summaries = [model.summary for model in models]
    made = Table(box=None)
    made.add_column(f"{summaries[0]['sentences']} sentences")
    for model in models:
        made.add_column(model.name, justify="right")
    made.add_column("better")
    for name, (label, form, better) in ROWS.items():
        made.add_row(label, *(cell(summary[name], form, summary["sentences"]) for summary in summaries), better)
    return made


def cell(value: float | None, form: str, sentences: int) -> str:
    """A figure of a summary over `sentences`; a dash where it was not measured."""
    if value is None or value != value:
        return "-"
    count = f" ({round(value * sentences)} of {sentences})" if form == SHARE and sentences < FEW else ""
    return form.format(value) + count


main = partial(run_command, EvaluateConfig, _evaluate, EvaluateConfig.__doc__)
"""The command; see `utils.cli.common.run_command` for its exit statuses."""


if __name__ == "__main__":
    main()
