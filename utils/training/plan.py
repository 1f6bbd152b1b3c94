"""A run is planned once: settings, base and what it resumes are found and checked, and nothing is touched."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from utils.bases.base import Base
from utils.config import TrainConfig
from utils.errors import UserError, raise_problems
from utils.options import CODE_SAMPLES
from utils.project.paths import Project, open_project
from utils.runs.checkpoints import read_state, whole_checkpoint
from utils.runs.layout import OPTIMIZER_FILE, OPTIMIZER_PARTS, find_resume
from utils.runs.loggers import find_loggers
from utils.training.data.base import KeptLanguage, kept_languages, language_base, starting_base, what_was_added
from utils.training.data.clip_list import limit_problems

logger = logging.getLogger(__name__)
OPEN = ("learning_rate", "num_epochs", "dropout", "max_audio_length", "max_text_length", "conditioning")
"""Settings that belong to the base when the user gives none."""
OWN = ("project", "output", "resume", "allow_changes")
"""Settings that say where a run lies and how it is started, not what it is: always those given now."""
FREE = (
    "num_epochs",
    "device",
    "processes",
    "max_restarts",
    "threads",
    "num_workers",
    "prefetch_factor",
    "pin_memory",
    "checkpoint_every",
    "checkpoint_minutes",
    "keep_checkpoints",
    "patience",
    "max_hours",
    "best_by",
    "sample_text",
    "log_to",
    "profile",
)
"""Settings a resumed run may be given again without more ado: the steps it takes stay the same, or there are more."""
FIXED = ("base", "lora_rank")
"""Settings that say what is trained: a run with others is another run."""
BOUND = (
    "batch_size",
    "batch_tokens",
    "seed",
    "train_csv",
    "keep_languages",
    "language",
    "max_audio_length",
    "max_text_length",
)
"""Settings that decide which clips form which batch: an epoch that was begun with others has to begin again."""
LORA_RATE, LORA_MOST = 10, 1e-3
"""With LoRA a learning rate that was not given is this many times the base's own, up to a limit.

