"""A training run from its settings to its folder: check everything, then train, then say what is where."""

import logging
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from utils.callbacks import Progresses
from utils.config import TrainConfig
from utils.errors import UserError, disk_errors
from utils.performance_utils import PerformanceTracker, log_performance_info, log_system_info, memory_errors, peak_flops
from utils.performance_utils.device import settle_device
from utils.performance_utils.rank_meter import RankMeter
from utils.performance_utils.settings import kept_torch_settings
from utils.project.advice import command
from utils.project.paths import Project
from utils.runs.checkpoints import Checkpoints
from utils.runs.layout import MODEL_FILE
from utils.runs.log import RunLog
from utils.runs.loggers import find_loggers
from utils.runs.saver import Saver
from utils.training.best_by_speech import choose_best
from utils.training.claim import claimed
from utils.training.data.load import TrainingData
from utils.training.divergence import Divergence
from utils.training.launch import num_processes
from utils.training.loop import End, fit
from utils.training.optimizer.precision import DTYPES, faster_precision
from utils.training.peers import Peers
from utils.training.plan import RunPlan, plan_run
from utils.training.recovery import Recovery
from utils.training.restore import resume_run, tidy_checkpoints
from utils.training.run_folder import BASE_FOLDER, REFERENCE_FILE, make_folder, renew_settings
from utils.training.samples import make_sampling
from utils.training.saving import finish_saving
from utils.training.settings import as_json, portable
from utils.training.setup import Setup, set_up
from utils.training.state import RunState, Services

log = logging.getLogger(__name__)

REHEARSED = ("cuda",)
"""Kinds of devices on which a run begins with its largest batch: a machine's own memory swaps rather than fails."""


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """What a finished run left behind."""

    folder: Path
    """runs/<id>/."""
    checkpoint: Path
    """GPT weights of the best checkpoint; of the last step when the run was stopped before its first evaluation."""
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
    """Steps skipped because their numbers were not finite."""
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
        progress: called with how far the run is.

    Raises:
        UserError: any fault of settings, base or data, before a run folder exists; a full disk; or a loss that is no
            longer a number.
    """
    progress = progress or Progresses()
    if (count := num_processes(config)) > 1:
        raise UserError(
            what=f"processes is {count}, and this call trains in one process",
            where="processes",
            fix="use the train command, which starts them, or start your program with torchrun",
        )
    plan = plan_run(config, project=project)
    # Before the first process group, CUDA context or model: two trainings on one device would both fail.
    with claimed(settle_device(plan.config.device)[0], plan.project):
        with memory_errors("loading the model", settle_device(plan.config.device)[0]):
            setup = set_up(plan, progress.data)
        folder = make_folder(plan, setup.data, setup.accelerator)
        services = _make_services(plan, setup, folder, progress)
        # Signals count to the very end: waiting for the last sample can be cut short.
        with services.stop:
            with _failure_logged(services):
                with closing(setup.loaders):
                    state = _begin(plan, services, setup.data)
                    ended = fit(state, services)
                if ended != "signal":
                    trained_s = time.monotonic() - services.begun
                    services.sampling.close(wait=ended != "hours", is_stopped=lambda: services.stop.number is not None)
                    choose_best(services, plan.base, setup.data, folder, trained_s=trained_s)
            _log_end(state, services, ended)
        setup.accelerator.wait_for_everyone()
        return _summarize(plan, state, services, setup.data, folder, ended)


def _begin(plan: RunPlan, services: Services, data: TrainingData) -> RunState:
    """Where the run starts, or the state that it resumes; the log opens with it."""
    state, notes = RunState(data=data.fingerprint()), list[str]()
    if plan.resumed:
        state, notes = resume_run(services, plan.resumed, state.data)
    # The first process renames what the others have been reading.
    services.trainer.accelerator.wait_for_everyone()
    if plan.resumed and services.is_writer:
        renew_settings(portable(plan.config, plan.project), plan.resumed)
        notes += tidy_checkpoints(state, services, plan.resumed)
    _log_start(state, services, plan, data)
    for message in notes:
        services.log.warn(message, source="resume")
    for name, value in plan.retired.items():
        services.log.warn(f"{name} {value} is not a setting any more; the run trains without it", source="settings")
    if plan.added:
        services.log.warn(plan.added, source="language")
    if about := settle_device(plan.config.device)[1]:
        services.log.warn(about, source="device")
    trainer = services.trainer
    if advice := faster_precision(plan.config.mixed_precision, trainer.device):
        services.log.warn(advice, source="precision")
    if plan.config.conditioning == "other" and (alone := data.train.num_alone):
        services.log.warn(
            f"{alone} speaker(s) have one clip only: it is conditioned on a part of itself, not on another clip",
            source="conditioning",
        )
    if trainer.device.type in REHEARSED:
        services.recovery.rehearse(services.loaders.largest())
    return state


def _make_services(plan: RunPlan, setup: Setup, folder: Path, progress: Progresses) -> Services:
    config, trainer, loaders = plan.config, setup.trainer, setup.loaders
    events = folder / "events.jsonl" if setup.accelerator.is_main_process else None
    # They log the run under its name and settings, which are decided now.
    opened = [logger(folder, config.plain()) for logger in find_loggers(config.log_to)] if events else []
    run_log = RunLog(events, progress.events, opened)
    checkpoints = Checkpoints(folder / "checkpoints", keep=config.keep_checkpoints)
    again = command("train", project=plan.project, resume=folder)
    # The arithmetic that MFU counts is that of learning all weights.
    learns_less = config.lora_rank or config.freeze_conditioning
    peak = None if learns_less else peak_flops(trainer.device, DTYPES[trainer.precision])
    return Services(
        config=config,
        settings=as_json(portable(config, plan.project)),
        trainer=trainer,
        optimizations=setup.optimizations,
        loaders=loaders,
        eval_loader=loaders.evaluate(),
        checkpoints=checkpoints,
        saver=Saver(checkpoints, run_log),
        log=run_log,
        sampling=make_sampling(config, plan.base, folder, run_log),
        recovery=Recovery(
            trainer,
            split_train=loaders.splitter(training=True),
            split_eval=loaders.splitter(training=False),
            warn=run_log.warn,
            resume_command=again,
        ),
        divergence=Divergence(run_log.warn, precision=trainer.precision, resume_command=again),
        resume_command=again,
        progress=progress.steps,
        tracker=PerformanceTracker(peak_flops=peak),
        peers=Peers(setup.accelerator, config.rank_timeout, again),
        meter=RankMeter(trainer.device, setup.accelerator.process_index),
    )


def _log_start(state: RunState, services: Services, plan: RunPlan, data: TrainingData) -> None:
    if services.is_writer:
        log_system_info()
        log_performance_info(services.trainer.device)
    services.log.write(
        "started",
        base=plan.base.name,
        config=as_json(plan.config),
        sources=plan.sources,
        clips=len(data.train),
        eval_clips=len(data.evaluate),
        dropped=data.dropped,
        precision=services.trainer.precision,
        device=str(services.trainer.device),
        processes=services.trainer.accelerator.num_processes,
        global_batch=services.loaders.clips_per_step,
        buckets=summed.buckets if (summed := services.trainer.gradient_sum) else None,
        total_steps=services.total_steps(state),
        resumed_from=str(plan.resumed.checkpoint) if plan.resumed else None,
        changed=sorted(plan.resumed.changed) if plan.resumed else [],
    )


@contextmanager
def _failure_logged(services: Services) -> Iterator[None]:
    """Make the end of a run that is interrupted or fails the last event of its log."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        _write_end(services, "stopped", signal=services.stop.number)
        raise
    except BaseException as error:
        finish_saving(services)
        message = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        _write_end(services, "failed", error=message)
        raise


