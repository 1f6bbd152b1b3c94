"""Putting a run where it was when a checkpoint was written: weights, moments, schedule and place in the data."""

import math

from utils.checkpoints.layout import ASIDE
from utils.checkpoints.store import NotSaved, read_state
from utils.training.optimizer.make import extend_schedule
from utils.training.plan import Resumed
from utils.training.restore import load_optimizer, restore_model
from utils.training.settings import BOUND
from utils.training.state import RunState, Services, best_loss_at


def take_up(services: Services, resumed: Resumed, data: str) -> tuple[RunState, list[str]]:
    """Resume from a checkpoint that was found whole.

    Args:
        services: just made, in the folder of the run that is resumed.
        resumed: the checkpoint, and what changed since.
        data: fingerprint of the clips there are.

    Returns:
        Where the run is, and what people should know of it.

    Raises:
        UserError: the checkpoint is of another model.
    """
    saved, trainer, told = resumed.state, services.trainer, []
    restore_model(resumed.checkpoint, trainer.gpt)
    if not resumed.is_best:
        load_optimizer(resumed.checkpoint, trainer.gpt, trainer.optimizer)
    trainer.load_state(saved["trainer"])
    services.divergence.num_skipped = saved.get("skipped", 0)
    if "recovery" in saved:
        services.recovery.load_state(saved["recovery"])
    state = RunState.from_json(saved, data=data)
    # On another device, with another kernel or number of processes, the epoch's batches are others.
    is_replanned = "plan" in saved and saved["plan"] != services.loaders.plan_of(state.epoch)
    if saved["data"] != data or any(name in resumed.changed for name in BOUND) or is_replanned:
        if state.batches_done:
            told.append(
                f"epoch {state.epoch + 1} begins anew: its batches are others now, {state.batches_done} were trained on"
            )
        state.batches_done, state.losses = 0, []
    if not resumed.is_best:
        services.saver.saved_step = trainer.num_steps
    extend_schedule(trainer.schedule, total_steps=services.total_steps(state))
    if resumed.changed:
        changes = ", ".join(f"{name} {now} (was {then})" for name, (then, now) in resumed.changed.items())
        told.append(f"goes on with other settings: {changes}")
    if resumed.is_best:
        told.append(f"{resumed.checkpoint.name} holds weights only: the optimizer's moments start anew")
    told += [f"a newer checkpoint is damaged and was passed over: {message}" for message in resumed.skipped]
    return state, told


def put_in_order(state: RunState, services: Services, resumed: Resumed) -> list[str]:
    """Tidy the checkpoints' folder: what a kill left behind goes, checkpoints of later steps step aside.

    Args:
        state, services: taken up from the checkpoint.
        resumed: the checkpoint; when its weights were the best and a kill came before they were kept as such, they are
            kept now.

    Returns:
        What people should know of it.
    """
    told = []
    if removed := services.checkpoints.tidy():
        told.append(f"an unfinished save was removed: {', '.join(removed)}")
    step = services.trainer.num_steps
    if left := services.checkpoints.set_aside_after(step):
        told.append(f"going on from step {step}; later checkpoints are kept as {', '.join(left)}")
    if best := services.checkpoints.best():
        kept = read_state(best)
        services.saver.best_loss = best_loss_at(kept["step"], kept.get("candidate")) or kept.get("best_loss", math.inf)
    lost = best_loss_at(step, state.candidate)
    if lost is not None and lost < services.saver.best_loss:
        told += _keep_best(services, resumed, lost)
    return told


def _keep_best(services: Services, resumed: Resumed, loss: float) -> list[str]:
    try:
        # It may have lain aside, whole but without its name, until the folder was tidied.
        services.checkpoints.link_best(services.checkpoints.folder / resumed.checkpoint.name.removeprefix(ASIDE))
    except NotSaved as error:
        return [f"the best weights so far could not be kept as such: {error.what}"]
    services.saver.best_loss = loss
    return []
