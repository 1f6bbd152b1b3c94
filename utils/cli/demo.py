"""The whole job on the bundled voice, headless: python -m utils.cli.demo.

With a base that speaks, the same held-out sentences are spoken before and after training, and what changed is measured.
"""

from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from utils.callbacks import ProgressFn
from utils.cli.common import progress_phases, run_command
from utils.cli.evaluate import notes
from utils.cli.evaluate import table as evaluation_table
from utils.cli.synthesize import synthesize
from utils.cli.train import train_and_log
from utils.config import DemoConfig, ExportConfig, SynthesizeConfig, TrainConfig
from utils.dataset.settings import PrepareConfig
from utils.evaluation.settings import EvaluateConfig
from utils.jobs.child import exit_status
from utils.project.paths import AFTER, BEFORE, HELD_OUT, assets_folder, open_project

if TYPE_CHECKING:
    from utils.dataset.storage.report import Report
    from utils.evaluation.evaluate import Evaluation
    from utils.evaluation.scores import Summary
    from utils.training.train import TrainResult

NUM_MEASURED = 30
"""Held-out sentences that are measured: ten did not show that a voice ended every fourth one wrongly."""
LEAST_WORDS, LEAST_SIMILARITY = 2, 0.01
"""Words of 100, and similarity, that must change to count as a difference."""


def _demo(config: DemoConfig) -> None:
    from utils.bases.find import find_base

    with progress_phases() as report:
        clips, trained = try_voice(config, report)
        # Measuring makes sense where the base has learned to speak.
        found = measure_voices(config, report) if find_base(config.base).can_speak else None
    if found is not None:
        Console().print(evaluation_table(found.models))
        before, after = (model.summary for model in found.models)
        for line in [*notes(found), *what_changed(before, after)]:
            Console().print(line, soft_wrap=True)
    project = open_project(config.project, config.output)
    table = Table(show_header=False, box=None)
    table.add_row("clips", f"{len(clips.clips)} in, {len(clips.used)} used, {len(clips.dropped)} dropped")
    table.add_row("steps", str(trained.num_steps))
    table.add_row("loss", f"{trained.first_loss:.3f} at the first step, {trained.last_loss:.3f} at the last")
    table.add_row("model", str(project.ready))
    for name in (BEFORE, AFTER):
        table.add_row("spoken", str(project.folder / name))
    Console().print(table, soft_wrap=True)


def try_voice(config: DemoConfig, report: ProgressFn) -> tuple["Report", "TrainResult"]:
    """Prepare, train and export, then let base and trained model speak one held-out sentence.

    Args:
        config: the settings.
        report: called with how far it is.

    Raises:
        UserError: any fault of a stage.
        SystemExit: the training was stopped.
    """
    from utils.dataset.build import prepare
    from utils.inference.export import export_model

    voice, project = assets_folder() / "demo_voice", open_project(config.project, config.output)
    name, output, base = config.project, config.output, config.base
    settings = PrepareConfig(project=name, output=output, base=base, input=voice, language="en")
    clips = prepare(settings.validate(where="demo"), progress=report)
    trained = train_and_log(TrainConfig(project=name, output=output, base=base), report)
    if trained.stop_signal is not None:
        raise SystemExit(exit_status(trained.stop_signal, trained.folder))
    # Not compared with the base here: the sentences that are spoken afterwards do so.
    ready = export_model(ExportConfig(project=name, output=output, compare=False), progress=report)
    sentence = voice.with_name(HELD_OUT).read_text(encoding="utf-8").splitlines()[0]
    reference = ready / "reference.wav"
    for number, (model, file) in enumerate(((base, BEFORE), (str(project.ready), AFTER))):
        report("speaking", number, 2)
        out = project.folder / file
        synthesize(SynthesizeConfig(model=model, reference=reference, language="en", text=sentence, out=out, seed=1))
    report("speaking", 2, 2)
    return clips, trained


def measure_voices(config: DemoConfig, report: ProgressFn) -> "Evaluation":
    """The base's try at the voice, and the trained model, on sentences that neither was trained on.

    Without espeak-ng there are no reference recordings of the held-out list; the dataset's evaluation clips are spoken
    then.
    """
    from utils.evaluation.evaluate import evaluate
    from utils.evaluation.recognition import usable
    from utils.evaluation.reference import find_voice

    synthesizer, _ = usable(lambda: find_voice("en"))
    settings = EvaluateConfig(
        project=config.project,
        output=config.output,
        checkpoint="base,ready",
        sentences=assets_folder() / HELD_OUT if synthesizer else None,
        num_sentences=NUM_MEASURED,
    )
    return evaluate(settings, progress=report)


def what_changed(before: "Summary", after: "Summary") -> list[str]:
    """What training changed, for readers who do not know the metrics."""
    lines, gains = [], []
    wers = before["wer"], after["wer"]
    if None not in wers:
        first, then = (round(100 * max(0.0, 1 - wer)) for wer in wers)
        lines.append(f"a recognizer understood {first} of 100 words before training and {then} of 100 after")
        gains.append(then - first > LEAST_WORDS)
    name = "cosine" if before["second_cosine"] is None or after["second_cosine"] is None else "second_cosine"
    near, nearer = before[name], after[name]
    if near is not None and nearer is not None:
        lines.append(f"similarity to the recorded voice was {near:.2f} before training and is {nearer:.2f} after")
        gains.append(nearer - near > LEAST_SIMILARITY)
    if gains and not any(gains):
        lines.append("training made this voice neither clearer nor more similar; more or longer recordings may help")
    return lines


main = partial(run_command, DemoConfig, _demo, "Run the whole job on the bundled voice.")
"""The command; see `utils.cli.common.run_command` for its exit statuses."""


if __name__ == "__main__":
    main()