def _log_end(state: RunState, services: Services, ended: End) -> None:
    if ended in ("epochs", "patience"):
        _write_end(services, "finished", best_loss=state.best_loss, reason=ended)
    else:
        _write_end(services, "stopped", signal=services.stop.number, reason=ended)


def _write_end(services: Services, kind: str, **fields: object) -> None:
    try:
        services.sampling.close(wait=False)
        services.log.write(
            kind,
            step=services.trainer.num_steps,
            skipped_steps=services.divergence.num_skipped,
            save_s=services.saver.save_s,
            save_waited_s=services.saver.waited_s,
            **_throughput(services),
            **fields,
        )
        services.log.close()
    except (OSError, UserError):
        # What ended the run is on its way to the user; a log that cannot be written must not take its place.
        log.exception("the end of the run could not be logged")


def _throughput(services: Services) -> dict[str, float]:
    """What this process has trained on a second; nothing before its first step."""
    if not services.tracker.summary().steps:
        return {}
    summary = services.tracker.log_summary()
    assert summary.audio_seconds_per_second is not None and summary.data_share is not None
    return {"audio_per_second": summary.audio_seconds_per_second, "data_share": summary.data_share}


def _summarize(
    plan: RunPlan, state: RunState, services: Services, data: TrainingData, folder: Path, ended: End
) -> TrainResult:
    best = services.checkpoints.best() or services.checkpoints.last()
    assert best is not None, "a run ends after an epoch's evaluation or with a checkpoint"
    return TrainResult(
        folder=folder,
        checkpoint=best / MODEL_FILE,
        config=folder / BASE_FOLDER / "config.json",
        vocab=folder / BASE_FOLDER / "vocab.json",
        speakers=folder / BASE_FOLDER / "speakers_xtts.pth",
        reference=folder / REFERENCE_FILE,
        settings=plan.config,
        sources=plan.sources,
        num_steps=services.trainer.num_steps,
        num_clips=len(data.train) + len(data.evaluate),
        num_dropped=len(data.dropped),
        epoch_losses=state.epoch_losses,
        first_loss=state.first_loss,
        last_loss=state.last_loss,
        best_loss=state.best_loss,
        ended=ended,
        stop_signal=services.stop.number if ended == "signal" else None,
        skipped_steps=services.divergence.num_skipped,
        save_waited_s=services.saver.waited_s,
    )
