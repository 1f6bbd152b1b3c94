"""The training loop: load, step, log, evaluate, save, stop."""

import logging
import math
import time
from collections.abc import Iterator, Mapping
from typing import Literal

import torch
from accelerate.utils import gather_object
from torch.utils.data import DataLoader

from utils.performance_utils import timing, useful_flops
from utils.performance_utils.phases import PhaseClock
from utils.switches import missed
from utils.training.data.batches import Batch
from utils.training.optimizer.agreement import AgreedError
from utils.training.peers import ProcessLost
from utils.training.saving import finish_saving, is_save_due, require_saved, save, writer_says
from utils.training.state import RunState, Services
from utils.training.trainer import Losses, StepResult

log = logging.getLogger(__name__)

End = Literal["", "epochs", "patience", "hours", "signal"]
"""Why a run ended; empty while it has not."""

MEMORY_SECONDS = 5.0
"""Time between two memory events."""


class ClipLost(AgreedError):
    """A recording could not be read in the middle of a run."""


def fit(state: RunState, services: Services) -> End:
    """Train until the last epoch, a limit or a request to stop; whatever is trained by then is saved.

    Raises:
        UserError: the numbers went wrong for good, a recording is missing, a process does not answer, memory ran out,
            or the end could not be saved.
    """
    try:
        with services.peers.limited():
            ended = train_epochs(state, services)
        with services.peers.named():
            save_end(state, services)
    except ClipLost:
        # The weights are sound: nothing but the unread clip is missing.
        save(state, services, wait=True)
        # A launcher that sees one process end with a fault ends the others, also in the middle of their save.
        services.trainer.accelerator.wait_for_everyone()
        raise
    except AgreedError:
        finish_saving(services)
        services.peers.part()
        raise
    except ProcessLost:
        # Weights and position are those of the last step that all have taken.
        services.trainer.discard()
        if services.is_sharded:
            # A part of the weights is lost: the newest checkpoint is what was on its way to the disk.
            finish_saving(services)
        else:
            save(state, services, wait=True)
        services.peers.part()
        raise
    return ended


def save_end(state: RunState, services: Services) -> None:
    """Have what was trained on the disk.

    Raises:
        AgreedError: it could not be saved.
    """
    # What is under way may be the end already.
    services.sampling.poll(services.saver.finish())
    if writer_says(services, services.saver.saved_step != services.trainer.num_steps):
        save(state, services, wait=True)
    require_saved(services)


def train_epochs(state: RunState, services: Services) -> End:
    """Each epoch ends with an evaluation and a checkpoint."""
    total = services.total_steps(state)
    while state.epoch < services.num_epochs:
        loader, host = services.loaders.train(state.epoch, state.batches_done), PhaseClock(torch.device("cpu"))
        host.begin("data")
        for batches in services.loaders.grouped(loader, state.batches_done):
            host.begin("step")
            services.peers.meet()
            require_readable(services, [fault for batch in batches for fault in batch.lost])
            result = services.recovery.step(batches)
            done = state.batches_done + services.trainer.accelerator.num_processes * len(batches)
            state.batches_done = min(done, services.loaders.num_batches(state.epoch))
            host.begin("logging")
            phases = host.take() | services.trainer.clock.take()
            step_s, data_s = phases.pop("step"), phases["data"]
            log_step(state, services, result, total, step_s=step_s, phases=phases)
            track(services, result, batches, step_s=step_s, data_s=data_s)
            log_machine(services, loader, result)
            names = [name for batch in batches for name in batch.names]
            services.divergence.note(result, names, step=services.trainer.num_steps)
            services.sampling.poll(services.saver.poll())
            if end := end_wanted(services):
                return end
            if is_save_due(services):
                host.begin("checkpoint")
                save(state, services)
            host.begin("data")
        losses = evaluate(state, services)
        # Before the first step that was not skipped there is nothing to log.
        if services.switches_logged:
            log_switches(services, loader)
        if losses is None:
            return "signal"
        note_evaluation(state, services, losses)
        log_ranks(services)
        end_epoch(state)
        save(state, services)
        services.sampling.want(services.trainer.num_steps)
        is_patience_out = 0 < services.config.patience <= state.evals_without_gain
        if state.epoch < services.num_epochs and any(services.trainer.any_process(is_patience_out)):
            return "patience"
    return "epochs"


def end_wanted(services: Services) -> End:
    """Why to end after this step, the same for all processes; empty when there is no reason."""
    hours = services.config.max_hours
    time_is_up = hours is not None and time.monotonic() - services.begun >= hours * 3_600
    stop, late = services.trainer.any_process(services.stop.number is not None, time_is_up)
    return "signal" if stop else "hours" if late else ""


def evaluate(state: RunState, services: Services) -> Losses | None:
    """Losses over the evaluation set; None when the run was asked to stop meanwhile: then it is evaluated on resuming.

    Raises:
        ClipLost: a process cannot read one of the clips.
        AgreedError: there is too little memory for it; what was trained is saved.
    """
    lost: list[str] = []

    def batches() -> Iterator[Batch]:
        lost.clear()  # of an attempt that ran out of memory
        for batch in services.eval_loader:
            lost.extend(batch.lost)
            if lost or services.stop.number is not None:
                return
            yield batch

    try:
        with timing("evaluation"):
            losses = services.recovery.evaluate(batches)
    except AgreedError:
        # The weights are sound, and an epoch may have passed since they were saved.
        save(state, services, wait=True)
        raise
    require_readable(services, lost)
    (stop,) = services.trainer.any_process(services.stop.number is not None)
    return None if stop else losses


