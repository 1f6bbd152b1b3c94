"""The whole job on the bundled voice, headless: python -m utils.cli.demo."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.table import Table

from utils.cli.common import progress_report, run_command
from utils.cli.synthesize import synthesize
from utils.cli.train import train_with_bars
from utils.config import Config, ExportConfig, PrepareConfig, SynthesizeConfig, TrainConfig
from utils.paths import assets_folder, open_project

if TYPE_CHECKING:
    from utils.dataset.report import Report
    from utils.training.run import TrainResult

Result = TypeVar("Result")

NUM_SPOKEN = 2
"""Held-out sentences that the trained voice speaks."""


@dataclass(frozen=True, kw_only=True)
class DemoConfig(Config):
    """Prepare, train, export and speak with the bundled voice."""

    project: str = "demo"
    """Name of the voice; its folder below `output`."""
    output: Path = Path("output")
    """The folder that holds all projects."""
    base: str = "tiny"
    """Base model to fine-tune."""


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
    stages = Stages()
    voice = assets_folder() / "demo_voice"
    report = stages.run("prepare", lambda: _prepare(config, voice))
    trained = stages.run("train", lambda: train_with_bars(_train_config(config)))
    ready = stages.run("export", lambda: _export(config))
    wavs = stages.run("synthesize", lambda: _speak(config, voice))
    Console().print(_table(report, trained, stages.seconds, ready, wavs), soft_wrap=True)


def _prepare(config: DemoConfig, voice: Path) -> "Report":
    from utils.dataset.build import prepare

    settings = PrepareConfig(project=config.project, output=config.output, base=config.base, input=voice, language="en")
    with progress_report("preparing clips") as progress:
        return prepare(settings.validate(where="demo"), progress=progress)


def _train_config(config: DemoConfig) -> TrainConfig:
    return TrainConfig(project=config.project, output=config.output, base=config.base)


def _export(config: DemoConfig) -> Path:
    from utils.inference.export import export_model

    with progress_report("exporting") as progress:
        ready = export_model(ExportConfig(project=config.project, output=config.output))
        progress(1, 1)
    return ready


def _speak(config: DemoConfig, voice: Path) -> list[Path]:
    sentences = (voice / "heldout.txt").read_text(encoding="utf-8").splitlines()[:NUM_SPOKEN]
    folder = open_project(config.project, config.output).folder
    wavs = [folder / f"spoken_{number}.wav" for number in range(1, NUM_SPOKEN + 1)]
    with progress_report("speaking") as progress:
        for number, (sentence, wav) in enumerate(zip(sentences, wavs, strict=True), start=1):
            synthesize(SynthesizeConfig(project=config.project, output=config.output, text=sentence, out=wav))
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
