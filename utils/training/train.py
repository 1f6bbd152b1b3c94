"""A training run from its settings to its folder: plan, claim, load, step, log, evaluate, save, stop.

`fine_tune` is the run in its order, and `train_epochs` what happens between two log lines. Beside it: plan.py (what
will be done), checkpointing.py (state, saving, resuming), trainer.py (forward, backward and the update of a step),
recovery.py (takes each step: in smaller pieces where memory runs out, skipped where its numbers are not finite) and
distributed.py (several processes).
"""

import logging
import math
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from accelerate.utils import gather_object

from utils.callbacks import Progresses, ProgressFn
from utils.config import TrainConfig
from utils.errors import UserError, disk_errors
from utils.jobs.child import hold
from utils.performance_utils.arithmetic import peak_flops, useful_flops
from utils.performance_utils.device import settle_device
from utils.performance_utils.memory import memory_errors, memory_stats
from utils.performance_utils.settings import kept_torch_settings, log_performance_info, log_system_info
from utils.performance_utils.tracker import PerformanceTracker, PhaseClock, timing
from utils.project.advice import command
from utils.project.paths import Project, open_project
from utils.runs.checkpoints import Checkpoints
from utils.runs.layout import MODEL_FILE
from utils.runs.log import EventWriter
from utils.runs.loggers import find_loggers
from utils.runs.saver import Saver
from utils.switches import missed
from utils.training.best_by_speech import choose_best
from utils.training.checkpointing import (
    RunState,
    Services,
    require_saved,
    resume_run,
    save,
    tidy_checkpoints,
)
from utils.training.data.base import other_languages
from utils.training.data.batches import Batch
from utils.training.data.load import TrainingData, load_data
from utils.training.data.loaders import Loaders
from utils.training.distributed import (
    is_lost_process,
    local_rank,
    num_processes,
    require_alike,
    resume_after_restart,
)
from utils.training.plan import RunPlan, micro_batches_of, plan_run, portable, require_resumable
from utils.training.profiling import profiled_steps
from utils.training.recovery import Recovery
from utils.training.run_folder import changed_recordings, keep_recordings, make_folder, renew_settings
from utils.training.samples import LAST_SAMPLE_S, make_sampling
from utils.training.switches.optim import DTYPES, faster_precision, make_accelerator
from utils.training.switches.optimizer import Optimizations
from utils.training.trainer import Losses, StepResult, Trainer, make_trainer

log = logging.getLogger(__name__)
REHEARSED = ("cuda",)
"""Kinds of devices on which a run begins with its largest batch: a machine's own memory swaps rather than fails."""
End = Literal["", "epochs", "patience", "hours", "signal"]
"""Why a run ended; empty while it has not."""
MEMORY_SECONDS = 5.0
"""Time between two memory events."""


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """What a finished run left behind."""

    folder: Path
    """runs/<id>/."""
    checkpoint: Path
    """GPT weights of the best checkpoint; of the last step when the run was stopped before its first evaluation."""
    settings: TrainConfig
    """As they were applied, open ones filled in."""
    sources: dict[str, str]
    """Who chose each setting that may be left open."""
    num_steps: int
    num_clips: int
    """Of an epoch and of an evaluation."""
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

    # 1. Plan: settings, base and what is resumed are found and checked, and nothing is touched.
    project = project or open_project(config.project, config.output)
    plan = plan_run(resume_after_restart(config, project), project=project)
    device, _ = settle_device(plan.config.device)

    # 2. Claim the device, before the first process group, CUDA context or model: two trainings on one would both fail.
    with hold("train", device=device, output=project.output, folder=project.folder, local_rank=local_rank()):
        # 3. Load the clips and the model, then make the run's folder.
        with memory_errors("loading the model", device):
            data, trainer, loaders = set_up(plan, progress.data)
        services = _make_services(plan, data, trainer, loaders, progress)
        # Signals count to the very end: waiting for the last sample can be cut short.
        with services.stop:
            with _failure_logged(services):
                with closing(loaders):
                    # 4. Start, or go back to where a checkpoint was written.
                    state = _begin(services)
                    # 5. Train: step, log, evaluate, save, stop.
                    ended = fit(state, services)
                    trainer.accelerator.wait_for_everyone()
                if ended != "signal":
                    # 6. Choose the checkpoint that speaks best.
                    trained_s = time.monotonic() - services.begun
                    wait_s = 0.0 if ended == "hours" else LAST_SAMPLE_S
                    services.sampling.close(wait_s, is_stopped=lambda: services.stop.number is not None)
                    choose_best(services, trained_s=trained_s)
            # 7. Log the end, and say what is where.
            if ended in ("epochs", "patience"):
                _write_end(services, "finished", best_loss=state.best_loss, reason=ended)
            else:
                _write_end(services, "stopped", signal=services.stop.number, reason=ended)
        return _summarize(state, services, ended)


