"""The decoder of an exported model: the base's; where it has an acoustic trunk, one that has learned the voice."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from utils.config import TrainConfig
from utils.dataset.manifest import read_manifest
from utils.errors import UserError
from utils.inference.engine import Synthesizer
from utils.model.base import Base
from utils.model.weights import State, part
from utils.model.xtts import DECODER_PREFIX
from utils.paths import Project
from utils.training.run_folder import REFERENCE_FILE
from utils.training.tune_trunk import has_trunk, tune_trunk

log = logging.getLogger(__name__)

Told = Callable[[str, int, int | None], None]
"""Called with (phase, done, total)."""


def trunk_steps(base: Base, asked: int | None) -> int:
    """Steps in which the decoder's trunk shall learn the voice.

    Args:
        base: whose decoder.
        asked: what the user gave; the base's own number when None.

    Raises:
        UserError: the user asked for fewer than none, or for some, and the decoder has no trunk.
    """
    if asked is not None and asked < 0:
        raise UserError(what=f"decoder_steps is {asked}", fix="use 0 (none) or more")
    if asked and not has_trunk(base):
        raise UserError(
            what=f"the decoder of base {base.name} has no acoustic trunk that could learn the voice",
            fix="leave --decoder-steps out: XTTS v2's decoder stays as it is",
        )
    return base.defaults.decoder_steps if asked is None else asked


def own_decoder(
    run: Path, base: Base, gpt: State, project: Project, settings: TrainConfig, *, steps: int, told: Told
) -> tuple[State, dict[str, Any]]:
    """Weights of the decoder to export, and what about.json says of them.

    Args:
        run: its reference recording is the voice.
        base: the run's.
        gpt: fine-tuned weights.
        project: its clips teach the trunk.
        settings: the run's.
        steps: 0 to take the base's decoder as it is.
        told: how far it is.

    Raises:
        UserError: a clip cannot be read.
    """
    decoder = part(base.state(), DECODER_PREFIX)
    train_csv, eval_csv = settings.train_csv or project.train_csv, settings.eval_csv or project.eval_csv
    if not steps:
        return decoder, {}
    if not train_csv.is_file() or not eval_csv.is_file():
        log.warning("the decoder does not learn the voice: the dataset is gone (%s)", train_csv)
        return decoder, {"decoder": {"steps": 0, "kept": "the base's own: the dataset was gone"}}
    synthesizer = Synthesizer(base, gpt_state=gpt)
    tuned = tune_trunk(
        base,
        synthesizer.gpt,
        synthesizer.voice(run / REFERENCE_FILE),
        read_manifest(train_csv),
        read_manifest(eval_csv),
        language=settings.language or project.language(),
        steps=steps,
        told=told,
    )
    weights = {name: tensor.to(decoder[name].dtype) for name, tensor in tuned.weights.items()}
    return decoder | weights, {"decoder": tuned.facts}
