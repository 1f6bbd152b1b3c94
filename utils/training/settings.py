"""Which settings a run really gets: the user's own, the base's defaults for what was left open, or a resumed run's."""

import json
import logging
import math
from dataclasses import replace
from typing import Any

from utils.bases.base import Base
from utils.config import CODE_SAMPLES, TrainConfig
from utils.errors import raise_problems
from utils.project.paths import Project
from utils.training.data.clips import limits_of

logger = logging.getLogger(__name__)

CODE_UNIT = "a code is 1024 samples or 4 mel frames"
OPEN = ("learning_rate", "num_epochs", "dropout", "max_audio_length", "max_text_length", "conditioning")
"""Settings that belong to the base when the user gives none."""
OWN = ("project", "output", "resume", "allow_changes")
"""Settings that say where a run lies and how it is started, not what it is: always those given now."""
FREE = (
    *(
        "num_epochs",
        "device",
        "processes",
        "rank_timeout",
        "threads",
        "num_workers",
        "prefetch_factor",
        "pin_memory",
        "checkpoint_every",
    ),
    *("checkpoint_minutes", "keep_checkpoints", "patience", "max_hours", "best_by", "sample_text", "log_to"),
)
"""Settings a resumed run may be given anew without more ado: the steps it takes stay the same, or there are more."""
FIXED = ("base", "lora_rank")
"""Settings that say what is trained: a run with others is another run."""
BOUND = (
    *("batch_size", "batch_tokens", "seed", "train_csv", "language"),
    *("max_audio_length", "max_text_length"),
)
"""Settings that decide which clips form which batch: an epoch that was begun with others has to begin anew."""

LORA_RATE, LORA_MOST = 10, 1e-3
"""With LoRA the learning rate that nobody gave is so many times the base's own, up to a limit.

Sources: Schulman et al. 2025, "LoRA Without Regret" (the best rate is about ten times that of all weights, whatever the
model's size); Hu et al. 2021, table 12 (GPT-3: 2e-4 with LoRA, 5e-6 with all weights). The limit is for small bases
with high rates of their own: measured on the starter (docs/training-optimizations.md)."""


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
    return _with_reachable_length(settled)


def _defaults(config: TrainConfig, base: Base) -> dict[str, Any]:
    """The open settings' values where the user gives none."""
    found = {name: getattr(base.defaults, name) for name in OPEN}
    if config.lora_rank:
        # Twelve digits: 5e-6 times ten is 4.9999999999999996e-05.
        higher = min(float(f"{found['learning_rate'] * LORA_RATE:.12g}"), LORA_MOST)
        found["learning_rate"] = max(found["learning_rate"], higher)
    return found


def _with_reachable_length(settled: TrainConfig) -> TrainConfig:
    """The settings with `max_mel_length` at most the length of the longest clip: more would only be padding.

    Raises:
        UserError: the longest clip does not fit into it.
    """
    assert settled.max_audio_length
    asked, longest = settled.max_mel_length, math.ceil(settled.max_audio_length / CODE_SAMPLES)
    if asked is None or asked == longest:
        return settled
    if asked < longest:
        problem = (
            f"max_mel_length is {asked} codes, but the longest clip may have {longest}; "
            f"use {longest} or more, or lower max_audio_length"
        )
        raise_problems([problem], where="training settings")
    logger.warning("max_mel_length %d is reduced to %d codes, the longest clip; %s", asked, longest, CODE_UNIT)
    return replace(settled, max_mel_length=longest)


def sources_of(config: TrainConfig, base: Base) -> dict[str, str]:
    """For each setting that may be left open: who chose it."""
    found = {name: f"base {base.name}" if getattr(config, name) is None else "you" for name in OPEN}
    share = _defaults(config, base)["learning_rate"] / base.defaults.learning_rate
    if config.learning_rate is None and share > 1:
        found["learning_rate"] = f"LoRA: {share:.2g} times that of base {base.name}"
    return found


def portable(config: TrainConfig, project: Project) -> TrainConfig:
    """Settings as a run keeps them: without how it was started, and without the place of its project's own dataset.

    A run that was moved with its project then still finds its clips.
    """
    return replace(with_own_csvs(config, project), resume=None, allow_changes=False)


def with_own_csvs(config: TrainConfig, project: Project) -> TrainConfig:
    """The settings without the manifests that the project has anyway."""
    own = {"train_csv": project.train_csv, "eval_csv": project.eval_csv}
    replaced = {name: None for name, place in own.items() if getattr(config, name) == place}
    return replace(config, **replaced)  # type: ignore[arg-type]


def as_json(config: TrainConfig) -> dict[str, Any]:
    """Settings as JSON values."""
    values: dict[str, Any] = json.loads(json.dumps(vars(config), default=str))
    return values
