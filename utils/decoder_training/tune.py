"""Fit a base's decoder to one project's voice at export.

Fine-tuning the GPT changes what is said and how. The timbre is the decoder's, which knows a new voice by its speaker
embedding alone. A decoder with an acoustic trunk (the starter's) learns with that alone: it predicts pitch and mel, a
filter makes the sound, and a minute suffices. Stock's HiFi-GAN learns as a whole, against spectra and the
discriminators that such decoders are made with.

Either way held-out clips decide whether the fitted decoder is kept.

Shapes: M latents of a clip, D latent width, E speaker embedding width.
"""

import hashlib
import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import soundfile
import torch
import torch.nn.functional as F
from TTS.tts.layers.xtts.hifigan_decoder import HifiDecoder

from utils.audio.decode import load_audio
from utils.audio.resample import resample
from utils.bases.base import Base
from utils.bases.decoder import load_decoder
from utils.callbacks import ProgressFn
from utils.dataset.storage.manifest import Clip
from utils.decoder_training.decoder import balance, decode, train_decoder
from utils.decoder_training.decoder_clips import DecoderClip, DecoderTraining, known_latents
from utils.decoder_training.spectral import HifiganCritic, SpectralLoss
from utils.errors import UserError
from utils.files import write_atomic
from utils.model.dvae import load_code_encoder
from utils.model.gpt import XttsGpt
from utils.model.voices import Voice
from utils.model.weights import State
from utils.options import CODE_SAMPLES, DATASET_RATE, OUTPUT_RATE, SPEAKER_RATE

log = logging.getLogger(__name__)

MAX_CLIPS, MAX_EVAL_CLIPS, MAX_BALANCE_CLIPS = 200, 40, 40
"""A voice is known after some minutes of speech: hours of it would only take longer to put through the GPT."""
LEAST_SIMILARITY_LOST = 0.05
"""A decoder whose voice is less like the recordings by more than this is not kept, however near its spectra are.

The base's own encoder is unsure of real people: with LJSpeech it lost 0.02 on two held-out clips where the mel distance
fell from 1.30 to 0.97 and the similarity in an independent encoder (Resemblyzer's) rose from 0.63 to 0.76."""
TRIAL_STEPS, TRIAL_GAIN = 10, 0.05
"""A trunk whose first steps lower the mel distance by less than this share learns no further.

They lowered it by 11, 15 and 20 % with three new voices; by 3 and -7 % where the decoder had been fitted to the same
clips before, and there all 150 steps by 2 %."""
FITTED_SHARE = 0.7
"""A trunk's weights are so far on the way from the base's to the fitted ones.

Fitted to a few minutes, a trunk forgets sounds that they lack. Of the words of 50 sentences in the bundled voice 9.7 %
were misread with the base's trunk, 11.4 % at 0.5, 11.8 % at 0.7, 18.3 % with the fitted one; the similarity in an
independent encoder was 0.66, 0.74, 0.77, 0.79. With LJSpeech: 10.3 % at 0.5, 12.2 % at 0.7; similarity 0.76, 0.78.
Source: Wortsman et al. 2022, Robust fine-tuning of zero-shot models (WiSE-FT)."""
KEY_FILE = "fit.json"


class Method(NamedTuple):
    """How decoders of one kind learn a voice."""

    part: str
    """Names of the weights that learn begin with it."""
    settings: DecoderTraining
    on_gpu: bool
    """Whether a GPU is worth its transfer."""


TRUNK = Method(
    part="waveform_decoder.trunk.",
    settings=DecoderTraining(trunk_batch_size=32, steps=0, learning_rate=1e-3, warmup_steps=10),
    on_gpu=False,
)
HIFIGAN = Method(
    part="waveform_decoder.",
    settings=DecoderTraining(
        batch_size=16,
        crop_latents=16,
        margin_latents=4,
        learning_rate=1e-4,
        warmup_steps=50,
        adversarial_weight=0.18,
        feature_weight=2.4,
        checkpoint_every=100,
    ),
    on_gpu=True,
)
"""Weights are the paper's: 45 for the mel, 1 for the verdict and 2 for features, summed over 8 discriminators and their
layers; here means are taken and the mel's weight is 1 (Kong et al. 2020, HiFi-GAN, equation 6)."""
HIFIGAN_STEPS = 1000
"""Where neither the user nor the base says how many."""


Fidelity = dict[str, float]
"""How close a decoder comes to held-out clips, given their true codes: `mel_distance`, the mean absolute difference of
log-mels of speech and recording; `similarity`, the mean cosine between their speaker embeddings."""


