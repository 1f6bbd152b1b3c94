"""A training run from its settings to its folder: check everything, then train, then say what is where."""

import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list

from utils import jobs
from utils.audio.decode import load_audio
from utils.audio.write import write_wav
from utils.config import SAMPLE_RATE, TrainConfig
from utils.errors import UserError, disk_errors
from utils.model.base import Base, find_base
from utils.model.weights import write_pickle
from utils.paths import Project, new_run_id, open_project
from utils.training.assembly import make_trainer, steps_per_epoch
from utils.training.data import PhaseProgress, TrainingData, load_data
from utils.training.divergence import Divergence
from utils.training.loaders import Loaders
from utils.training.loop import Progress, Run, fit, resume
from utils.training.precision import make_accelerator
from utils.training.recovery import Recovery
from utils.training.run_log import RunLog
from utils.training.settings import last_checkpoint, settle, sources_of, with_saved_settings
from utils.training.state import MODEL_FILE, Checkpoints
from utils.training.trainer import Trainer
from utils.training_optimizations import TrainingOptimizer

log = logging.getLogger(__name__)

BASE_FOLDER = "base"
"""Folder in a run with the small files of its base."""
REFERENCE_FILE = "reference.wav"


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """What a finished run left behind."""

    folder: Path
    """runs/<id>/."""
    checkpoint: Path
    """GPT weights of the best evaluation; of the last step when the run was stopped before the first one."""
    config: Path
    vocab: Path
    speakers: Path
    reference: Path
    """The longest training clip: what the exported model speaks like."""
    settings: TrainConfig
    """As they were applied, open ones filled in."""
    sources: dict[str, str]
    """Who chose each setting that may be left open."""
    num_steps: int
    num_clips: int
    num_dropped: int
    epoch_losses: list[float]
    """Mean training loss of each epoch."""
    first_loss: float
    last_loss: float
    best_loss: float
    """Lowest evaluation loss."""
    stop_signal: int | None
    """The signal that stopped the run early; None when it came to its end."""


@dataclass(frozen=True, kw_only=True)
class Progresses:
    """Who is told how far the run is; each may be left out."""

    data: PhaseProgress | None = None
    steps: Progress | None = None


@disk_errors()
def fine_tune(
    config: TrainConfig, *, project: Project | None = None, progress: Progresses | None = None
) -> TrainResult:
    """Train on a prepared dataset; a new run folder is made each time, and nothing older is touched.

    Started by `accelerate launch` or torchrun, all processes share one run; the first one writes.

    Args:
        config: the settings.
        project: where the run goes, when it is not the project that the settings name.
        progress: who is told how far the run is.

    Raises:
        UserError: any fault of settings, base or data, before a run folder exists; a full disk; or a loss that is no
            longer a number.
    """
    config = with_saved_settings(config.validate(where="training settings"))
    progress = progress or Progresses()
    project = project or open_project(config.project, config.output)
    base = find_base(config.base)
    settled = settle(config, project, base)
    accelerator = make_accelerator(config.device)
    optimizations = TrainingOptimizer.from_config(settled, accelerator.device)
    data = load_data(settled, project, base, accelerator, progress.data)
    trainer = make_trainer(settled, base, data, accelerator, optimizations)
    folder = _make_folder(settled, project, base, data, accelerator)
    sources = sources_of(config, base)
    run = _make_run(settled, base, data, folder, trainer, optimizations)
    run.progress = progress.steps
    with _told(run), run.stop:
        if config.resume:
            resume(run, last_checkpoint(config.resume))
        if run.is_writer:
            _tell_start(run.log, settled, base, data, sources, trainer, run.total_steps)
        fit(run)
    accelerator.wait_for_everyone()
    return _result(run, folder, data, settled, sources)


def _make_folder(
    config: TrainConfig, project: Project, base: Base, data: TrainingData, accelerator: Accelerator
) -> Path:
    """The run's folder, the same for all processes: the resumed run's, or a new one that the first process makes."""
    name = [str(config.resume or project.runs / (config.run_id or new_run_id()))]
    broadcast_object_list(name)
    folder = Path(name[0])
    if accelerator.is_main_process:
        if not config.resume:
            _furnish(folder, config, base, data)
        _claim(folder, config, project)
    accelerator.wait_for_everyone()
    return folder


def _claim(folder: Path, config: TrainConfig, project: Project) -> None:
    """Make the run known as the one on its device.

    Raises:
        UserError: another run has the device; a folder that was just made for nothing is taken away again.
    """
    try:
        jobs.register(folder, "train", device=config.device, output=project.output)
    except UserError:
        if not config.resume:
            shutil.rmtree(folder)
        raise