def end_epoch(state: RunState) -> None:
    """Close the books of an epoch."""
    # Skipped steps are no part of it; an epoch of nothing else has no loss.
    state.epoch_losses.append(sum(state.losses) / len(state.losses) if state.losses else math.nan)
    state.losses = []
    state.epoch += 1
    state.batches_done = 0


def log_step(
    state: RunState,
    services: Services,
    result: StepResult,
    total_steps: int,
    *,
    step_s: float,
    phases: Mapping[str, float],
) -> None:
    """Write the step's event, with the seconds of each phase, and update the progress bar."""
    step, loss = services.trainer.num_steps, result.losses.total
    state.first_loss = loss if step == 1 else state.first_loss
    state.last_loss = loss
    if not result.skipped:
        state.losses.append(loss)
    services.log.write(
        "step",
        step=step,
        epoch=state.epoch,
        loss=loss,
        loss_text=result.losses.text,
        loss_mel=result.losses.codes,
        lr=result.learning_rate,
        grad_norm=result.grad_norm,
        step_s=step_s,
        data_s=phases["data"],
        audio_s=result.audio_seconds,
        phases={name: round(seconds, 4) for name, seconds in phases.items()},
        **({"skipped": result.skipped} if result.skipped else {}),
        **({"loss_reading": result.losses.reading} if result.losses.reading else {}),
    )
    if services.progress is not None:
        services.progress(step, total_steps, loss)


def track(services: Services, result: StepResult, batches: list[Batch], *, step_s: float, data_s: float) -> None:
    """Count the step's throughput; it is logged every so many steps."""
    processes, shape = services.trainer.accelerator.num_processes, services.trainer.gpt.shape
    texts = [length for batch in batches for length in batch.text_lengths]
    codes = [length for batch in batches for length in batch.code_lengths]
    services.meter.add(
        step_s=step_s,
        data_s=data_s,
        audio_s=sum(batch.audio_seconds for batch in batches if not batch.is_filler),
        tokens=sum(texts) + sum(codes),
    )
    services.tracker.update(
        step_s,
        sum(len(batch.positions) for batch in batches) * processes,
        result.losses.total,
        audio_seconds=result.audio_seconds,
        tokens=(sum(texts) + sum(codes)) * processes,
        data_seconds=data_s,
        # Of this process alone, as the peak is that of its own device.
        flops=useful_flops(
            texts,
            codes,
            layers=shape.layers,
            width=shape.width,
            text_rows=shape.text_rows,
            audio_rows=shape.audio_rows,
        ),
    )


def log_machine(services: Services, loader: DataLoader, result: StepResult) -> None:
    """Log what each switch really did, once and when it changes, and every few seconds how much memory is in use."""
    # Until the optimizer has run: what it does is part of the proof.
    if not result.skipped:
        log_switches(services, loader)
    now, before = time.monotonic(), services.memory_logged
    if not services.switches_logged or (before is not None and now - before < MEMORY_SECONDS):
        return
    services.memory_logged = now
    services.meter.sample()
    services.log.write("memory", step=services.trainer.num_steps, **services.optimizations.get_memory_stats())


def log_ranks(services: Services) -> None:
    """Write what each process did in the epoch; asked by all of them."""
    shares = gather_object([services.meter.take()])
    services.log.write("ranks", step=services.trainer.num_steps, ranks=shares)


def log_switches(services: Services, loader: DataLoader) -> None:
    """Write what each switch really did, if that is news; a switch that went off on the way is a warning, too."""
    if not services.optimizations.has_news:
        return
    trainer, before, scaler = services.trainer, services.switches_logged, services.trainer.scaler.is_enabled()
    proof = services.optimizations.report(trainer.gpt, trainer.optimizer, scaler=scaler, loader=loader)
    services.log.write("optimizations", step=trainer.num_steps, switches=proof)
    services.optimizations.has_news, services.switches_logged = False, proof
    if not before:
        for name in missed(proof):
            log.warning("%s is off: %s", name, proof[name]["reason"])
    for name in (name for name in before if before[name]["state"] == "on" and proof[name]["state"] == "off"):
        why = proof[name]["reason"] or proof[name]["observed"]
        services.log.warn(f"{name} is off from step {trainer.num_steps} on: {why}", source="switches", switch=name)


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


def require_readable(services: Services, lost: list[str]) -> None:
    """Do nothing when all processes could read their clips; asked by all of them, before any takes the next step.

    Args:
        services: of the run.
        lost: what this process could not read, each with the reason.

    Raises:
        ClipLost: one process could not, raised in all of them: those that went on would wait for it without end.
    """
    if not any(services.trainer.any_process(bool(lost))):
        return
    everywhere = gather_object(lost)
    raise ClipLost(
        what=f"{len(everywhere)} recording(s) of a batch cannot be read any more: {everywhere[0]}",
        where="training data",
        fix=f"what was trained is saved: put the recording back and resume ({services.resume_command}), "
        "or prepare again",
    )
