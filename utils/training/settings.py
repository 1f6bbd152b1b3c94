"""Which settings a run really gets: the user's own, the base's defaults for what was left open, or a resumed run's."""

import math
from dataclasses import fields, replace
from pathlib import Path

from utils.config import CODE_SAMPLES, TrainConfig
from utils.errors import UserError, raise_problems
from utils.model.base import Base
from utils.paths import Project
from utils.training.clips import Limits
from utils.training.state import Checkpoints

OPEN = ("learning_rate", "num_epochs", "dropout", "max_audio_length", "max_text_length")
"""Settings that belong to the base when the user gives none."""
MAY_CHANGE = (
    "project",
    "output",
    "resume",
    "run_id",
    "num_epochs",
    "device",
    "num_workers",
    "prefetch_factor",
    "pin_memory",
    "checkpoint_every",
)
"""Settings a resumed run may be given anew: they do not change what it computes, except that it goes on longer."""


def settle(config: TrainConfig, project: Project, base: Base) -> TrainConfig:
    """The settings with every open value filled in from the project and the base.

    Raises:
        UserError: the base cannot read the language, a limit exceeds the model's, or there is no dataset.
    """
    defaults = base.defaults
    given = {name: getattr(config, name) for name in OPEN}
    settled = replace(
        config,
        language=base.tokenizer().check_language(config.language or project.language()),
        train_csv=config.train_csv or project.train_csv,
        eval_csv=config.eval_csv or project.eval_csv,
        **{name: getattr(defaults, name) if value is None else value for name, value in given.items()},
    )
    raise_problems(limits_of(settled).problems(base.gpt_shape()), where=f"base {base.name}")
    raise_problems(_budget_problems(settled), where="training settings")
    return settled


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
    return {name: f"base {base.name}" if getattr(config, name) is None else "you" for name in OPEN}


def with_saved_settings(config: TrainConfig) -> TrainConfig:
    """A resumed run's own settings, so that it goes on as it began.

    Raises:
        UserError: the folder is not a run, or other settings were given that differ from the run's.
    """
    if config.resume is None:
        return config
    last_checkpoint(config.resume)
    saved = TrainConfig.load(config.resume / "config.yaml").validate(where=str(config.resume / "config.yaml"))
    changed = [name for name in _given(config) if getattr(config, name) != getattr(saved, name)]
    if changed:
        raise UserError(
            what=f"a resumed run keeps its settings, but these were given anew: {', '.join(changed)}",
            where=str(config.resume),
            fix="leave them out, or start a new run from this one's exported model",
        )
    kept = {name: getattr(config, name) for name in ("device", "num_workers", "checkpoint_every", "resume")}
    return replace(saved, num_epochs=config.num_epochs or saved.num_epochs, **kept)


def last_checkpoint(folder: Path) -> Path:
    """The checkpoint a run can go on from.

    Raises:
        UserError: the folder is not a run, or has none.
    """
    found = Checkpoints(folder / "checkpoints").last() if (folder / "config.yaml").is_file() else None
    if found is None:
        raise UserError(
            what="there is no complete checkpoint to go on from", where=str(folder), fix="name a run's folder"
        )
    return found


def _given(config: TrainConfig) -> list[str]:
    """Settings that were set to something else than their default: a value equal to it cannot be told from none."""
    names = [field.name for field in fields(config) if field.name not in MAY_CHANGE]
    plain = TrainConfig(project=config.project)
    return [name for name in names if getattr(config, name) != getattr(plain, name)]