@dataclass(frozen=True, kw_only=True)
class TunedDecoder:
    """What came of it."""

    part: str
    """Names of `weights` begin with it; they replace all that do in the base's decoder."""
    weights: State
    """The base's own when the fitted ones are no better."""
    before: Fidelity
    after: Fidelity
    steps: int
    ended_early: bool = False
    """The first steps helped so little that the others were not taken."""

    @property
    def is_better(self) -> bool:
        is_nearer = not self.ended_early and self.after["mel_distance"] < self.before["mel_distance"]
        return is_nearer and self.after["similarity"] >= self.before["similarity"] - LEAST_SIMILARITY_LOST

    @property
    def facts(self) -> dict[str, Any]:
        """For about.json."""
        too_little = f"after {self.steps} steps the fitted one was less than {TRIAL_GAIN:.0%} nearer to the recordings"
        why = too_little if self.ended_early else "the fitted one was no better"
        times = {"before": self.before, "after": self.after}
        return {
            "steps": self.steps,
            **{f"{name}_{when}": round(found[name], 4) for name in self.before for when, found in times.items()},
            "kept": "the fitted one" if self.is_better else f"the base's own: {why}",
        }


def method_of(base: Base) -> Method:
    """How the base's decoder learns."""
    return TRUNK if base.decoder_shape().trunk_blocks else HIFIGAN


