"""Fit a decoder's acoustic model to one project's voice at export.

Fine-tuning the GPT changes what is said and how. The timbre is the decoder's, which knows a new voice by its speaker
embedding alone. The trunk predicts pitch and mel only, and a filter makes the sound, so training it takes seconds.

Shapes: M latents of a clip, D latent width, E speaker embedding width.
"""

import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import soundfile
import torch
import torch.nn.functional as F
from TTS.tts.layers.xtts.hifigan_decoder import HifiDecoder

from utils.audio.decode import load_audio
from utils.audio.resample import resample
from utils.bases.base import Base
from utils.bases.loading import load_decoder
from utils.config import CODE_SAMPLES, DATASET_RATE, OUTPUT_RATE
from utils.dataset.storage.manifest import Clip
from utils.decoder_training.balance import balance
from utils.decoder_training.decoder import frames_of, train_decoder
from utils.decoder_training.decoder_clips import DecoderClip, DecoderTraining
from utils.decoder_training.latents import known_latents
from utils.decoder_training.spectral import SpectralLoss
from utils.errors import UserError
from utils.events.progress import ProgressFn
from utils.model.decoder.acoustic import HOP
from utils.model.decoder.harmonic import HarmonicGenerator
from utils.model.dvae import load_code_encoder
from utils.model.gpt import XttsGpt
from utils.model.voices import Voice
from utils.model.weights import State

log = logging.getLogger(__name__)

MAX_CLIPS, MAX_EVAL_CLIPS, MAX_BALANCE_CLIPS = 200, 40, 40
"""A voice is known after some minutes of speech: hours of it would only take longer to put through the GPT."""
SETTINGS = DecoderTraining(trunk_batch_size=32, steps=0, learning_rate=1e-3, warmup_steps=10)
TRUNK = "waveform_decoder.trunk."


@dataclass(frozen=True, kw_only=True)
class TunedDecoder:
    """What came of it."""

    weights: State
    """The trunk's, under their names in the decoder; the base's own when they did not get better."""
    before: float
    """Distance of outlined and true log-mels on clips that nobody trained on, with the base's trunk."""
    after: float
    """With the one that learned."""
    steps: int

    @property
    def is_better(self) -> bool:
        return self.after < self.before

    @property
    def facts(self) -> dict[str, Any]:
        """For about.json."""
        return {
            "steps": self.steps,
            "outline_before": round(self.before, 4),
            "outline_after": round(self.after, 4),
            "kept": "the tuned one" if self.is_better else "the base's own: the tuned one was no better",
        }


def has_trunk(base: Base) -> bool:
    """Whether the base's decoder has a trunk that can be tuned."""
    return base.decoder_shape().trunk_blocks > 0


