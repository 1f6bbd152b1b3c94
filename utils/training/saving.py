"""Save a run: when, what a checkpoint holds, and what processes with sharded weights do for it together."""

import logging
import time
from contextlib import suppress
from pathlib import Path

from accelerate.utils import gather_object

from utils.runs.checkpoints import NotSaved, OutOfMemoryInSave, Tensors
from utils.runs.layout import OPTIMIZER_FILE
from utils.runs.saver import Snapshot
from utils.training.optimizer.agreement import AgreedError, raise_in_all
from utils.training.optimizer.sharding import gathered, own_bytes, save_parts
from utils.training.restore import files_of
from utils.training.state import RunState, Services, best_loss_at

log = logging.getLogger(__name__)


def is_save_due(services: Services) -> bool:
    """Whether enough steps or minutes have passed since the last save, or one that failed should be tried again."""
    every, minutes = services.config.checkpoint_every, services.config.checkpoint_minutes
    by_steps = every > 0 and services.trainer.num_steps % every == 0
    by_time = minutes > 0 and services.saver.minutes_since >= minutes
    return by_steps or writer_says(services, by_time or services.saver.wants_retry)


def writer_says(services: Services, flag: bool) -> bool:
    """What the process that writes finds; where weights are sharded, all of them know it, as they save together."""
    return any(services.trainer.any_process(flag and services.is_writer)) if services.is_sharded else flag


def save(state: RunState, services: Services, *, wait: bool = False) -> None:
    """Begin to write the checkpoint a run can resume from, or wait until it is written.

    Weights of the best evaluation become the best on disk with it, also when an earlier save of them failed.

    Raises:
        UserError: this process ran out of memory while the others with sharded weights went on.
    """
    if not (services.is_writer or services.is_sharded):
        return
    begun, step, trainer = time.perf_counter(), services.trainer.num_steps, services.trainer
    files, parts = files_of(trainer.gpt, trainer.optimizer), None
    if services.is_sharded:
        parts = services.checkpoints.parts_folder(step)
        try:
            files = _shared_out(services, files, parts)
        except (OSError, AgreedError) as error:
            if services.is_writer:
                services.saver.fail(step, _not_saved(services, error), begun=begun)
            return
    if not services.is_writer:
        return
    values = state.to_json()
    values |= {"trainer": trainer.state(), "recovery": services.recovery.state()}
    values |= {"skipped": services.divergence.num_skipped, "plan": services.loaders.plan_of(state.epoch)}
    values |= {"global_micro_batches": services.loaders.global_micro_batches}
    snapshot = Snapshot(
        step=step,
        files=files,
        state=values | {"settings": services.settings},
        best_loss=best_loss_at(step, state.candidate),
        parts=parts,
        is_copy=services.is_sharded,
    )
    services.saver.save(snapshot, wait=wait, begun=begun)


def _shared_out(services: Services, files: dict[str, Tensors], parts: Path) -> dict[str, Tensors]:
    """Write each process' part of the moments, and gather all other tensors for the process that writes.

    Args:
        services: of the run.
        files: sharded tensors by file.
        parts: folder for the moments.

    Returns:
        Whole tensors by file, without the moments; without any tensor in the other processes.

    Raises:
        OSError: the disk is full or fails; raised in all processes, as is the next.
        AgreedError: a process is out of memory.
        UserError: this process ran out of memory while the others went on.
    """
    moments = files[OPTIMIZER_FILE]
    others = {name: tensors for name, tensors in files.items() if name != OPTIMIZER_FILE}
    size = sum(own_bytes(list(tensors.values()))[1] for tensors in files.values())
    raise_in_all(_disk_fault(services, size) if services.is_writer else None)
    device = services.trainer.device
    whole: dict[str, Tensors] = {
        name: gathered(tensors, device, keep=services.is_writer) for name, tensors in others.items()
    }
    save_parts(parts, moments)
    return whole


def _disk_fault(services: Services, size: int) -> OSError | None:
    """Why the disk cannot take a checkpoint of so many bytes; None where it can."""
    # A save under way may be about to take its parts, which may lie in the same folder, and it takes room itself.
    services.saver.join()
    try:
        # A run with more processes left more files: they would be read as parts of this checkpoint.
        services.checkpoints.clear_parts()
        services.checkpoints.require_room(size)
    except OSError as error:
        return error
    return None


def _not_saved(services: Services, error: OSError | AgreedError) -> NotSaved:
    step = services.trainer.num_steps
    if isinstance(error, OSError):
        return services.checkpoints.not_saved(step, error)
    with suppress(OSError):  # tried again at the next save
        services.checkpoints.clear_parts()
    return OutOfMemoryInSave(
        what=f"{error.what}: the checkpoint of step {step} was not written; earlier ones are kept",
        where=error.where,
        fix=f"free memory that other programs use, or {error.fix}",
    )


def require_saved(services: Services) -> None:
    """Wait for the last save; all processes call this together.

    Raises:
        AgreedError: the run's end is not on the disk; raised in all processes.
    """
    services.sampling.poll(services.saver.finish())
    # Of the process that writes: the others would wait for one that has ended with an error.
    kept, failure = gather_object([(services.saver.saved_step, services.saver.failure)])[0]
    if failure is not None:
        raise AgreedError(
            what=f"training has come to step {services.trainer.num_steps}, but "
            f"{'nothing is saved' if kept is None else f'only what it was at step {kept} is saved'}: {failure.what}",
            where=failure.where,
            fix=f"{failure.fix}, then continue with --resume, the steps since are trained again: "
            f"{services.resume_command}",
        ) from failure


def finish_saving(services: Services) -> None:
    """Let a save under way end: it is the newest checkpoint of a run that failed. Parts of a later one are removed."""
    try:
        services.saver.finish()
        if services.is_writer and services.is_sharded:
            services.checkpoints.clear_parts()
    except Exception:
        # What ended the run is on its way to the user.
        log.exception("the last save failed")
