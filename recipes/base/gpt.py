"""Stage 5: the GPT, trained from nothing by the project's own engine, its attention guided by exact word times.

Needs the stages codec (`<work>/dvae/`) and clips (`<work>/clips/`). The run is a project in `<work>/gpt/`.

    python -m recipes.base.gpt --work FOLDER
"""

from pathlib import Path

from recipes.base.stage import StageConfig, main_of
from recipes.starter.gpt import SEED, is_done, make_seed_base, step_reports
from utils.config import TrainConfig
from utils.project.paths import Project
from utils.training.train import fine_tune

LAYERS, WIDTH, HEADS = 8, 320, 5
NUM_EPOCHS, BATCH_SIZE = 10, 24
LEARNING_RATE, WARMUP = 4e-4, 500
READING_WEIGHT = 0.2


def train(config: StageConfig) -> None:
    """Train, resume from the last checkpoint, or do nothing when all epochs are done.

    Raises:
        SystemExit: a signal stopped the training, with its status; what it did is kept.
    """
    base, project = config.work / "seed_base", Project(name="gpt", output=config.work)
    if not (base / "about.json").is_file():
        make_seed_base(config.work, base, sizes=(LAYERS, WIDTH, HEADS))
    project.dataset.mkdir(parents=True, exist_ok=True)
    started = sorted(project.runs.glob("*/checkpoints/step-*"))
    resume = started[-1].parents[1] if started else None
    if resume is not None and is_done(resume, NUM_EPOCHS):
        print(f"gpt: {resume.name} is done")
        return
    ended = fine_tune(settings(config.work, base, resume=resume), project=project, progress=step_reports())
    if ended.stop_signal is not None:
        raise SystemExit(128 + ended.stop_signal)


def settings(work: Path, base: Path, *, resume: Path | None) -> TrainConfig:
    """The run's settings."""
    return TrainConfig(
        project="gpt",
        output=work,
        base=str(base),
        language="en",
        train_csv=work / "clips" / "metadata_training.csv",
        eval_csv=work / "clips" / "metadata_choosing.csv",
        num_epochs=NUM_EPOCHS,
        batch_size=BATCH_SIZE,
        eval_batch_size=BATCH_SIZE,
        learning_rate=LEARNING_RATE,
        warmup_steps=WARMUP,
        mixed_precision="auto",
        dropout=0.0,
        conditioning="other",
        reading_weight=READING_WEIGHT,
        checkpoint_every=200,
        seed=SEED,
        resume=resume,
    )


if __name__ == "__main__":
    main_of(StageConfig, {"train": train})
