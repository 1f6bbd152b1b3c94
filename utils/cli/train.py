"""Fine-tune a prepared voice: python -m utils.cli.train --project NAME --base tiny."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from utils.cli.common import progress_phases, run_command
from utils.config import TrainConfig

if TYPE_CHECKING:
    from utils.training.run import TrainResult


def main(args: Sequence[str] | None = None) -> None:
    """The command; see `utils.cli.common.run_command` for its exit statuses."""
    run_command(TrainConfig, _train, "Fine-tune the GPT of a base model on a prepared dataset.", args)


def _train(config: TrainConfig) -> None:
    from utils.training.stopping import EXIT_BASE

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
    if result.stop_signal is not None:
        print(f"stopped   go on with: python -m utils.cli.train --project {config.project} --resume {result.folder}")
        raise SystemExit(EXIT_BASE + result.stop_signal)
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