def _furnish(folder: Path, config: TrainConfig, base: Base, data: TrainingData) -> None:
    """Make the run folder with its settings, the base's small files and the reference recording."""
    # A job's folder is made by who starts the job, with the settings in it; a run's own files come with the run.
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "base.json").exists():
        raise UserError(what=f"run {folder.name!r} exists already", where=str(folder), fix="choose another run_id")
    config.save(folder / "config.yaml")
    own = folder / BASE_FOLDER
    own.mkdir()
    for name in ("config.json", "vocab.json", "speakers_xtts.pth"):
        if (base.folder / name).is_file():
            shutil.copyfile(base.folder / name, own / name)
    if not (own / "speakers_xtts.pth").is_file():
        # v2.0.2 has no studio speakers; stock reads an empty list of them just as well.
        write_pickle(own / "speakers_xtts.pth", {})
    origin = {"name": base.name, "folder": str(base.folder.absolute())}
    (folder / "base.json").write_text(json.dumps(origin), encoding="utf-8")
    longest = max(data.train, key=lambda clip: clip.num_samples)
    write_wav(folder / REFERENCE_FILE, load_audio(longest.audio, SAMPLE_RATE), SAMPLE_RATE)


def _make_run(
    config: TrainConfig,
    base: Base,
    data: TrainingData,
    folder: Path,
    trainer: Trainer,
    optimizations: TrainingOptimizer,
) -> Run:
    assert config.num_epochs
    processes = trainer.accelerator
    loaders = Loaders(config, base, data, processes, optimizations.switches)
    run_log = RunLog(folder / "events.jsonl" if processes.is_main_process else None)
    return Run(
        trainer=trainer,
        optimizations=optimizations,
        make_train_loader=loaders.train,
        eval_loader=loaders.evaluate(),
        checkpoints=Checkpoints(folder / "checkpoints"),
        log=run_log,
        recovery=Recovery(
            trainer,
            split_train=loaders.splitter(training=True),
            split_eval=loaders.splitter(training=False),
            warn=run_log.warn,
        ),
        divergence=Divergence(run_log.warn, precision=trainer.precision),
        data=data.fingerprint(),
        num_epochs=config.num_epochs,
        steps_per_epoch=steps_per_epoch(config, data, processes.num_processes),
        grad_accumulation=config.grad_accumulation,
        checkpoint_every=config.checkpoint_every,
    )


def _tell_start(
    run_log: RunLog,
    config: TrainConfig,
    base: Base,
    data: TrainingData,
    sources: dict[str, str],
    trainer: Trainer,
    total_steps: int,
) -> None:
    run_log.write(
        "started",
        base=base.name,
        config=json.loads(json.dumps(vars(config), default=str)),
        sources=sources,
        clips=len(data.train),
        eval_clips=len(data.evaluate),
        dropped=data.dropped,
        precision=trainer.precision,
        device=str(trainer.device),
        processes=trainer.accelerator.num_processes,
        total_steps=total_steps,
    )


@contextmanager
def _told(run: Run) -> Iterator[None]:
    """Make the end of the run the last event of its log, whatever the end is."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        _tell_end(run, "stopped", signal=run.stop.number)
        raise
    except BaseException as error:
        _tell_end(
            run, "failed", error=str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        )
        raise
    if run.epoch < run.num_epochs:
        _tell_end(run, "stopped", signal=run.stop.number)
    else:
        _tell_end(run, "finished", best_loss=run.best_loss)


def _tell_end(run: Run, kind: str, **fields: object) -> None:
    try:
        run.log.write(kind, step=run.trainer.num_steps, skipped_steps=run.divergence.num_skipped, **fields)
        run.log.close()
    except (OSError, UserError):
        # What ended the run is on its way to the user; a log that cannot be written must not take its place.
        log.exception("the end of the run could not be logged")


def _result(run: Run, folder: Path, data: TrainingData, settings: TrainConfig, sources: dict[str, str]) -> TrainResult:
    best = run.checkpoints.best() or run.checkpoints.last()
    assert best is not None, "a run ends after an epoch's evaluation or with a checkpoint"
    return TrainResult(
        folder=folder,
        checkpoint=best / MODEL_FILE,
        config=folder / BASE_FOLDER / "config.json",
        vocab=folder / BASE_FOLDER / "vocab.json",
        speakers=folder / BASE_FOLDER / "speakers_xtts.pth",
        reference=folder / REFERENCE_FILE,
        settings=settings,
        sources=sources,
        num_steps=run.trainer.num_steps,
        num_clips=len(data.train) + len(data.evaluate),
        num_dropped=len(data.dropped),
        epoch_losses=run.epoch_losses,
        first_loss=run.first_loss,
        last_loss=run.last_loss,
        best_loss=run.best_loss,
        stop_signal=run.stop.number if run.epoch < run.num_epochs else None,
    )
