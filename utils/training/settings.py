"""Which settings a run really gets: the user's own, the base's defaults for what was left open, or a resumed run's."""

import json
import math
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from utils.config import CODE_SAMPLES, TrainConfig
from utils.errors import UserError, raise_problems
from utils.jobs.resume import Resume, find_resume
from utils.model.base import Base
from utils.paths import Project
from utils.runs import BEST, LAST
from utils.training.clips import Limits
from utils.training.state import OPTIMIZER_FILE, Checkpoints, read_state, verify

OPEN = ("learning_rate", "num_epochs", "dropout", "max_audio_length", "max_text_length", "conditioning")
"""Settings that belong to the base when the user gives none."""
OWN = ("project", "output", "resume", "allow_changes")
"""Settings that say where a run lies and how it is started, not what it is: always those given now."""
FREE = (
    *("num_epochs", "device", "num_workers", "prefetch_factor", "pin_memory", "checkpoint_every"),
    *("checkpoint_minutes", "keep_checkpoints", "patience", "max_hours", "sample_text"),
)
"""Settings a resumed run may be given anew without more ado: the steps it takes stay the same, or there are more."""
FIXED = ("base", "lora_rank")
"""Settings that say what is trained: a run with others is another run."""
BOUND = ("batch_size", "seed", "train_csv", "language", "max_audio_length", "max_text_length")
"""Settings that decide which clips form which batch: an epoch that was begun with others has to begin anew."""

LORA_RATE, LORA_MOST = 10, 1e-3
"""With LoRA the learning rate that nobody gave is so many times the base's own, up to a limit.

Sources: Schulman et al. 2025, "LoRA Without Regret" (the best rate is about ten times that of all weights, whatever the
model's size); Hu et al. 2021, table 12 (GPT-3: 2e-4 with LoRA, 5e-6 with all weights). The limit is for small bases
with high rates of their own: measured on the starter (docs/training-optimizations.md)."""


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


def settle(config: TrainConfig, project: Project, base: Base) -> TrainConfig:
    """The settings with every open value filled in from the project and the base.

    Raises:
        UserError: the base cannot read the language, a limit exceeds the model's, or there is no dataset.
    """
    defaults = _defaults(config, base)
    given = {name: getattr(config, name) for name in OPEN}
    settled = replace(
        config,
        language=base.tokenizer().check_language(
            config.language or project.language(), base=config.base, project=project
        ),
        train_csv=config.train_csv or project.train_csv,
        eval_csv=config.eval_csv or project.eval_csv,
        **{name: defaults[name] if value is None else value for name, value in given.items()},
    )
    raise_problems(limits_of(settled).problems(base.gpt_shape()), where=f"base {base.name}")
    raise_problems(_budget_problems(settled), where="training settings")
    return settled


def _defaults(config: TrainConfig, base: Base) -> dict[str, Any]:
    """The open settings' values where the user gives none."""
    found = {name: getattr(base.defaults, name) for name in OPEN}
    if config.lora_rank:
        # Twelve digits: 5e-6 times ten is 4.9999999999999996e-05.
        higher = min(float(f"{found['learning_rate'] * LORA_RATE:.12g}"), LORA_MOST)
        found["learning_rate"] = max(found["learning_rate"], higher)
    return found


def _budget_problems(settled: TrainConfig) -> list[str]:
    """A fixed room for each clip must hold the longest."""
    assert settled.max_audio_length
    longest = math.ceil(settled.max_audio_length / CODE_SAMPLES)
    if settled.max_mel_length is None or settled.max_mel_length >= longest:
        return []
    return [
        f"max_mel_length is {settled.max_mel_length} codes, but the longest clip may have {longest}; "
        f"use {longest} or more, or lower max_audio_length"
    ]


def limits_of(settled: TrainConfig) -> Limits:
    """What clips must fit."""
    assert settled.max_audio_length and settled.max_text_length
    return Limits(max_audio_length=settled.max_audio_length, max_text_length=settled.max_text_length)


def sources_of(config: TrainConfig, base: Base) -> dict[str, str]:
    """For each setting that may be left open: who chose it."""
    found = {name: f"base {base.name}" if getattr(config, name) is None else "you" for name in OPEN}
    share = _defaults(config, base)["learning_rate"] / base.defaults.learning_rate
    if config.learning_rate is None and share > 1:
        found["learning_rate"] = f"LoRA: {share:.2g} times that of base {base.name}"
    return found


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
    checkpoints, skipped = Checkpoints(wanted.run / "checkpoints"), []
    for folder in _in_order(checkpoints, wanted.which):
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


def _in_order(checkpoints: Checkpoints, which: str) -> list[Path]:
    if which == "last" and (newest := checkpoints.candidates()):
        return newest
    # A run that went back to its best and was cut before its first save has nothing newer than that.
    best = checkpoints.best()
    # A checkpoint of the same step that was kept has the moments, too.
    return [] if best is None else [p for p in (best.with_name(best.name.replace(BEST, LAST)), best) if p.is_dir()]


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


def portable(config: TrainConfig, project: Project) -> TrainConfig:
    """Settings as a run keeps them: without how it was started, and without the place of its project's own dataset.

    A run that was moved with its project then still finds its clips.
    """
    return replace(_with_own_csvs(config, project), resume=None, allow_changes=False)


def _with_own_csvs(config: TrainConfig, project: Project) -> TrainConfig:
    """The settings without the manifests that the project has anyway."""
    own = {"train_csv": project.train_csv, "eval_csv": project.eval_csv}
    places = {name: None for name, place in own.items() if getattr(config, name) == place}
    return replace(config, **places)  # type: ignore[arg-type]


def as_json(config: TrainConfig) -> dict[str, Any]:
    """Settings as JSON values."""
    values: dict[str, Any] = json.loads(json.dumps(vars(config), default=str))
    return values
