"""The training loop: load, step, log, evaluate, save, stop."""

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from accelerate.utils import gather_object
from torch.utils.data import DataLoader

from utils.checkpoints.async_saver import Saver, Snapshot
from utils.checkpoints.store import Checkpoints
from utils.errors import UserError
from utils.events.progress import StepProgress
from utils.events.run_log import RunLog
from utils.jobs.stopping import Limits, StopRequest
from utils.performance_utils import PerformanceTracker, timing, useful_flops
from utils.training.data.batches import Batch
from utils.training.data.loaders import Loaders
from utils.training.divergence import Divergence
from utils.training.optimizations.switch import Report
from utils.training.optimizations.training_optimizer import TrainingOptimizer
from utils.training.recovery import Recovery
from utils.training.restore import files_of
from utils.training.samples import Sampling
from utils.training.trainer import Losses, StepResult, Trainer

End = Literal["", "epochs", "patience", "hours", "signal"]
"""Why a run ended; empty while it has not."""

MEMORY_SECONDS = 5.0
"""Time between two memory events."""
RESUMED = (
    *("data", "epoch", "batches_done", "losses", "epoch_losses", "best_loss", "evals_without_gain"),
    *("first_loss", "last_loss", "candidate"),
)
"""Fields of a run that a checkpoint carries."""


class ClipLost(UserError):
    """A recording could not be read in the middle of a run."""


@dataclass(kw_only=True)
class Run:
    """All that a training run reads and writes, and how far it is."""

    trainer: Trainer
    optimizations: TrainingOptimizer
    loaders: Loaders
    """Makes the batches that train."""
    eval_loader: Iterable[Batch]
    checkpoints: Checkpoints
    saver: Saver
    log: RunLog
    sampling: Sampling
    """Has each evaluation's weights spoken beside training."""
    recovery: Recovery
    """Takes the trainer's steps, in smaller pieces where memory runs out."""
    divergence: Divergence
    """Counts the steps that were left out."""
    limits: Limits
    """When to stop early."""
    settings: dict[str, Any]
    """What a later resume must find the same, as JSON values."""
    data: str
    """Fingerprint of the clips."""
    resume_command: str
    """For the user's shell."""
    num_epochs: int
    batches_per_epoch: int
    grad_accumulation: int
    checkpoint_every: int
    checkpoint_minutes: float
    progress: StepProgress | None = None
    tracker: PerformanceTracker = field(default_factory=PerformanceTracker)
    """Throughput since this process took the run up."""
    stop: StopRequest = field(default_factory=StopRequest)
    ended: End = ""
    epoch: int = 0
    batches_done: int = 0
    """Micro-batches of this epoch that were trained on."""
    losses: list[float] = field(default_factory=list)
    """Loss of each step of this epoch."""
    epoch_losses: list[float] = field(default_factory=list)
    """Mean training loss of each epoch."""
    best_loss: float = float("inf")
    """Lowest evaluation loss."""
    candidate: list[float] | None = None
    """Step and evaluation loss of the newest weights that are better than the best on the disk."""
    memory_told: float | None = None
    """When memory was last told, on a clock that only runs forward; None before the first step."""
    switches_told: Report = field(default_factory=dict)
    """What was last told of the optimization switches; empty before the first step."""
    evals_without_gain: int = 0
    """Evaluations in a row that were no better."""
    first_loss: float = float("nan")
    last_loss: float = float("nan")

    @property
    def total_steps(self) -> int:
        """Steps at the end of the last epoch, from where the run is now."""
        in_this_epoch = math.ceil((self.batches_per_epoch - self.batches_done) / self.grad_accumulation)
        later = (self.num_epochs - self.epoch - 1) * math.ceil(self.batches_per_epoch / self.grad_accumulation)
        return self.trainer.num_steps + (in_this_epoch + later if self.epoch < self.num_epochs else 0)

    @property
    def is_writer(self) -> bool:
        """Whether this is the process that writes the run's files."""
        return self.trainer.accelerator.is_main_process


def fit(run: Run) -> None:
    """Train until the last epoch, a limit or a request to stop; whatever is trained by then is saved.

    Raises:
        UserError: the numbers went wrong for good, a recording is gone, or the end could not be saved.
    """
    try:
        run.ended = train_epochs(run)
    except ClipLost:
        # The weights are sound: nothing but the unread clip is missing.
        save(run, wait=True)
        # A launcher that sees one process end with a fault ends the others, also in the middle of their save.
        run.trainer.accelerator.wait_for_everyone()
        raise
    # What is under way may be the end already.
    run.sampling.poll(run.saver.finish())
    if run.saver.saved_step != run.trainer.num_steps:
        save(run, wait=True)
    require_saved(run)