def tune_trunk(
    base: Base,
    gpt: XttsGpt,
    voice: Voice,
    clips: Sequence[Clip],
    eval_clips: Sequence[Clip],
    *,
    language: str,
    steps: int,
    folder: Path,
    progress: ProgressFn | None = None,
) -> TunedDecoder:
    """Train the base's trunk on with clips of one voice, on the CPU.

    Args:
        base: whose decoder has a trunk, see `has_trunk`.
        gpt: the fine-tuned one, in evaluation mode on the CPU.
        voice: what all clips are said with.
        clips: what to learn from; of many, MAX_CLIPS evenly chosen ones. Unreadable clips are skipped.
        eval_clips: what shows whether it helped.
        language: of the transcripts.
        steps: optimizer steps.
        folder: for what is needed meanwhile; replaced, and removed at the end.
        progress: called with how far it is.

    Raises:
        UserError: none of the clips can be used.
    """
    decoder = cast(HifiDecoder, load_decoder(base))
    decoder.requires_grad_(True)
    progress = progress or (lambda phase, done, total: None)
    shutil.rmtree(folder, ignore_errors=True)  # what a killed export left
    folder.mkdir()
    try:
        learns = _training_examples(base, gpt, voice, _some(clips, MAX_CLIPS), folder / "train", language, progress)
        asked = _training_examples(
            base, gpt, voice, _some(eval_clips, MAX_EVAL_CLIPS), folder / "eval", language, progress
        )
        own, before = _trunk_of(decoder), outline_error(decoder, asked)
        settings = replace(SETTINGS, trunk_steps=steps, log_every=max(1, steps // 10), checkpoint_every=steps)

        def report(step: int, losses: dict[str, float]) -> None:
            progress("tuning the decoder", step, steps)

        train_decoder(decoder, learns, settings=settings, folder=folder, on_log=report)
        # The base's trunk is balanced, too: what is compared is what would be kept.
        balance(decoder, learns[:MAX_BALANCE_CLIPS])
        tuned, after = _trunk_of(decoder), outline_error(decoder, asked)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = TunedDecoder(weights=tuned if after < before else own, before=before, after=after, steps=steps)
    log.info("the decoder's outline was %.4f off and is %.4f: kept is %s", before, after, found.facts["kept"])
    return found


@torch.no_grad()
def outline_error(decoder: HifiDecoder, clips: Sequence[DecoderClip]) -> float:
    """Mean distance of outlined and true log-mels over whole clips."""
    generator, spectral = decoder.waveform_decoder, SpectralLoss(OUTPUT_RATE)
    assert isinstance(generator, HarmonicGenerator)
    errors = []
    for clip in clips:
        frames = frames_of(decoder, torch.from_numpy(np.load(clip.latents))[None])
        predicted = generator.trunk(frames, clip.speaker[None, :, None]).mel
        sound = torch.from_numpy(soundfile.read(clip.wav, dtype="float32")[0])[None, None]
        # A frame's middle is half a frame after its beginning.
        target = spectral.log_mel(F.pad(sound, (0, HOP))[..., HOP // 2 :])
        length = min(target.shape[2], predicted.shape[2], sound.shape[2] // HOP)
        errors.append(F.l1_loss(predicted[..., :length], target[..., :length]).item())
    return float(np.mean(errors))


def _trunk_of(decoder: HifiDecoder) -> State:
    return {name: tensor.clone() for name, tensor in decoder.state_dict().items() if name.startswith(TRUNK)}


def _some(clips: Sequence[Clip], most: int) -> list[Clip]:
    """At most so many, evenly from the whole."""
    return list(clips[:: -(-len(clips) // most) or 1])


def _training_examples(
    base: Base, gpt: XttsGpt, voice: Voice, clips: Sequence[Clip], folder: Path, language: str, progress: ProgressFn
) -> list[DecoderClip]:
    """What the GPT thinks of each clip, beside its sound at 24 000 Hz."""
    folder.mkdir()
    encoder, tokenizer = load_code_encoder(base.dvae, base.mel_stats()), base.tokenizer()
    # One code more than fits is enough to know that a clip is too long.
    seconds = gpt.shape.max_audio_tokens * CODE_SAMPLES / DATASET_RATE
    made = []
    for number, clip in enumerate(clips):
        progress("listening to clips", number + 1, len(clips))
        try:
            tokens = torch.tensor(tokenizer.encode(clip.text, language))
            # A code more than fits is enough to know that it does not.
            wav = load_audio(clip.audio, DATASET_RATE, max_seconds=seconds)
        except UserError as error:
            log.warning("the decoder does not learn from a clip: %s", error)
            continue
        too_long = wav.shape[1] > (gpt.shape.max_audio_tokens - 1) * CODE_SAMPLES
        if too_long or len(tokens) > gpt.shape.max_text_tokens:
            continue  # the run left it out as well
        codes = encoder(wav, [wav.shape[1]])
        (latents,) = known_latents(gpt, voice.latents, [tokens], codes)
        example = DecoderClip(
            latents=folder / f"{number}.npy", wav=folder / f"{number}.wav", speaker=voice.embedding[0, :, 0].clone()
        )
        np.save(example.latents, latents.numpy())
        sound = resample(wav, DATASET_RATE, OUTPUT_RATE)[0].numpy()
        soundfile.write(example.wav, sound, OUTPUT_RATE, subtype="FLOAT")
        made.append(example)
    if not made:
        raise UserError(
            what=f"there is no clip that the decoder could learn the voice from (of {len(clips)})",
            fix="leave the decoder as it is: --decoder-steps 0",
        )
    return made