def set_up(plan: RunPlan, progress: ProgressFn | None = None) -> tuple[TrainingData, Trainer, Loaders]:
    """A plan on its device, which this process must have claimed: clips that are read and encoded, and the model.

    Args:
        plan: of the run.
        progress: called while the clips are read.

    Raises:
        UserError: a fault of the clips, or the run cannot be resumed with them.
    """
    accelerator = make_accelerator(plan.config.device)
    optimizations = Optimizations(plan.config, accelerator.device)
    global_micro_batches = micro_batches_of(plan, accelerator.num_processes)
    data = load_data(plan.config, plan.project, plan.base, accelerator, progress, kept=plan.kept)
    changed = changed_recordings(plan.resumed.run, data) if plan.resumed else []
    require_resumable(plan, data.fingerprint, changed)
    if accelerator.num_processes > 1:
        require_alike({"settings": repr(plan.config), "clips": data.fingerprint})
    loaders = Loaders(plan.config, plan.base, data, accelerator, optimizations.switches, global_micro_batches)
    steps = loaders.steps_left(0, 0)
    trainer = make_trainer(plan.config, plan.base, accelerator, optimizations, total_steps=steps)
    return data, trainer, loaders


def _make_services(
    plan: RunPlan, data: TrainingData, trainer: Trainer, loaders: Loaders, progress: Progresses
) -> Services:
    """Make the run's folder, and all that works in it."""
    config, is_main = plan.config, trainer.accelerator.is_main_process
    folder = make_folder(plan, data, trainer.accelerator)
    # They log the run under its name and settings, which are decided now.
    opened = [logger(folder, config.plain()) for logger in find_loggers(config.log_to)] if is_main else []
    run_log = EventWriter(folder / "events.jsonl" if is_main else None, progress.events, opened)
    checkpoints = Checkpoints(folder, keep=config.keep_checkpoints)
    again = command("train", project=plan.project, resume=folder)
    # The arithmetic that MFU counts is that of learning all weights.
    learns_less = config.lora_rank or config.freeze_conditioning
    peak = None if learns_less else peak_flops(trainer.device, DTYPES[trainer.precision])
    return Services(
        plan=plan,
        folder=folder,
        trainer=trainer,
        data=data,
        loaders=loaders,
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
        progress=progress.steps,
        tracker=PerformanceTracker(peak_flops=peak),
    )


def _begin(services: Services) -> RunState:
    """Where the run starts, or the state that it resumes; the log opens with it."""
    plan, data = services.plan, services.data
    state, notes = RunState(data=data.fingerprint), list[str]()
    if plan.resumed:
        state, notes = resume_run(services, plan.resumed, state.data)
        notes += changed_recordings(plan.resumed.run, data)
    # The first process renames what the others have been reading.
    services.trainer.accelerator.wait_for_everyone()
    if plan.resumed and services.is_writer:
        renew_settings(portable(plan), plan.resumed)
        keep_recordings(plan.resumed.run, data)
        notes += tidy_checkpoints(state, services, plan.resumed)
    trainer = services.trainer
    if services.is_writer:
        log_system_info()
        log_performance_info(trainer.device)
    services.log.write(
        "started",
        base=plan.base.name,
        config=plan.config.plain(),
        sources=plan.sources,
        clips=len(data.train),
        eval_clips=len(data.evaluate),
        dropped=data.dropped,
        precision=trainer.precision,
        device=str(trainer.device),
        processes=trainer.accelerator.num_processes,
        global_batch=services.loaders.clips_per_step,
        total_steps=services.total_steps(state),
        resumed_from=str(plan.resumed.checkpoint) if plan.resumed else None,
        changed=sorted(plan.resumed.changed) if plan.resumed else [],
    )
    about = "is not a setting any more; the run trains without it"
    alone = data.train.num_alone if plan.config.conditioning == "other" else 0
    itself = f"{alone} speaker(s) have one clip only: it is conditioned on a part of itself, not on another clip"
    for source, message in (
        *(("resume", note) for note in notes),
        *(("settings", f"{name} {value} {about}") for name, value in plan.retired.items()),
        ("language", plan.added),
        ("language", not plan.resumed and other_languages(plan.config, plan.base, plan.kept)),
        ("device", settle_device(plan.config.device)[1]),
        ("precision", faster_precision(plan.config.mixed_precision, trainer.device)),
        ("conditioning", alone and itself),
    ):
        if message:
            services.log.warn(message, source=source)
    services.sampling.request_base(plan.base.folder)
    if trainer.device.type in REHEARSED:
        services.recovery.rehearse(services.loaders.largest())
    return state


