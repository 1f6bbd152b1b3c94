"""The whole job on the bundled voice, headless: python -m utils.cli.demo.

With a base that speaks, the same held-out sentences are spoken before and after training, and what changed is measured.
"""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.table import Table

from utils.callbacks import ProgressFn
from utils.cli.common import progress_phases, progress_report, run_command
from utils.cli.evaluate import notes
from utils.cli.evaluate import table as evaluation_table
from utils.cli.synthesize import synthesize
from utils.cli.train import train_with_bars
from utils.config import DemoConfig, ExportConfig, SynthesizeConfig, TrainConfig
from utils.dataset.settings import PrepareConfig
from utils.evaluation.settings import EvaluateConfig
from utils.jobs.stopping import exit_status
from utils.project.paths import AFTER, BEFORE, HELD_OUT, assets_folder, open_project

if TYPE_CHECKING:
    from utils.dataset.storage.report import Report
    from utils.evaluation.evaluate import Evaluation
    from utils.evaluation.scores import Summary
    from utils.training.train import TrainResult

Result = TypeVar("Result")

NUM_MEASURED = 30
"""Held-out sentences that are measured: ten did not show that a voice ended every fourth one wrongly."""
NUM_SPOKEN = 2
"""Held-out sentences that a voice speaks when it only makes noise: nothing is measured then."""
LEAST_WORDS, LEAST_SIMILARITY = 2, 0.01
"""Words of 100, and similarity, that must change to count as a difference."""


@dataclass
class Stages:
    """Runs the stages one after the other and remembers how long each took."""

    seconds: dict[str, float] = field(default_factory=dict)

    def run(self, name: str, work: Callable[[], Result]) -> Result:
        started = time.perf_counter()
        result = work()
        self.seconds[name] = time.perf_counter() - started
        return result


def main(args: Sequence[str] | None = None) -> None:
    """The command; see `utils.cli.common.run_command` for its exit statuses."""
    run_command(DemoConfig, _demo, "Run the whole job on the bundled voice.", args)


def _demo(config: DemoConfig) -> None:
    from utils.bases.find import find_base

    stages = Stages()
    voice = assets_folder() / "demo_voice"
    report = stages.run("prepare", lambda: _with_bars(partial(_prepare, config, voice)))
    training = TrainConfig(project=config.project, output=config.output, base=config.base)
    trained = stages.run("train", lambda: train_with_bars(training))
    ready = stages.run("export", lambda: _with_bars(partial(_export, config)))
    # Measuring makes sense where the base has learned to speak.
    if find_base(config.base).can_speak:
        found = stages.run("measure", lambda: compare_voices(config, voice))
        wavs = keep_pair(found, ready.parent)
        Console().print(evaluation_table(found.models))
        before, after = (model.summary for model in found.models)
        for line in [*notes(found), *what_changed(before, after)]:
            Console().print(line, soft_wrap=True)
    else:
        wavs = stages.run("synthesize", lambda: _speak(config, voice))
    Console().print(_table(report, trained, stages.seconds, ready, wavs), soft_wrap=True)


def try_voice(config: DemoConfig, report: ProgressFn) -> None:
    """Prepare, train and export as the command does, then let base and trained model speak one held-out sentence.

    Args:
        config: the settings.
        report: called with how far it is.

    Raises:
        UserError: any fault of a stage.
        SystemExit: the training was stopped.
    """
    from utils.callbacks import Progresses
    from utils.training.train import fine_tune

    voice, project = assets_folder() / "demo_voice", open_project(config.project, config.output)
    _prepare(config, voice, report)
    training = TrainConfig(project=config.project, output=config.output, base=config.base)
    steps = Progresses(data=report, steps=lambda done, total, loss: report("training steps", done, total))
    trained = fine_tune(training, progress=steps)
    if trained.stop_signal is not None:
        raise SystemExit(exit_status(trained.stop_signal, trained.folder))
    ready = _export(config, report)
    sentence = voice.with_name(HELD_OUT).read_text(encoding="utf-8").splitlines()[0]
    pair = zip((config.base, str(project.ready)), (BEFORE, AFTER), strict=True)
    for number, (model, name) in enumerate(pair):
        report("speaking", number, 2)
        out, reference = project.folder / name, ready / "reference.wav"
        synthesize(SynthesizeConfig(model=model, reference=reference, language="en", text=sentence, out=out, seed=1))
    report("speaking", 2, 2)


