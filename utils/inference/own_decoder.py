"""The decoder of an exported model: the base's, or one that was fitted to the voice."""

import logging
from pathlib import Path
from typing import Any

from utils.bases.base import Base
from utils.bases.decoder import load_decoder
from utils.callbacks import ProgressFn
from utils.config import ExportConfig, TrainConfig
from utils.dataset.storage.manifest import read_manifest
from utils.decoder_training.tune import HIFIGAN_STEPS, TunedDecoder, method_of, tune_decoder
from utils.errors import UserError
from utils.jobs.child import hold
from utils.model.voices import ReferenceLimits, load_reference, make_voice
from utils.model.weights import State
from utils.model.xtts import build_gpt
from utils.options import ComputeDevice
from utils.performance_utils.device import settle_device
from utils.project.paths import Project
from utils.runs.layout import REFERENCE_FILE

log = logging.getLogger(__name__)


def fit_steps(base: Base, config: ExportConfig) -> int:
    """Steps in which the decoder shall learn the voice; 0 to take the base's as it is.

    Raises:
        UserError: the settings contradict each other, or the base does not speak.
    """
    asked, steps = config.tune_decoder, config.decoder_steps
    own = max(0, int(base.defaults.decoder_steps))
    if steps is not None and steps < 0:
        raise UserError(what=f"decoder_steps is {steps}", fix="use 0 (none) or more")
    if asked and steps == 0:
        raise UserError(what="the decoder shall be fitted in 0 steps", fix="omit --tune-decoder or --decoder-steps")
    if asked is False and steps:
        raise UserError(what=f"the decoder shall not be fitted, in {steps} steps", fix="omit one of the two")
    wanted = asked if asked is not None else bool(own if steps is None else steps)
    if not wanted:
        return 0
    if not base.can_speak:
        raise UserError(
            what=f"base {base.name} does not speak: its decoder has random weights, which no few steps make a voice",
            fix="omit --tune-decoder and --decoder-steps",
        )
    return steps or own or HIFIGAN_STEPS


def own_decoder(
    run: Path,
    base: Base,
    gpt: State,
    decoder: State,
    project: Project,
    settings: TrainConfig,
    config: ExportConfig,
    progress: ProgressFn,
) -> tuple[State, dict[str, Any]]:
    """Weights of the decoder to export, and what about.json says of them.

    Args:
        run: its reference recording is the voice.
        base: the run's.
        gpt: fine-tuned weights.
        decoder: the base's.
        project: its clips teach the decoder.
        settings: the run's.
        config: whether and how long it learns. Where the user did not ask for it, the base's decoder is kept when the
            clips do not serve.
        progress: how far it is.

    Raises:
        UserError: the user asked for a fitted decoder, and the clips do not serve; or a GPU is another job's.
    """
    steps = fit_steps(base, config)
    if not steps:
        return decoder, {}
    device: ComputeDevice = config.device if method_of(base).on_gpu else "cpu"
    is_asked = bool(config.tune_decoder or config.decoder_steps)
    try:
        device = settle_device(device)[0]
        with hold("export", device=device, output=project.output, folder=project.folder):
            fitted = _fitted(run, base, gpt, project, settings, steps, device, progress)
    except UserError as error:
        if is_asked:
            raise
        log.warning("the decoder does not learn the voice: %s", error)
        return decoder, {"decoder": {"steps": 0, "kept": f"the base's own: {error.what}"}}
    # Names may differ where a file is of an older torch: all of the part are replaced, none is kept beside.
    kept = {name: tensor for name, tensor in decoder.items() if not name.startswith(fitted.part)}
    dtype = next(tensor.dtype for name, tensor in decoder.items() if name.startswith(fitted.part))
    return kept | {name: tensor.to(dtype) for name, tensor in fitted.weights.items()}, {"decoder": fitted.facts}


def _fitted(
    run: Path,
    base: Base,
    gpt: State,
    project: Project,
    settings: TrainConfig,
    steps: int,
    device: ComputeDevice,
    progress: ProgressFn,
) -> TunedDecoder:
    fix = "leave the decoder as it is: --tune-decoder False"
    train_csv, eval_csv = settings.train_csv or project.train_csv, settings.eval_csv or project.eval_csv
    if not train_csv.is_file() or not eval_csv.is_file():
        raise UserError(what="the dataset is gone", where=str(train_csv), fix=fix)
    clips, eval_clips = read_manifest(train_csv), read_manifest(eval_csv)
    if len(speakers := {clip.speaker for clip in clips}) > 1:
        # They would all be learned under the one voice that the reference recording has.
        raise UserError(what=f"the clips are of {len(speakers)} speakers", where=str(train_csv), fix=fix)
    # Without a synthesizer, whose caches and prepared weights would take most of a small GPU meanwhile.
    model = build_gpt(base.gpt_shape(), gpt, where=str(run)).eval().requires_grad_(False).to(device)
    limits = ReferenceLimits.of(base.config)
    reference = load_reference(run / REFERENCE_FILE, limits)
    return tune_decoder(
        base,
        model,
        make_voice(model, load_decoder(base).to(device), base.mel_stats(), reference, limits),
        clips,
        eval_clips,
        language=settings.language or project.language(),
        steps=steps,
        folder=project.folder / ".decoder-lessons",
        progress=progress,
    )
