"""Putting a run where it was when a checkpoint was written: weights, moments, schedule and place in the data."""

import math
from typing import Any

from utils.checkpoints.layout import ASIDE
from utils.checkpoints.store import NotSaved, read_state
from utils.training.loop import RESUMED, Run, best_loss_at
from utils.training.optimizer.make import extend_schedule
from utils.training.plan import Resumed
from utils.training.restore import load_optimizer, restore_model
from utils.training.settings import BOUND


def take_up(run: Run, resumed: Resumed) -> list[str]:
    """Go on from a checkpoint that was found whole.

    Args:
        run: just made, in the folder of the run it goes on with.
        resumed: the checkpoint, and what changed since.

    Returns:
        What people should know of it.

    Raises:
        UserError: the checkpoint is of another model.
    """
    state, told = resumed.state, []
    _load(run, state, resumed)
    if state["data"] != run.data or any(name in resumed.changed for name in BOUND) or _is_replanned(run, state):
        if run.batches_done:
            told.append(
                f"epoch {run.epoch + 1} begins anew: its batches are others now, {run.batches_done} were trained on"
            )
        run.batches_done, run.losses = 0, []
    if not resumed.is_best:
        run.saver.saved_step = run.trainer.num_steps
    extend_schedule(run.trainer.schedule, total_steps=run.total_steps)
    if resumed.changed:
        changes = ", ".join(f"{name} {now} (was {then})" for name, (then, now) in resumed.changed.items())
        told.append(f"goes on with other settings: {changes}")
    if resumed.is_best:
        told.append(f"{resumed.checkpoint.name} holds weights only: the optimizer's moments start anew")
    told += [f"a newer checkpoint is damaged and was passed over: {message}" for message in resumed.skipped]
    return told


def _is_replanned(run: Run, state: dict[str, Any]) -> bool:
    """Whether the epoch's batches are others now: on another device, with another kernel or number of processes."""
    return "plan" in state and state["plan"] != run.loaders.plan_of(run.epoch)


def put_in_order(run: Run, resumed: Resumed) -> list[str]:
    """Tidy the checkpoints' folder: what a kill left behind goes, checkpoints of later steps step aside.

    Args:
        run: taken up from the checkpoint.
        resumed: the checkpoint; when its weights were the best and a kill came before they were kept as such, they are
            kept now.

    Returns:
        What people should know of it.
    """
    told = []
    if removed := run.checkpoints.tidy():
        told.append(f"an unfinished save was removed: {', '.join(removed)}")
    step = run.trainer.num_steps
    if left := run.checkpoints.set_aside_after(step):
        told.append(f"going on from step {step}; later checkpoints are kept as {', '.join(left)}")
    if best := run.checkpoints.best():
        state = read_state(best)
        run.saver.best_loss = best_loss_at(state["step"], state.get("candidate")) or state.get("best_loss", math.inf)
    lost = best_loss_at(step, run.candidate)
    if lost is not None and lost < run.saver.best_loss:
        told += _keep_best(run, resumed, lost)
    return told


def _keep_best(run: Run, resumed: Resumed, loss: float) -> list[str]:
    try:
        # It may have lain aside, whole but without its name, until the folder was tidied.
        run.checkpoints.link_best(run.checkpoints.folder / resumed.checkpoint.name.removeprefix(ASIDE))
    except NotSaved as error:
        return [f"the best weights so far could not be kept as such: {error.what}"]
    run.saver.best_loss = loss
    return []


def _load(run: Run, state: dict[str, Any], resumed: Resumed) -> None:
    restore_model(resumed.checkpoint, run.trainer.gpt)
    if not resumed.is_best:
        load_optimizer(resumed.checkpoint, run.trainer.gpt, run.trainer.optimizer)
    run.trainer.load_state(state["trainer"])
    run.divergence.num_skipped = state.get("skipped", 0)
    if "recovery" in state:
        run.recovery.load_state(state["recovery"])
    for name in RESUMED:
        # The clips are those there are now, whatever they were then.
        if name != "data":
            setattr(run, name, state.get(name, getattr(run, name)))