def _prepare(config: DemoConfig, voice: Path, progress: ProgressFn) -> "Report":
    from utils.dataset.build import prepare

    settings = PrepareConfig(project=config.project, output=config.output, base=config.base, input=voice, language="en")
    return prepare(settings.validate(where="demo"), progress=progress)


def _export(config: DemoConfig, progress: ProgressFn) -> Path:
    from utils.inference.export import export_model

    # Not compared with the base here: the last stage does so, with more sentences.
    settings = ExportConfig(project=config.project, output=config.output, compare=False)
    return export_model(settings, progress=progress)


def _with_bars(stage: Callable[[ProgressFn], Result]) -> Result:
    with progress_phases() as progress:
        return stage(progress)


def compare_voices(config: DemoConfig, voice: Path) -> "Evaluation":
    """The base's try at the voice, and the trained model, on sentences that neither was trained on.

    Without espeak-ng there are no reference recordings of the held-out list; the dataset's evaluation clips are spoken
    then.
    """
    from utils.evaluation.evaluate import evaluate
    from utils.evaluation.recognition import usable
    from utils.evaluation.reference import find_voice

    synthesizer, _ = usable(partial(find_voice, "en"))
    settings = EvaluateConfig(
        project=config.project,
        output=config.output,
        checkpoint="base,ready",
        sentences=voice.with_name(HELD_OUT) if synthesizer else None,
        num_sentences=NUM_MEASURED,
    )
    with progress_phases() as progress:
        return evaluate(settings, progress=progress)


def keep_pair(found: "Evaluation", folder: Path) -> list[Path]:
    """The first sentence, spoken before and after training, under names that are easy to find."""
    pair = [folder / BEFORE, folder / AFTER]
    for model, path in zip(found.models, pair, strict=True):
        shutil.copyfile(found.folder / model.scores[0].wav, path)
    return pair


def what_changed(before: "Summary", after: "Summary") -> list[str]:
    """What training changed, for readers who do not know the metrics."""
    lines, gains = [], []
    if before.wer is not None and after.wer is not None:
        first, then = (round(100 * max(0.0, 1 - wer)) for wer in (before.wer, after.wer))
        lines.append(f"a recognizer understood {first} of 100 words before training and {then} of 100 after")
        gains.append(then - first > LEAST_WORDS)
    name = "cosine" if before.second_cosine is None or after.second_cosine is None else "second_cosine"
    near, nearer = getattr(before, name), getattr(after, name)
    if near is not None and nearer is not None:
        lines.append(f"similarity to the recorded voice was {near:.2f} before training and is {nearer:.2f} after")
        gains.append(nearer - near > LEAST_SIMILARITY)
    if gains and not any(gains):
        lines.append("training made this voice neither clearer nor more similar; more or longer recordings may help")
    return lines


def _speak(config: DemoConfig, voice: Path) -> list[Path]:
    sentences = voice.with_name(HELD_OUT).read_text(encoding="utf-8").splitlines()[:NUM_SPOKEN]
    folder = open_project(config.project, config.output).folder
    wavs = [folder / f"spoken_{number}.wav" for number in range(1, NUM_SPOKEN + 1)]
    with progress_report("speaking") as progress:
        for number, (sentence, wav) in enumerate(zip(sentences, wavs, strict=True), start=1):
            synthesize(SynthesizeConfig(project=config.project, output=config.output, text=sentence, out=wav, seed=1))
            progress(number, NUM_SPOKEN)
    return wavs


def _table(report: "Report", trained: "TrainResult", seconds: dict[str, float], ready: Path, wavs: list[Path]) -> Table:
    table = Table(show_header=False, box=None)
    table.add_row("clips", f"{len(report.clips)} in, {len(report.used)} used, {len(report.dropped)} dropped")
    table.add_row("steps", str(trained.num_steps))
    table.add_row("loss", f"{trained.first_loss:.3f} at the first step, {trained.last_loss:.3f} at the last")
    for stage, took in seconds.items():
        table.add_row(stage, f"{took:.1f} s")
    table.add_row("model", str(ready))
    for wav in wavs:
        table.add_row("spoken", str(wav))
    return table


if __name__ == "__main__":
    main()
