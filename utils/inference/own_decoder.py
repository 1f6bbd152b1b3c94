"""The decoder of an exported model: the base's, or one whose acoustic model was fitted to the voice."""

import logging
from pathlib import Path
from typing import Any

from utils.bases.base import Base
from utils.config import TrainConfig
from utils.dataset.storage.manifest import read_manifest
from utils.decoder_training.tune_trunk import TunedDecoder, has_trunk, tune_trunk
from utils.errors import UserError
from utils.events.progress import ProgressFn
from utils.inference.engine import Synthesizer
from utils.model.weights import State
from utils.project.paths import Project
from utils.training.run_folder import REFERENCE_FILE

log = logging.getLogger(__name__)


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
    if asked is not None:
        return asked
    return max(0, int(base.defaults.decoder_steps)) if has_trunk(base) else 0


def own_decoder(
    run: Path,
    base: Base,
    gpt: State,
    decoder: State,
    project: Project,
    settings: TrainConfig,
    *,
    steps: int,
    must: bool = False,
    progress: ProgressFn,
) -> tuple[State, dict[str, Any]]:
    """Weights of the decoder to export, and what about.json says of them.

    Args:
        run: its reference recording is the voice.
        base: the run's.
        gpt: fine-tuned weights.
        decoder: the base's.
        project: its clips teach the trunk.
        settings: the run's.
        steps: 0 to take the base's decoder as it is.
        must: the user asked for the steps; otherwise the base's decoder is kept where the clips do not serve.
        progress: how far it is.

    Raises:
        UserError: the steps must be, and the clips do not serve.
    """
    if not steps:
        return decoder, {}
    try:
        tuned = _tuned(run, base, gpt, project, settings, steps, progress)
    except UserError as error:
        if must:
            raise
        log.warning("the decoder does not learn the voice: %s", error)
        return decoder, {"decoder": {"steps": 0, "kept": f"the base's own: {error.what}"}}
    weights = {name: tensor.to(decoder[name].dtype) for name, tensor in tuned.weights.items()}
    return decoder | weights, {"decoder": tuned.facts}


def _tuned(
    run: Path, base: Base, gpt: State, project: Project, settings: TrainConfig, steps: int, progress: ProgressFn
) -> TunedDecoder:
    fix = "leave the decoder as it is: --decoder-steps 0"
    train_csv, eval_csv = settings.train_csv or project.train_csv, settings.eval_csv or project.eval_csv
    if not train_csv.is_file() or not eval_csv.is_file():
        raise UserError(what="the dataset is gone", where=str(train_csv), fix=fix)
    clips, eval_clips = read_manifest(train_csv), read_manifest(eval_csv)
    if len(speakers := {clip.speaker for clip in clips}) > 1:
        # They would all be learned under the one voice that the reference recording has.
        raise UserError(what=f"the clips are of {len(speakers)} speakers", where=str(train_csv), fix=fix)
    synthesizer = Synthesizer(base, gpt_state=gpt)
    return tune_trunk(
        base,
        synthesizer.gpt,
        synthesizer.voice(run / REFERENCE_FILE),
        clips,
        eval_clips,
        language=settings.language or project.language(),
        steps=steps,
        folder=project.folder / ".decoder-lessons",
        progress=progress,
    )
