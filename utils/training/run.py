"""A training run from its settings to its folder: check everything, then train, then say what is where."""

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from utils.bases.base import Base
from utils.checkpoints.async_saver import Saver
from utils.checkpoints.layout import MODEL_FILE
from utils.checkpoints.store import Checkpoints
from utils.config import TrainConfig
from utils.errors import UserError, disk_errors
from utils.events.loggers import find_loggers
from utils.events.progress import Progresses
from utils.events.run_log import RunLog
from utils.jobs.stopping import Limits
from utils.performance_utils import PerformanceTracker, log_performance_info, log_system_info, peak_flops
from utils.performance_utils.settings import kept_torch_settings
from utils.project.advice import command
from utils.project.paths import Project, open_project
from utils.training.claim import claimed
from utils.training.data.language import language_base, what_was_added
from utils.training.data.load import TrainingData, load_data
from utils.training.data.loaders import Loaders
from utils.training.divergence import Divergence
from utils.training.loop import End, Run, fit
from utils.training.optimizations.training_optimizer import TrainingOptimizer
from utils.training.optimizer.precision import DTYPES, make_accelerator
from utils.training.recovery import Recovery
from utils.training.resuming import Resumed, find_checkpoint, put_in_order, require_resumable, take_up
from utils.training.run_folder import (
    BASE_FOLDER,
    REFERENCE_FILE,
    keep_start,
    make_folder,
    renew_settings,
    starting_base,
)
from utils.training.samples import make_sampling
from utils.training.settings import as_json, portable, settle, sources_of
from utils.training.trainer import Trainer, make_trainer

log = logging.getLogger(__name__)


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
    ended: End
    """Why the run ended: epochs, patience, hours or signal."""
    stop_signal: int | None
    """The signal that stopped the run early; None when none did."""
    skipped_steps: int
    """Steps left out because their numbers were not finite."""
    save_waited_s: float
    """How long training stood still for saving."""


@disk_errors()
@kept_torch_settings()
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
    config.validate(where="training settings")
    find_loggers(config.log_to)
    progress = progress or Progresses()
    project = project or open_project(config.project, config.output)
    resumed = None
    if config.resume:
        config, resumed = find_checkpoint(config, project)
    chosen = starting_base(config, project, resumed.run if resumed else None)
    base = language_base(config, project, chosen)
    settled = settle(config, project, base)
    # Before the first process group, CUDA context or model: two trainings on one device would both fail.
    with claimed(config.device, project):
        added = None if resumed else what_was_added(chosen, base)
        return _fine_tune(config, settled, project, base, resumed, progress, added)


def _fine_tune(
    config: TrainConfig,
    settled: TrainConfig,
    project: Project,
    base: Base,
    resumed: Resumed | None,
    progress: Progresses,
    added: str | None,
) -> TrainResult:
    """As `fine_tune`, on a device that this process has.

    Args:
        config: as given, to tell who chose what.
        settled: its open settings filled in.
        project, base: what is trained.
        resumed: what is gone on from, if anything.
        progress: who is told.
        added: what the base was given on the way, for the user.
    """
    accelerator = make_accelerator(config.device)
    optimizations = TrainingOptimizer.from_config(settled, accelerator.device)
    data = load_data(settled, project, base, accelerator, progress.data)
    if resumed:
        require_resumable(resumed, settled, data.fingerprint())
    trainer = make_trainer(settled, base, data, accelerator, optimizations)
    folder = make_folder(settled, project, base, data, accelerator, resumed)
    if accelerator.is_main_process and not resumed:
        keep_start(folder, settled, base)
    sources = sources_of(config, base)
    events = folder / "events.jsonl" if accelerator.is_main_process else None
    # They log the run under its name and settings, which are decided now.
    opened = [logger(folder, settled.plain()) for logger in find_loggers(config.log_to)] if events else []
    run_log = RunLog(events, progress.events, opened)
    run = _make_run(settled, project, base, data, folder, trainer, optimizations, run_log)
    run.progress = progress.steps
    # Signals are heard to the very end: waiting for the last sample can be cut short.
    with run.stop, _told(run), closing(run.loaders):
        told = take_up(run, resumed) if resumed else []
        # The first process renames what the others have been reading.
        accelerator.wait_for_everyone()
        if resumed and run.is_writer:
            renew_settings(portable(settled, project), resumed)
            told += put_in_order(run, resumed)
        _tell_start(run, settled, base, data, sources, resumed)
        for message in told:
            run.log.warn(message, source="resume")
        if added:
            run.log.warn(added, source="language")
        fit(run)
    accelerator.wait_for_everyone()
    return _result(run, folder, data, settled, sources)