def train_epochs(run: Run) -> End:
    """Each epoch ends with an evaluation and a checkpoint."""
    total = run.total_steps
    while run.epoch < run.num_epochs:
        loader = run.loaders.train(run.epoch, run.batches_done)
        for batches, data_s in timed(grouped(loader, run.grad_accumulation)):
            require_readable(run, [fault for batch in batches for fault in batch.lost])
            started = time.perf_counter()
            result = run.recovery.step(batches)
            run.batches_done += len(batches)
            step_s = time.perf_counter() - started
            log_step(run, result, total, step_s=step_s, data_s=data_s)
            track(run, result, batches, step_s=step_s, data_s=data_s)
            log_machine(run, loader, result)
            run.divergence.note(result, [name for batch in batches for name in batch.names], step=run.trainer.num_steps)
            run.sampling.poll(run.saver.poll())
            if end := end_wanted(run):
                return end
            if is_save_due(run):
                save(run)
        losses = evaluate(run)
        # Before the first step that was not left out there is nothing to tell.
        if run.switches_told:
            log_switches(run, loader)
        if losses is None:
            return "signal"
        note_evaluation(run, losses)
        end_epoch(run)
        save(run)
        run.sampling.want(run.trainer.num_steps)
        if run.epoch < run.num_epochs and any(
            run.trainer.any_process(run.limits.is_patience_out(run.evals_without_gain))
        ):
            return "patience"
    return "epochs"


def end_wanted(run: Run) -> End:
    """Why to end after this step, the same for all processes; empty when there is no reason."""
    stop, hours = run.trainer.any_process(run.stop.number is not None, run.limits.time_is_up)
    return "signal" if stop else "hours" if hours else ""


def evaluate(run: Run) -> Losses | None:
    """Losses over the evaluation set; None when the run was asked to stop meanwhile: then it is evaluated on resuming.

    Raises:
        ClipLost: a process cannot read one of the clips.
    """
    lost: list[str] = []

    def batches() -> Iterator[Batch]:
        for batch in run.eval_loader:
            lost.extend(batch.lost)
            if lost or run.stop.number is not None:
                return
            yield batch

    with timing("evaluation"):
        losses = run.recovery.evaluate(batches)
    require_readable(run, lost)
    (stop,) = run.trainer.any_process(run.stop.number is not None)
    return None if stop else losses


def end_epoch(run: Run) -> None:
    """Close the books of an epoch."""
    # Steps that were left out are no part of it; an epoch of nothing else has no loss.
    run.epoch_losses.append(sum(run.losses) / len(run.losses) if run.losses else math.nan)
    run.losses = []
    run.epoch += 1
    run.batches_done = 0


def log_step(run: Run, result: StepResult, total_steps: int, *, step_s: float, data_s: float) -> None:
    """Write the step's event and tell the progress bar."""
    step, loss = run.trainer.num_steps, result.losses.total
    run.first_loss = loss if step == 1 else run.first_loss
    run.last_loss = loss
    if not result.skipped:
        run.losses.append(loss)
    run.log.write(
        "step",
        step=step,
        epoch=run.epoch,
        loss=loss,
        loss_text=result.losses.text,
        loss_mel=result.losses.codes,
        lr=result.learning_rate,
        grad_norm=result.grad_norm,
        step_s=step_s,
        data_s=data_s,
        audio_s=result.audio_seconds,
        **({"skipped": result.skipped} if result.skipped else {}),
        **({"loss_reading": result.losses.reading} if result.losses.reading else {}),
    )
    if run.progress is not None:
        run.progress(step, total_steps, loss)