def tune_decoder(
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
    """Train the base's decoder on with clips of one voice, on the GPT's device.

    What was done before a stop or a kill is taken up again when everything is as it was; a stop by a signal leaves
    as `train_decoder` does.

    Args:
        base: whose decoder.
        gpt: the fine-tuned one, in evaluation mode; moved to the CPU once the clips' latents are known.
        voice: what all clips are said with.
        clips: what to learn from; of many, MAX_CLIPS evenly chosen ones. Unreadable clips are skipped.
        eval_clips: what shows whether it helped.
        language: of the transcripts.
        steps: optimizer steps.
        folder: for what is needed meanwhile; removed at the end.
        progress: called with how far it is.

    Raises:
        UserError: none of the clips can be used.
    """
    method, device = method_of(base), gpt.final_norm.weight.device
    settings = _settings(method, steps, device)
    progress = progress or (lambda phase, done, total: None)
    clips, eval_clips = _some(clips, MAX_CLIPS), _some(eval_clips, MAX_EVAL_CLIPS)
    _take_up(folder, _key(gpt, voice, clips, eval_clips, settings, language))
    decoder = cast(HifiDecoder, load_decoder(base)).to(device)
    decoder.requires_grad_(True)
    try:
        learns = _training_examples(base, gpt, voice, clips, folder / "train", language, progress)
        asked = _training_examples(base, gpt, voice, eval_clips, folder / "eval", language, progress)
        # The GPT has said all it knows: on a GPU its memory is the decoder's from here on.
        gpt.cpu()
        own, before = _weights(decoder, method), clip_fidelity(decoder, asked)
        train = partial(
            train_decoder,
            decoder,
            learns,
            settings=settings,
            folder=folder,
            critic=None if method is TRUNK else HifiganCritic,
            on_log=lambda step, losses: progress("fitting the decoder", step, steps),
        )
        ended_early = False
        # A decoder of stock's kind still warms up then, and learns only where the user asks for it.
        if method is TRUNK and steps > TRIAL_STEPS:
            train(last=TRIAL_STEPS)
            after = clip_fidelity(decoder, asked)
            ended_early = after["mel_distance"] > (1 - TRIAL_GAIN) * before["mel_distance"]
        if not ended_early:
            train()
            if method is TRUNK:
                _blend(decoder, own)
                balance(decoder, learns[:MAX_BALANCE_CLIPS])
            after = clip_fidelity(decoder, asked)
        tuned = TunedDecoder(
            part=method.part,
            weights=_weights(decoder, method),
            before=before,
            after=after,
            steps=TRIAL_STEPS if ended_early else steps,
            ended_early=ended_early,
        )
    except UserError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    log.info("similarity %(similarity_before).2f before the fit, %(similarity_after).2f after: %(kept)s", tuned.facts)
    return tuned if tuned.is_better else replace(tuned, weights=own)


@torch.no_grad()
def _blend(decoder: HifiDecoder, own: State) -> None:
    """Take the weights that learned back to `FITTED_SHARE` of the way from the base's."""
    for name, tensor in decoder.state_dict().items():
        if name in own and tensor.is_floating_point():
            tensor.copy_(own[name].to(tensor).lerp(tensor, FITTED_SHARE))


@torch.no_grad()
def clip_fidelity(decoder: HifiDecoder, clips: Sequence[DecoderClip]) -> Fidelity:
    """Compare whole clips with what the decoder makes of their latents."""
    spectral = SpectralLoss(OUTPUT_RATE).to(decoder.device)
    distances, cosines = [], []
    decoder.eval()
    for clip in clips:
        latents = torch.from_numpy(np.load(clip.latents).astype(np.float32)).to(decoder.device)[None]
        # A harmonic source has noise: the same for all who are compared.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            made = decode(decoder, latents, clip.speaker.to(decoder.device)[None, :, None])
        real = torch.from_numpy(soundfile.read(clip.wav, dtype="float32")[0]).to(decoder.device)[None, None]
        length = min(made.shape[2], real.shape[2])
        sounds = [sound[..., :length] for sound in (made, real)]
        ours, theirs = (spectral.log_mel(sound) for sound in sounds)
        distances.append(F.l1_loss(ours, theirs).item())
        voices = [
            decoder.speaker_encoder(resample(sound[:, 0].cpu(), OUTPUT_RATE, SPEAKER_RATE).to(sound), l2_norm=True)[0]
            for sound in sounds
        ]
        cosines.append(float(voices[0] @ voices[1]))
    return {"mel_distance": float(np.mean(distances)), "similarity": float(np.mean(cosines))}


def _settings(method: Method, steps: int, device: torch.device) -> DecoderTraining:
    log_every = max(1, min(20, steps // 10))
    if method is TRUNK:
        return replace(method.settings, trunk_steps=steps, log_every=log_every, checkpoint_every=max(1, steps))
    return replace(
        method.settings,
        steps=steps,
        log_every=log_every,
        # Until then the discriminators learn alone: what they say at random would spoil a decoder that can speak.
        adversarial_from=steps // 4,
        bf16=device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False),
    )


def _weights(decoder: HifiDecoder, method: Method) -> State:
    return {name: tensor.cpu().clone() for name, tensor in decoder.state_dict().items() if name.startswith(method.part)}


def _some(clips: Sequence[Clip], most: int) -> list[Clip]:
    """At most this many, evenly from the whole."""
    return list(clips[:: -(-len(clips) // most) or 1])


def _key(
    gpt: XttsGpt,
    voice: Voice,
    clips: Sequence[Clip],
    eval_clips: Sequence[Clip],
    settings: DecoderTraining,
    language: str,
) -> str:
    """All that the result depends on, as text."""
    digest = hashlib.sha256()
    for tensor in (voice.latents, voice.embedding, *gpt.state_dict().values()):
        # A sample of each tensor distinguishes two trainings; all of a large GPT need not be read for that.
        digest.update(tensor.flatten()[:64].float().cpu().numpy().tobytes())
    files = [(str(clip.audio), clip.audio.stat().st_mtime if clip.audio.is_file() else 0.0) for clip in clips]
    texts = [clip.text for clip in (*clips, *eval_clips)]
    values = {"gpt": digest.hexdigest(), "files": files, "texts": texts, "language": language}
    return json.dumps(values | {"settings": asdict(settings)})


def _take_up(folder: Path, key: str) -> None:
    """Empty the folder, unless it is of the same fit."""
    if (folder / KEY_FILE).is_file() and (folder / KEY_FILE).read_text(encoding="utf-8") == key:
        log.info("taking up the fit of the decoder that was stopped")
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    write_atomic(folder / KEY_FILE, key)


def _training_examples(
    base: Base, gpt: XttsGpt, voice: Voice, clips: Sequence[Clip], folder: Path, language: str, progress: ProgressFn
) -> list[DecoderClip]:
    """What the GPT thinks of each clip, beside its sound at 24 000 Hz; what is there already is taken."""
    folder.mkdir(exist_ok=True)
    device = gpt.final_norm.weight.device
    encoder, tokenizer = load_code_encoder(base.dvae, base.mel_stats()), base.tokenizer()
    # One code more than fits is enough to know that a clip is too long.
    seconds = gpt.shape.max_audio_tokens * CODE_SAMPLES / DATASET_RATE
    made = []
    for number, clip in enumerate(clips):
        progress("listening to clips", number + 1, len(clips))
        example = DecoderClip(
            latents=folder / f"{number}.npy",
            wav=folder / f"{number}.wav",
            speaker=voice.embedding[0, :, 0].cpu().clone(),
        )
        if example.wav.is_file():
            made.append(example)
            continue
        try:
            tokens = torch.tensor(tokenizer.encode(clip.text, language))
            wav = load_audio(clip.audio, DATASET_RATE, max_seconds=seconds)
        except UserError as error:
            log.warning("the decoder does not learn from a clip: %s", error)
            continue
        too_long = wav.shape[1] > (gpt.shape.max_audio_tokens - 1) * CODE_SAMPLES
        if too_long or len(tokens) > gpt.shape.max_text_tokens:
            continue  # the run left it out as well
        codes = encoder(wav, [wav.shape[1]])
        (latents,) = known_latents(gpt, voice.latents.to(device), [tokens], codes)
        np.save(example.latents, latents.cpu().numpy())
        sound = resample(wav, DATASET_RATE, OUTPUT_RATE)[0].numpy()
        unfinished = example.wav.with_suffix(".part")
        soundfile.write(unfinished, sound, OUTPUT_RATE, subtype="FLOAT", format="WAV")
        unfinished.replace(example.wav)
        made.append(example)
    if not made:
        raise UserError(
            what=f"there is no clip that the decoder could learn the voice from (of {len(clips)})",
            fix="leave the decoder as it is: --tune-decoder False",
        )
    return made
