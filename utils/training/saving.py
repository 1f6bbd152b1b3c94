"""Save a run: when, and what a checkpoint holds."""

import logging
import time

from utils.errors import UserError
from utils.runs.saver import Snapshot
from utils.training.restore import files_of
from utils.training.state import RunState, Services, best_loss_at

log = logging.getLogger(__name__)


def is_save_due(services: Services) -> bool:
    """Whether enough steps or minutes have passed since the last save, or one that failed should be tried again."""
    every, minutes = services.config.checkpoint_every, services.config.checkpoint_minutes
    by_steps = every > 0 and services.trainer.num_steps % every == 0
    by_time = minutes > 0 and services.saver.minutes_since >= minutes
    return by_steps or by_time or services.saver.wants_retry


def save(state: RunState, services: Services, *, wait: bool = False) -> None:
    """Begin to write the checkpoint a run can resume from, or wait until it is written; the first process does.

    Weights of the best evaluation become the best on disk with it, also when an earlier save of them failed.
    """
    if not services.is_writer:
        return
    begun, step, trainer = time.perf_counter(), services.trainer.num_steps, services.trainer
    values = state.to_json()
    values |= {"trainer": trainer.state(), "recovery": services.recovery.state()}
    values |= {"skipped": services.divergence.num_skipped, "plan": services.loaders.plan_of(state.epoch)}
    values |= {"global_micro_batches": services.loaders.global_micro_batches}
    snapshot = Snapshot(
        step=step,
        files=files_of(trainer.gpt, trainer.optimizer),
        state=values | {"settings": services.settings},
        best_loss=best_loss_at(step, state.candidate),
    )
    services.saver.save(snapshot, wait=wait, begun=begun)


def require_saved(services: Services) -> None:
    """Wait for the last save.

    Raises:
        UserError: the run's end is not on the disk.
    """
    services.sampling.poll(services.saver.finish())
    kept, failure = services.saver.saved_step, services.saver.failure
    if failure is not None:
        raise UserError(
            what=f"training has come to step {services.trainer.num_steps}, but "
            f"{'nothing is saved' if kept is None else f'only what it was at step {kept} is saved'}: {failure.what}",
            where=failure.where,
            fix=f"{failure.fix}, then continue with --resume, the steps since are trained again: "
            f"{services.resume_command}",
        ) from failure


def finish_saving(services: Services) -> None:
    """Let a save under way end: it is the newest checkpoint of a run that failed."""
    try:
        services.saver.finish()
    except Exception:
        # What ended the run is on its way to the user.
        log.exception("the last save failed")
