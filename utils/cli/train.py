"""Fine-tune a prepared voice: python -m utils.cli.train --project NAME --base tiny."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from utils.cli.common import given_fields, progress_phases, run_command
from utils.config import TrainConfig

if TYPE_CHECKING:
    from utils.training.preflight import Row
    from utils.training.run import TrainResult


@dataclass(frozen=True, kw_only=True)
class TrainCommand(TrainConfig):
    """Fine-tune the GPT of a base model on a prepared dataset."""

    preflight: bool = False
    """Measure a few real steps of each combination of switches on this machine and these clips, and train nothing."""
    auto: bool = False
    """Measure likewise, take the fastest combination and batch size that fit, and train with them; switches and a batch
    size that you give stay, also where they are the default."""

    def problems(self) -> list[str]:
        both = ["preflight trains nothing and auto trains; give one of them"] if self.preflight and self.auto else []
        return super().problems() + both

    @property
    def settings(self) -> TrainConfig:
        """What the run itself is given."""
        return TrainConfig(**{field.name: getattr(self, field.name) for field in fields(TrainConfig)})


def main(args: Sequence[str] | None = None) -> None:
    """The command; see `utils.cli.common.run_command` for its exit statuses."""
    command = partial(_command, given=given_fields(args))
    run_command(TrainCommand, command, "Fine-tune the GPT of a base model on a prepared dataset.", args)


def _command(command: TrainCommand, given: Collection[str]) -> None:
    config = command.settings
    if command.preflight or command.auto:
        chosen = _preflight(config, given)
        if command.preflight:
            return
        # What the user left open stays open: the run says who chose each value.
        config = _with_choice(config, chosen)
    _train(config)


def _preflight(config: TrainConfig, given: Collection[str]) -> "Row":
    """Measure and print; returns the recommended combination with its batch size."""
    with progress_phases() as report:
        return measure_switches(config, report, given)


def measure_switches(
    config: TrainConfig, report: Callable[[str, int, int | None], None], given: Collection[str] | None = None
) -> "Row":
    """Measure each combination of switches with real steps, and print the table.

    Args:
        config: the settings; each combination changes some of them.
        report: told (what is being done, done, in all).
        given: names of the settings that the user chose, which stay; those that are not the default when nobody knows.

    Returns:
        The recommended combination with its batch size.

    Raises:
        UserError: no combination could be measured.
    """
    from utils.errors import UserError
    from utils.paths import open_project
    from utils.training.data import load_data
    from utils.training.language import language_base
    from utils.training.precision import make_accelerator
    from utils.training.preflight import larger_batches, preflight, recommended, table
    from utils.training.settings import settle
    from utils.training.start import starting_base

    project = open_project(config.project, config.output)
    base = language_base(config, project, starting_base(config, project))
    settled = settle(config, project, base)
    data = load_data(settled, project, base, make_accelerator(config.device), report)
    audio_s = sum(clip.seconds for clip in data.train)

    def told(name: str, done: int, total: int) -> None:
        report("measuring", done, total)

    fixed = _fixed(config, given)
    rows = preflight(settled, audio_s=audio_s, fixed=fixed, told=told)
    best = recommended(rows)
    if best is None:
        raise UserError(
            what=f"no combination could be measured: {rows[-1].measured.fault}",
            where="preflight",
            fix="lower batch_size or max_audio_length",
        )
    largest = (
        best if {"batch_size", "grad_accumulation"} & set(fixed) else larger_batches(best, audio_s=audio_s, told=told)
    )
    print(table(rows if largest is best else [*rows, largest]))
    print(f"hours are those of {settled.num_epochs} epochs of {audio_s / 60:.1f} minutes")
    flags = _flags(largest.config)
    if fixed:
        print(f"kept as you chose: {', '.join(f'{name} {value}' for name, value in fixed.items())}")
    print(f"recommended: {largest.name}\n  --{' --'.join(flags)}")
    return largest


CHOSEN = (
    "batch_size",
    "grad_accumulation",
    "sdpa",
    "mixed_precision",
    "gradient_checkpointing",
    "compile",
    "eight_bit_optimizer",
    "offload_optimizer",
    "lora_rank",
)
"""Settings that preflight chooses."""


def _fixed(config: TrainConfig, given: Collection[str] | None) -> dict[str, Any]:
    """What the user chose of CHOSEN; see `measure_switches`."""
    if given is None:
        given = [field.name for field in fields(TrainConfig) if getattr(config, field.name) != field.default]
    return {name: getattr(config, name) for name in CHOSEN if name in given}


def _with_choice(config: TrainConfig, chosen: "Row") -> TrainConfig:
    from dataclasses import replace

    return replace(config, **{name: getattr(chosen.config, name) for name in CHOSEN})


def _flags(config: TrainConfig) -> list[str]:
    """The chosen settings as flags."""
    found = []
    for name in CHOSEN:
        value, flag = getattr(config, name), name.replace("_", "-")
        found.append((flag if value else f"no-{flag}") if isinstance(value, bool) else f"{flag} {value}")
    return found


def _train(config: TrainConfig) -> None:
    from utils.training.stopping import exit_status

    result = train_with_bars(config)
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
        print(f"stopped   go on with: python -m utils.cli.train --project {config.project} --resume {result.folder}")
    if result.stop_signal is not None:
        raise SystemExit(exit_status(result.stop_signal, result.folder))
    print(f"next      python -m utils.cli.export --project {config.project} --output {config.output}")


def train_with_bars(config: TrainConfig) -> "TrainResult":
    """Train with one progress bar for the codes and one for the steps."""
    # Imported late: torch takes seconds to load, and a wrong flag should be answered at once.
    from utils.training.run import Progresses, fine_tune

    with progress_phases() as report:
        progress = Progresses(data=report, steps=lambda done, total, loss: report("training steps", done, total))
        return fine_tune(config, progress=progress)


if __name__ == "__main__":
    main()
