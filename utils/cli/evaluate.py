"""Measure speech quality: python -m utils.cli.evaluate --project NAME --checkpoint best,base."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from utils.callbacks import ProgressFn
from utils.cli.common import progress_phases, run_command
from utils.evaluation.settings import EvaluateConfig

if TYPE_CHECKING:
    from utils.evaluation.scores import ModelScores

ROWS = {
    "retrieval": ("right sentence among all", "{:.0%}", "higher"),
    "near_miss": ("right sentence among near misses", "{:.0%}", "higher"),
    "cer": ("character error rate", "{:.1%}", "lower"),
    "mcd_db": ("mel-cepstral distortion, dB", "{:.2f}", "lower"),
    "cosine": ("speaker similarity, cosine", "{:.3f}", "higher"),
    "pitch": ("pitch off by, semitones", "{:.2f}", "lower"),
    "pitch_range": ("range of pitch off by, semitones", "{:.2f}", "lower"),
    "spectrum": ("long-term spectrum off by, dB", "{:.2f}", "lower"),
    "duration_ratio": ("length over the reference's", "{:.2f}", "near 1"),
    "silent": ("silent or with long pauses", "{:.0%}", "lower"),
    "run_on": ("talks on after the end", "{:.0%}", "lower"),
    "early_stop": ("stops early", "{:.0%}", "lower"),
    "loop": ("loops", "{:.0%}", "lower"),
    "real_time": ("seconds of work a second of speech", "{:.2f}", "lower"),
}
"""What is printed of a summary: name, format, and which way is better."""


def main(args: Sequence[str] | None = None) -> None:
    """The command; see `utils.cli.common.run_command` for its exit statuses."""
    run_command(EvaluateConfig, _evaluate, EvaluateConfig.__doc__, args)


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
    for measure, reason in found.missing.items():
        print(f"not measured: {ROWS[measure][0]}: {reason}")
    print(f"figures, pictures and wavs: {found.folder} ({RESULT_FILE}, summary.png, sentences.png)")


def table(models: Sequence["ModelScores"]) -> Table:
    """One column a model, one row a measure."""
    summaries = [model.summary for model in models]
    made = Table(box=None)
    made.add_column(f"{summaries[0].sentences} sentences")
    for model in models:
        made.add_column(model.name, justify="right")
    made.add_column("better")
    for name, (label, form, better) in ROWS.items():
        values = [getattr(summary, name) for summary in summaries]
        cells = ["-" if value is None or value != value else form.format(value) for value in values]
        made.add_row(label, *cells, better)
    return made


if __name__ == "__main__":
    main()