Sources: Schulman et al. 2025, "LoRA Without Regret" (the best rate is about ten times that of all weights, whatever the
model's size); Hu et al. 2021, table 12 (GPT-3: 2e-4 with LoRA, 5e-6 with all weights). The limit is for small bases
with high rates of their own: measured on the starter (docs/training-optimizations.md)."""


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
    retired: Mapping[str, Any]
    """Settings of the run that this version does not have."""


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What a run will do: no setting is resolved again after it."""

    config: TrainConfig
    """The settings, open ones filled in."""
    sources: dict[str, str]
    """Who chose each setting that may be left open."""
    project: Project
    base: Base
    """What is trained."""
    kept: Sequence[KeptLanguage]
    """Clips of other languages that are mixed in."""
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
        retired = resumed.retired
    chosen = starting_base(config, project, resumed.run if resumed else None)
    base = language_base(config, project, chosen)
    settled = settle(config, project, base)
    return RunPlan(
        config=settled,
        sources=sources_of(config, base),
        project=project,
        base=base,
        kept=kept_languages(settled, base),
        added=None if resumed else what_was_added(chosen, base),
        resumed=resumed,
        retired=retired,
    )


def settle(config: TrainConfig, project: Project, base: Base) -> TrainConfig:
    """The settings with every open value filled in from the project and the base.

    Raises:
        UserError: the base cannot read the language, a limit exceeds the model's, or there is no dataset.
    """
    settled = replace(
        config,
        language=base.tokenizer().check_language(
            config.language or project.language(), base=config.base, project=project
        ),
        train_csv=config.train_csv or project.train_csv,
        eval_csv=config.eval_csv or project.eval_csv,
        **{name: value for name, value in _defaults(config, base).items() if getattr(config, name) is None},
    )
    assert settled.max_audio_length and settled.max_text_length
    limits = {"max_audio_length": settled.max_audio_length, "max_text_length": settled.max_text_length}
    raise_problems(limit_problems(base.gpt_shape(), **limits), where=f"base {base.name}")
    # More codes than the longest clip has would only be padding.
    longest = math.ceil(settled.max_audio_length / CODE_SAMPLES)
    asked = longest if settled.max_mel_length is None else settled.max_mel_length
    if asked < longest:
        problem = (
            f"max_mel_length is {asked} codes, but the longest clip may have {longest}; "
            f"use {longest} or more, or lower max_audio_length"
        )
        raise_problems([problem], where="training settings")
    if asked == longest:
        return settled
    unit = "a code is 1024 samples or 4 mel frames"
    logger.warning("max_mel_length %d is reduced to %d codes, the longest clip; %s", asked, longest, unit)
    return replace(settled, max_mel_length=longest)


def _defaults(config: TrainConfig, base: Base) -> dict[str, Any]:
    """The open settings' values where the user gives none."""
    found = {name: getattr(base.defaults, name) for name in OPEN}
    if config.lora_rank:
        # Twelve digits: 5e-6 times ten is 4.9999999999999996e-05.
        higher = min(float(f"{found['learning_rate'] * LORA_RATE:.12g}"), LORA_MOST)
        found["learning_rate"] = max(found["learning_rate"], higher)
    return found


def sources_of(config: TrainConfig, base: Base) -> dict[str, str]:
    """For each setting that may be left open: who chose it."""
    found = {name: f"base {base.name}" if getattr(config, name) is None else "you" for name in OPEN}
    share = _defaults(config, base)["learning_rate"] / base.defaults.learning_rate
    if config.learning_rate is None and share > 1:
        found["learning_rate"] = f"LoRA: {share:.2g} times that of base {base.name}"
    return found


def portable(plan: RunPlan) -> TrainConfig:
    """Settings as a run keeps them: without how it was started, and without the place of its project's own dataset.

    A run that was moved with its project then still finds its clips.
    """
    return replace(with_own_csvs(plan.config, plan.project), resume=None, allow_changes=False)


def with_own_csvs(config: TrainConfig, project: Project) -> TrainConfig:
    """The settings without the manifests that the project has anyway."""
    own = {"train_csv": project.train_csv, "eval_csv": project.eval_csv}
    replaced = {name: None for name, place in own.items() if getattr(config, name) == place}
    return replace(config, **replaced)  # type: ignore[arg-type]


def require_resumable(plan: RunPlan, data: str, recordings: list[str]) -> None:
    """Do nothing for a new run, or for one that can be resumed; asked before anything of it is touched.

    Args:
        plan: of the run.
        data: fingerprint of the clips there are.
        recordings: those that are not what they were.

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
    if (state["data"] != data or recordings) and not config.allow_changes:
        details = "".join(f"\n  {line}" for line in recordings)
        raise UserError(
            what=f"the dataset has changed since this run was cut: its place in the data means nothing now{details}",
            where=str(resumed.checkpoint),
            fix="start a new run, or add --allow-changes to begin the epoch again with the clips there are",
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
        UserError: this number of processes cannot share them.
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
    # The run keeps them as its project's own, wherever that lies now: to name them is to give nothing new.
    config = with_own_csvs(config, project)
    checkpoint, skipped = whole_checkpoint(wanted)
    if (checkpoint / OPTIMIZER_PARTS).is_dir():
        raise UserError(
            what="this checkpoint's moments are sharded (--shard), which this version does not read",
            where=str(checkpoint),
            fix="resume with the version that wrote it, or start a new run from its weights: "
            f"--base run/{wanted.run.name}/last",
        )
    state = read_state(checkpoint)
    # Checkpoints of an earlier version do not hold their settings: those of the run are the best guess.
    file = wanted.run / "config.yaml"
    saved, own = state.get("settings"), TrainConfig.load(file).validate(where=str(file))
    then = own if saved is None else TrainConfig.from_saved(saved, where=str(checkpoint))
    # The run's config.yaml with what was given now: a value equal to its default never counts as given.
    plain, names = TrainConfig(project=config.project), [one.name for one in fields(config) if one.name != "run_id"]
    given = [name for name in names if name in OWN or getattr(config, name) != getattr(plain, name)]
    # The run was profiled: a later start is so only where it is asked for again.
    now = replace(own, **({"profile": 0} | {name: getattr(config, name) for name in given}))
    both = {name: (getattr(then, name), getattr(now, name)) for name in names if name not in OWN}
    changed = {name: values for name, values in both.items() if values[0] != values[1]}
    firm = [name for name in changed if name not in FREE]
    details = "".join(f"\n  - {name}: {changed[name][0]} then, {changed[name][1]} now" for name in firm)
    if fixed := [name for name in FIXED if name in changed]:
        raise UserError(
            what=f"a run cannot change its {' or its '.join(fixed)}:{details}",
            where=str(wanted.run),
            fix="start a new run, from this one's exported model if you like",
        )
    if firm and not config.allow_changes:
        raise UserError(
            what=f"a resumed run keeps its settings, but these were given again: {', '.join(firm)}{details}",
            where=str(wanted.run),
            fix="leave them out, add --allow-changes to resume with them, or start a new run",
        )
    return now, Resumed(
        run=wanted.run,
        checkpoint=checkpoint,
        state=state,
        is_best=not (checkpoint / OPTIMIZER_FILE).exists(),
        skipped=skipped,
        changed=changed,
        retired=own.retired,
    )