def track(run: Run, result: StepResult, batches: list[Batch], *, step_s: float, data_s: float) -> None:
    """Count the step's throughput; the log tells it every so many steps."""
    processes, shape = run.trainer.accelerator.num_processes, run.trainer.gpt.shape
    texts = [length for batch in batches for length in batch.text_lengths]
    codes = [length for batch in batches for length in batch.code_lengths]
    run.tracker.update(
        step_s,
        sum(len(batch.places) for batch in batches) * processes,
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


def log_machine(run: Run, loader: DataLoader, result: StepResult) -> None:
    """Tell what each switch really did, once and when it changes, and every few seconds how much memory is in use."""
    # Until the optimizer has run: what it does is part of the proof.
    if not result.skipped:
        log_switches(run, loader)
    now = time.monotonic()
    if not run.switches_told or (run.memory_told is not None and now - run.memory_told < MEMORY_SECONDS):
        return
    run.memory_told = now
    run.log.write("memory", step=run.trainer.num_steps, **run.optimizations.get_memory_stats())


def log_switches(run: Run, loader: DataLoader) -> None:
    """Write what each switch really did, if that is news; a switch that went off on the way is a warning, too."""
    if not run.optimizations.has_news:
        return
    trainer, before = run.trainer, run.switches_told
    proof = run.optimizations.report(trainer.gpt, trainer.optimizer, scaler=trainer.scaler.is_enabled(), loader=loader)
    run.log.write("optimizations", step=trainer.num_steps, switches=proof)
    run.optimizations.has_news, run.switches_told = False, proof
    if not before:
        run.optimizations.log_off(proof)
    for name in (name for name in before if before[name]["state"] == "on" and proof[name]["state"] == "off"):
        why = proof[name]["reason"] or proof[name]["observed"]
        run.log.warn(f"{name} is off from step {trainer.num_steps} on: {why}", source="switches", switch=name)


def note_evaluation(run: Run, losses: Losses) -> None:
    """Log an evaluation, and mark its weights when they are better than those kept as the best."""
    step, loss = run.trainer.num_steps, losses.total
    is_best = loss < run.best_loss
    run.log.write(
        "eval", step=step, epoch=run.epoch, loss=loss, loss_text=losses.text, loss_mel=losses.codes, is_best=is_best
    )
    if not math.isfinite(loss):
        run.log.warn(f"the evaluation loss at step {step} is not a number", source="numbers", step=step)
    run.evals_without_gain = 0 if is_best else run.evals_without_gain + 1
    run.best_loss = loss if is_best else run.best_loss
    if not is_best and loss < run.saver.best_loss:
        # A better one is being written just now, or could not be: what comes of it decides.
        run.sampling.poll(run.saver.finish())
    if loss < run.saver.best_loss:
        run.candidate = [step, loss]


def is_save_due(run: Run) -> bool:
    """Whether enough steps or minutes have passed since the last save, or one that failed should be tried again."""
    by_steps = run.checkpoint_every > 0 and run.trainer.num_steps % run.checkpoint_every == 0
    by_time = run.checkpoint_minutes > 0 and run.saver.minutes_since >= run.checkpoint_minutes
    return by_steps or by_time or run.saver.wants_retry


def save(run: Run, *, wait: bool = False) -> None:
    """Begin to write the checkpoint a run can go on from, or wait until it is written.

    Weights of the best evaluation become the best on disk with it, also when an earlier save of them failed.
    """
    if not run.is_writer:
        return
    state = {name: getattr(run, name) for name in RESUMED}
    state |= {"trainer": run.trainer.state(), "recovery": run.recovery.state(), "skipped": run.divergence.num_skipped}
    state |= {"plan": run.loaders.plan_of(run.epoch)}
    snapshot = Snapshot(
        step=run.trainer.num_steps,
        files=files_of(run.trainer.gpt, run.trainer.optimizer),
        # The lists go on growing while a thread writes this.
        state=state | {"losses": list(run.losses), "epoch_losses": list(run.epoch_losses), "settings": run.settings},
        best_loss=best_loss_at(run.trainer.num_steps, run.candidate),
    )
    run.saver.save(snapshot, wait=wait)


def best_loss_at(step: int, candidate: list[float] | None) -> float | None:
    """Evaluation loss of the weights at a step, when they are to be kept as the best."""
    return candidate[1] if candidate is not None and candidate[0] == step else None


def require_saved(run: Run) -> None:
    """Wait for the last save.

    Raises:
        UserError: the run's end is not on the disk.
    """
    run.sampling.poll(run.saver.finish())
    if run.saver.failure is not None:
        kept = run.saver.saved_step
        raise UserError(
            what=f"training has come to step {run.trainer.num_steps}, but "
            f"{'nothing is saved' if kept is None else f'only what it was at step {kept} is saved'}: "
            f"{run.saver.failure.what}",
            where=run.saver.failure.where,
            fix=f"{run.saver.failure.fix}, then go on with --resume, the steps since are trained again: "
            f"{run.resume_command}",
        ) from run.saver.failure


def require_readable(run: Run, lost: list[str]) -> None:
    """Do nothing when all processes could read their clips; asked by all of them, before any takes the next step.

    Args:
        run: the run.
        lost: what this process could not read, each with the reason.

    Raises:
        ClipLost: one process could not, raised in all of them: those that went on would wait for it without end.
    """
    if not any(run.trainer.any_process(bool(lost))):
        return
    everywhere = gather_object(lost)
    raise ClipLost(
        what=f"{len(everywhere)} recording(s) of a batch cannot be read any more: {everywhere[0]}",
        where="training data",
        fix=f"what was trained is saved: put the recording back and resume ({run.resume_command}), or prepare again",
    )


def grouped(batches: Iterable[Batch], size: int) -> Iterator[list[Batch]]:
    """Micro-batches of one optimizer step each; the epoch's last step may have fewer."""
    source = iter(batches)
    while group := list(islice(source, size)):
        yield group


def timed(groups: Iterator[list[Batch]]) -> Iterator[tuple[list[Batch], float]]:
    """Each group with the seconds the loop waited for it."""
    while True:
        started = time.perf_counter()
        group = next(groups, None)
        if group is None:
            return
        yield group, time.perf_counter() - started