def fit(state: RunState, services: Services) -> End:
    """Train until the last epoch, a limit or a request to stop; whatever is trained by then is saved.

    Raises:
        UserError: the numbers stayed wrong, a recording is missing, a process does not answer, memory ran out,
            or the end could not be saved.
    """
    try:
        ended = train_epochs(state, services)
        # What is in progress may be the end already.
        services.sampling.poll(services.saver.finish())
        if services.saver.saved_step != services.trainer.num_steps:
            save(state, services, wait=True)
        require_saved(services)
        return ended
    except ClipLost:
        # The weights are sound: nothing but the unread clip is missing.
        save(state, services, wait=True)
        # A launcher that sees one process end with a fault ends the others, also in the middle of their save.
        services.trainer.accelerator.wait_for_everyone()
        raise
    except Exception as error:
        if not is_lost_process(error):
            raise
        raise UserError(
            what="another process of this run has ended or cannot be reached",
            where="--processes",
            fix=f"see the messages of all processes; the newest checkpoint resumes: {services.recovery.resume_command}",
        ) from error


def train_epochs(state: RunState, services: Services) -> End:
    """Each epoch ends with an evaluation and a checkpoint."""
    total, trainer, num_epochs = services.total_steps(state), services.trainer, services.plan.config.num_epochs
    assert num_epochs
    num_profiled = services.plan.config.profile if services.is_writer else 0
    while state.epoch < num_epochs:
        host = PhaseClock(torch.device("cpu"))
        host.begin("data")
        with profiled_steps(services.folder, num_profiled) as step_done:
            for batches in services.loaders.steps(state.epoch, state.batches_done):
                # Step: one update over the micro-batches, in smaller pieces where memory runs out.
                host.begin("step")
                require_readable(services, [fault for batch in batches for fault in batch.lost])
                result = services.recovery.step(batches)
                step_done()
                done = state.batches_done + trainer.accelerator.num_processes * len(batches)
                state.batches_done = min(done, services.loaders.batches.count(state.epoch))
                # Log: the step, the machine, and what each switch did. `take` empties the clock: the seconds of logging
                # and saving are part of the next step's event.
                host.begin("logging")
                log_step(state, services, result, batches, total, host.take() | trainer.clock.take())
                log_machine(services, result)
                # Too many skipped steps in a row end the run here.
                services.recovery.count_skipped(result, [name for batch in batches for name in batch.names])
                # A thread writes checkpoints and a process speaks samples: log what each has finished, and have a
                # sample spoken that waited for its checkpoint.
                services.sampling.poll(services.saver.poll())
                # Stop, or save and continue.
                config, is_stopped = services.plan.config, services.stop.number is not None
                hours = math.inf if config.max_hours is None else config.max_hours
                time_is_up = time.monotonic() - services.begun >= hours * 3_600
                # The same for all processes.
                stop, late = trainer.any_process(is_stopped, time_is_up)
                if stop or late:
                    return "signal" if stop else "hours"
                every, minutes = config.checkpoint_every, config.checkpoint_minutes
                if services.saver.is_due(trainer.num_steps, every=every, minutes=minutes):
                    host.begin("checkpoint")
                    save(state, services)
                host.begin("data")
        # An evaluation is no step.
        num_profiled = 0
        # Evaluate: losses over the evaluation set, whose weights may become the best.
        losses = evaluate(state, services)
        # Before the first step that was not skipped there is nothing to log.
        if trainer.optimizations.reported:
            log_switches(services)
        if losses is None:
            return "signal"
        note_evaluation(state, services, losses)
        # Skipped steps are no part of an epoch's loss; an epoch of nothing else has none.
        state.epoch_losses.append(sum(state.losses) / len(state.losses) if state.losses else math.nan)
        state.epoch, state.batches_done, state.losses = state.epoch + 1, 0, []
        # With `candidate` set, the saved weights become the best.
        save(state, services)
        services.sampling.wanted = trainer.num_steps
        is_patience_out = 0 < services.plan.config.patience <= state.evals_without_gain
        if state.epoch < num_epochs and any(trainer.any_process(is_patience_out)):
            return "patience"
    return "epochs"


