"""A run is planned once: its settings, its base and what it resumes are found and checked, and nothing is touched."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from utils.bases.base import Base
from utils.config import TrainConfig
from utils.errors import UserError
from utils.project.paths import Project, open_project
from utils.runs.checkpoints import read_state, whole_checkpoint
from utils.runs.layout import OPTIMIZER_FILE, OPTIMIZER_PARTS, find_resume
from utils.runs.loggers import find_loggers
from utils.training.data.base import language_base, starting_base, what_was_added
from utils.training.settings import FIXED, FREE, OWN, settle, sources_of, with_own_csvs


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """What a run resumes from."""

    run: Path
    checkpoint: Path
    """Read through and found whole."""
    state: dict[str, Any]
    """Where the run was at this checkpoint; see `utils.runs.checkpoints.read_state`."""
    is_best: bool
    """Only weights: the best of the run, without the optimizer's moments."""
    skipped: list[str]
    """Newer checkpoints that are damaged, each with what is wrong."""
    changed: dict[str, tuple[Any, Any]]
    """Settings that differ from the checkpoint's: (then, now)."""


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What a run will do: nobody downstream resolves a setting again."""

    config: TrainConfig
    """The settings, open ones filled in."""
    sources: dict[str, str]
    """Who chose each setting that may be left open."""
    project: Project
    base: Base
    """What is trained."""
    added: str | None
    """For the user: what the chosen base was given to read the language."""
    resumed: Resumed | None
    retired: Mapping[str, Any]
    """Settings of the run that this version does not have."""


def plan_run(config: TrainConfig, *, project: Project | None = None) -> RunPlan:
    """Find and check all that a run needs but its clips, which wait for the device.

    Args:
        config: as given.
        project: where the run goes, when it is not the project that the settings name.

    Raises:
        UserError: any fault of settings or base, no dataset, or nothing to resume.
    """
    config.validate(where="training settings")
    find_loggers(config.log_to)
    project = project or open_project(config.project, config.output)
    resumed, retired = None, config.retired
    if config.resume:
        config, resumed = find_checkpoint(config, project)
        retired = _own_settings(resumed.run).retired
    chosen = starting_base(config, project, resumed.run if resumed else None)
    base = language_base(config, project, chosen)
    return RunPlan(
        config=settle(config, project, base),
        sources=sources_of(config, base),
        project=project,
        base=base,
        added=None if resumed else what_was_added(chosen, base),
        resumed=resumed,
        retired=retired,
    )


def require_resumable(plan: RunPlan, data: str) -> None:
    """Do nothing for a new run, or for one that can be resumed; asked before anything of it is touched.

    Args:
        plan: of the run.
        data: fingerprint of the clips there are.

    Raises:
        UserError: the clips have changed, or the run has nothing left to do.
    """
    if plan.resumed is None:
        return
    config, resumed, state = plan.config, plan.resumed, plan.resumed.state
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


def micro_batches_of(plan: RunPlan, world: int) -> int:
    """Micro-batches of one optimizer step over all processes: fixed when the run begins, and kept in its state.

    Args:
        plan: of the run.
        world: processes there are now.

    Returns:
        0 for a run of a version that did not keep it.

    Raises:
        UserError: so many processes cannot share them.
    """
    config, resumed = plan.config, plan.resumed
    if resumed is None or "grad_accumulation" in resumed.changed:
        return config.grad_accumulation * world
    kept: int = resumed.state.get("global_micro_batches", 0)
    sizes = [size for size in range(1, kept + 1) if kept % size == 0]
    if kept and world not in sizes:
        raise UserError(
            what=f"a step of this run has {kept} micro-batches, which {world} processes cannot share equally",
            where="--processes",
            fix=f"continue with {' or '.join(map(str, sizes))} processes",
        )
    return kept


def find_checkpoint(config: TrainConfig, project: Project) -> tuple[TrainConfig, Resumed]:
    """A resumed run's own settings, and the checkpoint it resumes from.

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
    config = with_own_csvs(config, project)
    checkpoint, skipped = whole_checkpoint(wanted)
    state = read_state(checkpoint)
    # Checkpoints of an earlier version do not hold their settings: those of the run are the best guess.
    saved, now = state.get("settings"), _settings_now(wanted.run, config)
    then = _own_settings(wanted.run) if saved is None else TrainConfig.from_saved(saved, where=str(checkpoint))
    names = [field.name for field in fields(config) if field.name not in (*OWN, "run_id")]
    changed = {name: (getattr(then, name), getattr(now, name)) for name in names}
    changed = {name: values for name, values in changed.items() if values[0] != values[1]}
    _require_allowed(changed, wanted.run, config)
    return now, Resumed(
        run=wanted.run,
        checkpoint=checkpoint,
        state=state,
        is_best=not any((checkpoint / name).exists() for name in (OPTIMIZER_FILE, OPTIMIZER_PARTS)),
        skipped=skipped,
        changed=changed,
    )


def _require_allowed(changed: dict[str, tuple[Any, Any]], run: Path, config: TrainConfig) -> None:
    firm = [name for name in changed if name not in FREE]
    details = "".join(f"\n  - {name}: {changed[name][0]} then, {changed[name][1]} now" for name in firm)
    if fixed := [name for name in FIXED if name in changed]:
        raise UserError(
            what=f"a run cannot change its {' or its '.join(fixed)}:{details}",
            where=str(run),
            fix="start a new run, from this one's exported model if you like",
        )
    if firm and not config.allow_changes:
        raise UserError(
            what=f"a resumed run keeps its settings, but these were given anew: {', '.join(firm)}{details}",
            where=str(run),
            fix="leave them out, add --allow-changes to resume with them, or start a new run",
        )


def _settings_now(run: Path, given: TrainConfig) -> TrainConfig:
    """The run's config.yaml with what was given now.

    A value equal to its default is not distinguished from none, so that it never counts as given.
    """
    plain = TrainConfig(project=given.project)
    names = [field.name for field in fields(given) if field.name != "run_id"]
    new = [name for name in names if name in OWN or getattr(given, name) != getattr(plain, name)]
    return replace(_own_settings(run), **{name: getattr(given, name) for name in new})


def _own_settings(run: Path) -> TrainConfig:
    return TrainConfig.load(run / "config.yaml").validate(where=str(run / "config.yaml"))
