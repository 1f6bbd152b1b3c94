"""Putting a run where it was when a checkpoint was written: weights, moments, schedule and place in the data."""

import math
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from utils.checkpoints.layout import ASIDE, OPTIMIZER_FILE, checkpoints_of
from utils.checkpoints.resume import Resume, find_resume
from utils.checkpoints.store import NotSaved, read_state, verify
from utils.config import TrainConfig
from utils.errors import UserError
from utils.project.paths import Project
from utils.training.loop import RESUMED, Run, best_loss_at
from utils.training.optimizer.make import extend_schedule
from utils.training.restore import load_optimizer, restore_model
from utils.training.settings import BOUND, FIXED, FREE, OWN, _with_own_csvs


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """What a run goes on from."""

    run: Path
    checkpoint: Path
    """Read through and found whole."""
    is_best: bool
    """Only weights: the best of the run, without the optimizer's moments."""
    skipped: list[str]
    """Newer checkpoints that are damaged, each with what is wrong."""
    changed: dict[str, tuple[Any, Any]]
    """Settings that differ from the checkpoint's: (then, now)."""


def require_resumable(resumed: Resumed, config: TrainConfig, data: str) -> None:
    """Do nothing when the run can go on; asked before anything of it is touched.

    Args:
        resumed: the checkpoint.
        config: settled settings.
        data: fingerprint of the clips there are.

    Raises:
        UserError: the clips have changed, or the run has nothing left to do.
    """
    state = read_state(resumed.checkpoint)
    if "trainer" not in state:
        raise UserError(
            what="these weights do not say where their run was: an earlier version saved them",
            where=str(resumed.checkpoint),
            fix="resume the last checkpoint",
        )
    if state["data"] != data and not config.allow_changes:
        raise UserError(
            what="the dataset has changed since this run was cut: its place in the data means nothing now",
            where=str(resumed.checkpoint),
            fix="start a new run, or add --allow-changes to begin the epoch anew with the clips there are",
        )
    assert config.num_epochs
    if state["epoch"] >= config.num_epochs:
        raise UserError(
            what=f"this run has finished its {config.num_epochs} epochs",
            where=str(resumed.run),
            fix=f"give it more: --num-epochs {config.num_epochs + 5}",
        )


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
    state, told = read_state(resumed.checkpoint), []
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


def find_checkpoint(config: TrainConfig, project: Project) -> tuple[TrainConfig, Resumed]:
    """A resumed run's own settings, and the checkpoint it goes on from.

    Args:
        config: what was given now; `resume` says which run.
        project: where runs are looked up by name.

    Raises:
        UserError: there is no such run or no whole checkpoint, a checkpoint that was named is damaged, or settings were
            given that differ from the run's without `allow_changes`.
    """
    assert config.resume is not None
    wanted = find_resume(config.resume, project)
    # The run keeps them as its project's own, wherever that lies now: to name them is to give nothing anew.
    config = _with_own_csvs(config, project)
    checkpoint, skipped = _whole_checkpoint(wanted)
    then, now = _settings_then(wanted.run, checkpoint), _settings_now(wanted.run, config)
    names = [field.name for field in fields(config) if field.name not in (*OWN, "run_id")]
    changed = {name: (getattr(then, name), getattr(now, name)) for name in names}
    changed = {name: values for name, values in changed.items() if values[0] != values[1]}
    _require_allowed(changed, wanted.run, config)
    return now, Resumed(
        run=wanted.run,
        checkpoint=checkpoint,
        is_best=not (checkpoint / OPTIMIZER_FILE).is_file(),
        skipped=skipped,
        changed=changed,
    )


def _require_allowed(changed: dict[str, tuple[Any, Any]], run: Path, config: TrainConfig) -> None:
    firm = [name for name in changed if name not in FREE]
    told = "".join(f"\n  - {name}: {changed[name][0]} then, {changed[name][1]} now" for name in firm)
    if fixed := [name for name in FIXED if name in changed]:
        raise UserError(
            what=f"a run cannot change its {' or its '.join(fixed)}:{told}",
            where=str(run),
            fix="start a new run, from this one's exported model if you like",
        )
    if firm and not config.allow_changes:
        raise UserError(
            what=f"a resumed run keeps its settings, but these were given anew: {', '.join(firm)}{told}",
            where=str(run),
            fix="leave them out, add --allow-changes to go on with them, or start a new run",
        )


def _whole_checkpoint(wanted: Resume) -> tuple[Path, list[str]]:
    """The newest checkpoint that can be gone on from, read through; and what is wrong with newer ones.

    Raises:
        UserError: there is none; or the one that was named is damaged.
    """
    if wanted.checkpoint is not None:
        verify(wanted.checkpoint)
        return wanted.checkpoint, []
    skipped = []
    for folder in _in_order(wanted.run, wanted.which):
        try:
            verify(folder)
        except UserError as error:
            skipped.append(f"{folder.name}: {error.what}")
        else:
            return folder, skipped
    told = f"; damaged: {'; '.join(skipped)}" if skipped else ""
    raise UserError(
        what=f"there is no complete checkpoint to go on from{told}",
        where=str(wanted.run),
        fix="name another run, or train anew",
    )


def _in_order(run: Path, which: str) -> list[Path]:
    """Checkpoints to try, the newest first; also those that are not complete, so that the user learns of them."""
    found = checkpoints_of(run)
    if which == "last" and (newest := [one.path for one in reversed(found) if not one.is_best]):
        return newest
    # A run that went back to its best and was cut before its first save has nothing newer than that.
    best = next((one for one in reversed(found) if one.is_best and one.is_complete), None)
    # A checkpoint of the same step that was kept has the moments, too.
    return [one.path for one in found if best is not None and one.step == best.step]


def _settings_then(run: Path, checkpoint: Path) -> TrainConfig:
    """The settings that the checkpoint was made with; for one of an earlier version those of its run."""
    saved = read_state(checkpoint).get("settings")
    return _own_settings(run) if saved is None else TrainConfig.from_values(saved, where=str(checkpoint))


def _settings_now(run: Path, given: TrainConfig) -> TrainConfig:
    """The run's config.yaml with what was given now.

    A value equal to its default cannot be told from none, so that it never counts as given.
    """
    plain = TrainConfig(project=given.project)
    names = [field.name for field in fields(given) if field.name != "run_id"]
    new = [name for name in names if name in OWN or getattr(given, name) != getattr(plain, name)]
    return replace(_own_settings(run), **{name: getattr(given, name) for name in new})


def _own_settings(run: Path) -> TrainConfig:
    return TrainConfig.load(run / "config.yaml").validate(where=str(run / "config.yaml"))