def evaluate(state: RunState, services: Services) -> Losses | None:
    """Losses over the evaluation set; None when the run was asked to stop meanwhile: then it is evaluated on resuming.

    Raises:
        ClipLost: a process cannot read one of the clips.
        UserError: there is too little memory for it; what was trained is saved.
    """
    lost: list[str] = []

    def batches() -> Iterator[Batch]:
        lost.clear()  # of an attempt that ran out of memory
        for batch in services.loaders.evaluation:
            lost.extend(batch.lost)
            if lost or services.stop.number is not None:
                return
            yield batch

    try:
        with timing("evaluation"):
            losses = services.recovery.evaluate(batches)
    except UserError:
        # The weights are sound, and an epoch may have passed since they were saved.
        save(state, services, wait=True)
        raise
    require_readable(services, lost)
    return None if any(services.trainer.any_process(services.stop.number is not None)) else losses


def note_evaluation(state: RunState, services: Services, losses: Losses) -> None:
    """Log an evaluation, and mark its weights when they are better than those kept as the best."""
    step, loss = services.trainer.num_steps, losses.total
    is_best = loss < state.best_loss
    services.log.write(
        "eval", step=step, epoch=state.epoch, loss=loss, loss_text=losses.text, loss_mel=losses.codes, is_best=is_best
    )
    if not math.isfinite(loss):
        services.log.warn(f"the evaluation loss at step {step} is not a number", source="numbers", step=step)
    state.evals_without_gain = 0 if is_best else state.evals_without_gain + 1
    state.best_loss = loss if is_best else state.best_loss
    if not is_best and loss < services.saver.best_loss:
        # A better one is being written just now, or could not be: what comes of it decides.
        services.sampling.poll(services.saver.finish())
    if loss < services.saver.best_loss:
        state.candidate = [step, loss]


def log_step(
    state: RunState,
    services: Services,
    result: StepResult,
    batches: list[Batch],
    total_steps: int,
    phases: dict[str, float],
) -> None:
    """Write the step's event, with the seconds of each phase; count its throughput and update the progress bar."""
    trainer, losses = services.trainer, result.losses
    step, loss, step_s = trainer.num_steps, losses.total, phases.pop("step")
    state.first_loss = loss if step == 1 else state.first_loss
    state.last_loss = loss
    if not result.skipped:
        state.losses.append(loss)
    sometimes = {"skipped": result.skipped, "loss_reading": losses.reading}
    services.log.write(
        "step",
        step=step,
        epoch=state.epoch,
        loss=loss,
        loss_text=losses.text,
        loss_mel=losses.codes,
        lr=result.learning_rate,
        grad_norm=result.grad_norm,
        step_s=step_s,
        data_s=phases["data"],
        audio_s=result.audio_seconds,
        phases={name: round(seconds, 4) for name, seconds in phases.items()},
        **{name: value for name, value in sometimes.items() if value},
    )
    if services.progress is not None:
        services.progress(step, total_steps, loss)
    processes, shape = trainer.accelerator.num_processes, trainer.gpt.shape
    texts = [length for batch in batches for length in batch.text_lengths]
    codes = [length for batch in batches for length in batch.code_lengths]
    sizes = {name: getattr(shape, name) for name in ("layers", "width", "text_rows", "audio_rows")}
    services.tracker.update(
        step_s,
        len(texts) * processes,
        loss,
        audio_seconds=result.audio_seconds,
        tokens=(sum(texts) + sum(codes)) * processes,
        data_seconds=phases["data"],
        # Of this process alone, as the peak is that of its own device.
        flops=useful_flops(texts, codes, **sizes),
    )


