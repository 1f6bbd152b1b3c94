"""The training loop: load, step, log, evaluate, save, stop."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from torch.utils.data import DataLoader

from utils.errors import UserError
from utils.training.batches import Batch
from utils.training.divergence import Divergence
from utils.training.recovery import Recovery
from utils.training.run_log import RunLog
from utils.training.state import Checkpoints, load_optimizer, read_state, restore_model
from utils.training.stopping import StopRequest
from utils.training.trainer import Losses, StepResult, Trainer
from utils.training_optimizations import TrainingOptimizer

Progress = Callable[[int, int, float], None]
"""Called with (steps done, steps in all, loss) after each optimizer step."""

MEMORY_SECONDS = 5.0
"""Time between two memory events."""
RESUMED = ("data", "epoch", "batches_done", "losses", "epoch_losses", "best_loss", "first_loss", "last_loss")
"""Fields of a run that a checkpoint carries."""


@dataclass(kw_only=True)
class Run:
    """All that a training run reads and writes, and how far it is."""

    trainer: Trainer
    optimizations: TrainingOptimizer
    make_train_loader: Callable[[int, int], DataLoader]
    """Micro-batches of an epoch, by its number and the first batch wanted."""
    eval_loader: Iterable[Batch]
    checkpoints: Checkpoints
    log: RunLog
    recovery: Recovery
    """Takes the trainer's steps, in smaller pieces where memory runs out."""
    divergence: Divergence
    """Counts the steps that were left out."""
    data: str
    """Fingerprint of the clips."""
    num_epochs: int
    steps_per_epoch: int
    grad_accumulation: int
    checkpoint_every: int
    progress: Progress | None = None
    stop: StopRequest = field(default_factory=StopRequest)
    epoch: int = 0
    batches_done: int = 0
    """Micro-batches of this epoch that were trained on."""
    losses: list[float] = field(default_factory=list)
    """Loss of each step of this epoch."""
    epoch_losses: list[float] = field(default_factory=list)
    """Mean training loss of each epoch."""
    best_loss: float = float("inf")
    memory_told: float | None = None
    """When memory was last told, on a clock that only runs forward; None before the first step."""
    first_loss: float = float("nan")
    last_loss: float = float("nan")

    @property
    def total_steps(self) -> int:
        return self.num_epochs * self.steps_per_epoch

    @property
    def is_writer(self) -> bool:
        """Whether this is the process that writes the run's files."""
        return self.trainer.accelerator.is_main_process


def fit(run: Run) -> None:
    """Train to the last epoch or until asked to stop; each epoch ends with an evaluation and a checkpoint."""
    while run.epoch < run.num_epochs:
        loader = run.make_train_loader(run.epoch, run.batches_done)
        for batches, data_s in timed(grouped(loader, run.grad_accumulation)):
            started = time.perf_counter()
            result = run.recovery.step(batches)
            run.batches_done += len(batches)
            log_step(run, result, step_s=time.perf_counter() - started, data_s=data_s)
            log_machine(run, loader)
            run.divergence.note(result, [name for batch in batches for name in batch.names], step=run.trainer.num_steps)
            stopping = run.trainer.any_process(run.stop.number is not None)
            if stopping or (run.checkpoint_every and run.trainer.num_steps % run.checkpoint_every == 0):
                save(run)
            if stopping:
                return
        keep_best(run, run.recovery.evaluate(run.eval_loader))
        end_epoch(run)
        save(run)


def end_epoch(run: Run) -> None:
    """Close the books of an epoch."""
    # Steps that were left out are no part of it; an epoch of nothing else has no loss.
    run.epoch_losses.append(sum(run.losses) / len(run.losses) if run.losses else math.nan)
    run.losses = []
    run.epoch += 1
    run.batches_done = 0


def log_step(run: Run, result: StepResult, *, step_s: float, data_s: float) -> None:
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
    )
    if run.progress is not None:
        run.progress(step, run.total_steps, loss)


def log_machine(run: Run, loader: DataLoader) -> None:
    """Tell once what each switch really did, and every few seconds how much memory is in use."""
    trainer, now = run.trainer, time.monotonic()
    if run.memory_told is None:
        proof = run.optimizations.report(
            trainer.gpt, trainer.optimizer, scaler=trainer.scaler.is_enabled(), loader=loader
        )
        run.log.write("optimizations", step=trainer.num_steps, switches=proof)
        run.optimizations.log_off(proof)
    elif now - run.memory_told < MEMORY_SECONDS:
        return
    run.memory_told = now
    run.log.write("memory", step=trainer.num_steps, **run.optimizations.get_memory_stats())


def keep_best(run: Run, losses: Losses) -> None:
    """Log an evaluation; weights better than any before are kept beside the last ones."""
    step, is_best = run.trainer.num_steps, losses.total < run.best_loss
    run.log.write(
        "eval",
        step=step,
        epoch=run.epoch,
        loss=losses.total,
        loss_text=losses.text,
        loss_mel=losses.codes,
        is_best=is_best,
    )
    if not math.isfinite(losses.total):
        run.log.warn(
            f"the evaluation loss at step {step} is not a number: it counts as no evaluation", source="numbers"
        )
    if is_best:
        run.best_loss = losses.total
        if run.is_writer:
            folder = run.checkpoints.save_best(step, run.trainer.gpt, {"epoch": run.epoch, "eval_loss": losses.total})
            run.log.write("checkpoint", step=step, path=str(folder), what="best")


def save(run: Run) -> None:
    """Write the checkpoint a run can go on from."""
    if not run.is_writer:
        return
    started = time.perf_counter()
    step = run.trainer.num_steps
    state = {name: getattr(run, name) for name in RESUMED}
    state |= {"trainer": run.trainer.state(), "recovery": run.recovery.state(), "skipped": run.divergence.num_skipped}
    folder = run.checkpoints.save_last(step, run.trainer.gpt, run.trainer.optimizer, state)
    run.log.write("checkpoint", step=step, path=str(folder), what="last", save_s=time.perf_counter() - started)


def resume(run: Run, folder: Path) -> None:
    """Put a run where it was when the checkpoint was written: weights, moments, schedule and place in the data.

    Raises:
        UserError: the checkpoint is incomplete, damaged, or of another model.
    """
    state = read_state(folder)
    if state["data"] != run.data:
        raise UserError(
            what="the dataset has changed since this run was cut: its place in the data means nothing now",
            where=str(folder),
            fix="start a new run",
        )
    restore_model(folder, run.trainer.gpt)
    load_optimizer(folder, run.trainer.gpt, run.trainer.optimizer)
    run.trainer.load_state(state["trainer"])
    run.divergence.num_skipped = state.get("skipped", 0)
    if "recovery" in state:
        run.recovery.load_state(state["recovery"])
    for name in RESUMED:
        setattr(run, name, state[name])


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