def _make_run(
    config: TrainConfig,
    project: Project,
    base: Base,
    data: TrainingData,
    folder: Path,
    trainer: Trainer,
    optimizations: TrainingOptimizer,
    run_log: RunLog,
) -> Run:
    assert config.num_epochs
    processes = trainer.accelerator
    loaders = Loaders(config, base, data, processes, optimizations.switches)
    checkpoints = Checkpoints(folder / "checkpoints", keep=config.keep_checkpoints)
    again = command("train", project=project, resume=folder)
    return Run(
        trainer=trainer,
        optimizations=optimizations,
        loaders=loaders,
        eval_loader=loaders.evaluate(),
        checkpoints=checkpoints,
        saver=Saver(checkpoints, run_log),
        log=run_log,
        sampling=make_sampling(config, base, folder, run_log),
        recovery=Recovery(
            trainer,
            split_train=loaders.splitter(training=True),
            split_eval=loaders.splitter(training=False),
            warn=run_log.warn,
            resume_command=again,
        ),
        divergence=Divergence(run_log.warn, precision=trainer.precision, resume_command=again),
        limits=Limits(patience=config.patience, max_hours=config.max_hours),
        settings=as_json(portable(config, project)),
        data=data.fingerprint(),
        resume_command=again,
        num_epochs=config.num_epochs,
        batches_per_epoch=loaders.batches_per_epoch,
        grad_accumulation=config.grad_accumulation,
        checkpoint_every=config.checkpoint_every,
        checkpoint_minutes=config.checkpoint_minutes,
        tracker=_make_tracker(config, trainer),
    )


def _make_tracker(config: TrainConfig, trainer: Trainer) -> PerformanceTracker:
    """Throughput with MFU where all weights learn: the arithmetic it counts is that of learning them all."""
    learns_less = config.lora_rank or config.freeze_conditioning
    return PerformanceTracker(peak_flops=None if learns_less else peak_flops(trainer.device, DTYPES[trainer.precision]))


def _tell_start(
    run: Run, config: TrainConfig, base: Base, data: TrainingData, sources: dict[str, str], resumed: Resumed | None
) -> None:
    if run.is_writer:
        log_system_info()
        log_performance_info()
    run.log.write(
        "started",
        base=base.name,
        config=as_json(config),
        sources=sources,
        clips=len(data.train),
        eval_clips=len(data.evaluate),
        dropped=data.dropped,
        precision=run.trainer.precision,
        device=str(run.trainer.device),
        processes=run.trainer.accelerator.num_processes,
        total_steps=run.total_steps,
        resumed_from=str(resumed.checkpoint) if resumed else None,
        changed=sorted(resumed.changed) if resumed else [],
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
        _finish_saving(run)
        _tell_end(
            run, "failed", error=str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        )
        raise
    if run.ended in ("epochs", "patience"):
        run.sampling.close(wait=True, is_stopped=lambda: run.stop.number is not None)
        _tell_end(run, "finished", best_loss=run.best_loss, reason=run.ended)
    else:
        _tell_end(run, "stopped", signal=run.stop.number, reason=run.ended)


def _finish_saving(run: Run) -> None:
    """Let a save under way end: it is the newest checkpoint of a run that failed."""
    try:
        run.saver.finish()
    except Exception:
        # What ended the run is on its way to the user.
        log.exception("the last save failed")


def _tell_end(run: Run, kind: str, **fields: object) -> None:
    try:
        run.sampling.close(wait=False)
        run.log.write(
            kind,
            step=run.trainer.num_steps,
            skipped_steps=run.divergence.num_skipped,
            save_s=run.saver.save_s,
            save_waited_s=run.saver.waited_s,
            **_throughput(run),
            **fields,
        )
        run.log.close()
    except (OSError, UserError):
        # What ended the run is on its way to the user; a log that cannot be written must not take its place.
        log.exception("the end of the run could not be logged")


def _throughput(run: Run) -> dict[str, float]:
    """What this process has trained on a second; nothing before its first step."""
    if not run.tracker.summary().steps:
        return {}
    summary = run.tracker.log_summary()
    assert summary.audio_seconds_per_second is not None and summary.data_share is not None
    return {"audio_per_second": summary.audio_seconds_per_second, "data_share": summary.data_share}


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
        ended=run.ended,
        stop_signal=run.stop.number if run.ended == "signal" else None,
        skipped_steps=run.divergence.num_skipped,
        save_waited_s=run.saver.waited_s,
    )