def log_machine(services: Services, result: StepResult) -> None:
    """Log what each switch really did, once and when it changes, and every few seconds how much memory is in use."""
    # Until the optimizer has run: what it does is part of the proof.
    if not result.skipped:
        log_switches(services)
    optimizations, now = services.trainer.optimizations, time.monotonic()
    if optimizations.reported and now - optimizations.memory_logged >= MEMORY_SECONDS:
        optimizations.memory_logged = now
        services.log.write("memory", step=services.trainer.num_steps, **memory_stats())


def log_switches(services: Services) -> None:
    """Write what each switch really did, if that is news; a switch that went off on the way is a warning, too."""
    trainer, optimizations = services.trainer, services.trainer.optimizations
    if not optimizations.has_news:
        return
    before, scaler = optimizations.reported, trainer.scaler.is_enabled()
    proof = optimizations.report(trainer.gpt, trainer.optimizer, scaler=scaler, loader=services.loaders.loader)
    services.log.write("optimizations", step=trainer.num_steps, switches=proof)
    if not before:
        for name in missed(proof):
            log.warning("%s is off: %s", name, proof[name]["reason"])
    for name in (name for name in before if before[name]["state"] == "on" and proof[name]["state"] == "off"):
        why = proof[name]["reason"] or proof[name]["observed"]
        services.log.warn(f"{name} is off from step {trainer.num_steps} on: {why}", source="switches", switch=name)


@contextmanager
def _failure_logged(services: Services) -> Iterator[None]:
    """Make the end of a run that is interrupted or fails the last event of its log."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        _write_end(services, "stopped", signal=services.stop.number)
        raise
    except BaseException as error:
        try:
            # A save in progress is the newest checkpoint of the run.
            services.saver.finish()
        except Exception:
            log.exception("the last save failed")
        message = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        _write_end(services, "failed", error=message)
        raise


def _write_end(services: Services, kind: str, **fields: object) -> None:
    try:
        services.sampling.close()
        speed = services.tracker.log_summary() if services.tracker.summary() else {}
        services.log.write(
            kind,
            step=services.trainer.num_steps,
            skipped_steps=services.recovery.num_skipped,
            save_s=services.saver.save_s,
            save_waited_s=services.saver.waited_s,
            **{name: speed[name] for name in ("audio_per_second", "data_share") if name in speed},
            **fields,
        )
        services.log.close()
    except (OSError, UserError):
        # What ended the run is on its way to the user; a log that cannot be written must not take its place.
        log.exception("the end of the run could not be logged")


def _summarize(state: RunState, services: Services, ended: End) -> TrainResult:
    plan, data = services.plan, services.data
    best = services.checkpoints.best() or services.checkpoints.last()
    assert best is not None, "a run ends after an epoch's evaluation or with a checkpoint"
    return TrainResult(
        folder=services.folder,
        checkpoint=best / MODEL_FILE,
        settings=plan.config,
        sources=plan.sources,
        num_steps=services.trainer.num_steps,
        num_clips=services.loaders.batches.num_clips + len(data.evaluate),
        num_dropped=len(data.dropped),
        epoch_losses=state.epoch_losses,
        first_loss=state.first_loss,
        last_loss=state.last_loss,
        best_loss=state.best_loss,
        ended=ended,
        stop_signal=services.stop.number if ended == "signal" else None,
        skipped_steps=services.recovery.num_skipped,
        save_waited_s=services.saver.waited_s,
    )


class ClipLost(UserError):
    """A recording could not be read in the middle of a run."""


def require_readable(services: Services, lost: list[str]) -> None:
    """Do nothing when all processes could read their clips; asked by all of them, before any takes the next step.

    Args:
        services: of the run.
        lost: what this process could not read, each with the reason.

    Raises:
        ClipLost: one process could not, raised in all of them: those that continued would wait for it without end.
    """
    if not any(services.trainer.any_process(bool(lost))):
        return
    everywhere = gather_object(lost)
    raise ClipLost(
        what=f"{len(everywhere)} recording(s) of a batch cannot be read any more: {everywhere[0]}",
        where="training data",
        fix=f"what was trained is saved: put the recording back and resume ({services.recovery.resume_command}), "
        "or prepare again",
    )
