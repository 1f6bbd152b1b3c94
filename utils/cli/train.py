"""Fine-tune a prepared voice: python -m utils.cli.train --project NAME --base starter."""

import logging
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from utils.callbacks import ProgressFn
from utils.cli.common import StageFlags, error_exits, given_fields, progress_phases, run_command
from utils.cli.measure_switches import CHOSEN, heeding_sigterm, measure_switches
from utils.config import TrainConfig
from utils.project.advice import command
from utils.project.paths import open_project
from utils.spellings import translate_words
from utils.switches import proof_lines

if TYPE_CHECKING:
    from utils.training.train import TrainResult


log = logging.getLogger("utils.cli.train")  # Run as a module, __name__ is another one, whose lines are not shown.


@dataclass(frozen=True, kw_only=True)
class TrainCommand(StageFlags, TrainConfig):
    """Fine-tune the GPT of a base model on a prepared dataset."""

    preflight: bool = False
    """Measure a few real steps of each combination of switches on this machine and these clips, and train nothing."""
    auto: bool = False
    """Measure likewise, take the fastest combination and batch size that fit, and train with them; switches and a batch
    size that you give stay, also where they are the default."""

    def problems(self) -> list[str]:
        both = ["preflight trains nothing and auto trains; give one of them"] if self.preflight and self.auto else []
        return super().problems() + both


def main(args: Sequence[str] | None = None) -> None:
    """The command; see `utils.cli.common.run_command` for its exit statuses.

    Flags as other trainers spell them (`utils.spellings`) are taken as well.
    """
    with error_exits():
        words, notes = translate_words(sys.argv[1:] if args is None else args)
    # As other launchers spell it.
    words = ["0" if (before, word) == ("--processes", "auto") else word for before, word in pairwise(["", *words])]
    command = partial(_command, given=given_fields(words), notes=notes)
    description = f"{TrainCommand.__doc__} --preflight measures the switches and trains nothing."
    run_command(TrainCommand, command, description, words)


def _command(command: TrainCommand, given: Collection[str], notes: Sequence[str]) -> None:
    # Imported late: a wrong flag should be answered at once.
    from utils.bases.download import fetch_base

    config = command.settings_of(TrainConfig)
    for note in notes:
        log.info(note)
    if config.resume is None:
        open_project(config.project, config.output).require_dataset(config.train_csv, config.eval_csv)
    with progress_phases() as phases:
        fetch_base(config.base, accept_license=command.accept_license, progress=phases)
    if command.preflight or command.auto:
        plain = TrainConfig(project=config.project)
        of_file = (name for name, value in vars(config).items() if command.config and value != getattr(plain, name))
        with heeding_sigterm(), progress_phases() as report:
            chosen = measure_switches(config, report, {*given, *of_file})
        if command.preflight:
            return
        # What the user left open besides stays open.
        config = replace(config, **{name: getattr(chosen.config, name) for name in CHOSEN})
    _train(config)


def _train(config: TrainConfig) -> None:
    from utils.training.distributed import launch, num_processes

    if (count := num_processes(config)) == 1:
        train_and_print(config)
    elif status := launch(config, count):
        raise SystemExit(status)


def train_and_print(config: TrainConfig) -> None:
    """Train in this process and print what came of it.

    Raises:
        SystemExit: the run was stopped by a signal; its status is 128 plus the signal's number.
    """
    from utils.jobs.child import exit_status

    with progress_phases() as report:
        result = train_and_log(config, report)
    project = open_project(config.project, config.output)
    print(f"run       {result.folder}")
    for name, source in result.sources.items():
        print(f"          {name} {getattr(result.settings, name)} (chosen by {source})")
    print(f"clips     {result.num_clips} used, {result.num_dropped} dropped")
    print(f"steps     {result.num_steps}")
    print(f"loss      {result.first_loss:.3f} at the first step, {result.last_loss:.3f} at the last")
    print(f"by epoch  {', '.join(f'{loss:.3f}' for loss in result.epoch_losses)}")
    print(f"eval      {result.best_loss:.3f} at best")
    print(f"weights   {result.checkpoint}")
    print(f"saving    training stood still for {result.save_waited_s:.1f} s")
    if result.skipped_steps:
        print(f"skipped   {result.skipped_steps} steps had a loss or gradient that is no number; see events.jsonl")
    if result.ended == "patience":
        print(f"ended     early: the loss did not fall in {config.patience} evaluations in a row")
    if result.ended in ("signal", "hours"):
        print(f"stopped   resume with: {command('train', project=project, resume=result.folder)}")
    if result.stop_signal is not None:
        raise SystemExit(exit_status(result.stop_signal, result.folder))
    print(f"next      {command('export', project=project)}")


def train_and_log(config: TrainConfig, report: ProgressFn) -> "TrainResult":
    """Train, and log which switches really worked and how the samples score."""
    # Imported late: torch takes seconds to load, and a wrong flag should be answered at once.
    from utils.callbacks import Progresses
    from utils.runs.narration import speech_line
    from utils.training.train import fine_tune

    def show(kind: str, event: dict[str, Any]) -> None:
        for line in proof_lines(event["switches"]) if kind == "optimizations" else []:
            log.info(line)
        if kind == "speech_scores":
            log.info(speech_line(event))

    steps = partial(report, "training steps")
    progress = Progresses(data=report, steps=lambda done, total, loss: steps(done, total), events=show)
    return fine_tune(config, progress=progress)


if __name__ == "__main__":
    main()
