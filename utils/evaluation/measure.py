"""Speak sentences and measure each of them.

Shapes: N samples at 16 000 Hz, E speaker embedding width.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from utils.audio.resample import resample
from utils.audio.write import write_wav
from utils.evaluation.defects import MAX_EXTRA_S, end_of_sound, find_defects
from utils.evaluation.features import RATE, mel_cepstra, mfccs, trimmed
from utils.evaluation.likeness import difference, sound_of
from utils.evaluation.recognition import Recognizer
from utils.evaluation.scores import DEFECTS, ModelScores, Score
from utils.evaluation.warping import distances, rank
from utils.inference.batch import Piece
from utils.inference.engine import Synthesizer
from utils.model.voices import Voice
from utils.options import OUTPUT_RATE, SpeechSettings

SLOWEST, FASTEST = 0.5, 2.0
"""Bounds of a voice's pace over the reference's: beyond them the speech is at fault, not slow."""


@dataclass(frozen=True, kw_only=True)
class SpokenSentence:
    """What is to be said, and recordings of it said right and nearly right."""

    text: str
    reference: Tensor
    """The sentence said right, [1, N]."""
    rendition: Tensor | None = None
    """The sentence as the reference synthesizer says it, [1, N]."""
    near_misses: Sequence[Tensor] = field(default=())
    """Variants with some words swapped, by the reference synthesizer, [1, N] each."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """A sentence as a model spoke it."""

    wav: Tensor
    """[1, n] at 24 000 Hz."""
    finished: bool
    """Whether the model ended by itself."""


Embed = Callable[[Tensor], Tensor]
"""Speech [1, N] to a speaker embedding of length 1, [E]; one and the same for all models, or they do not compare."""


def score_model(
    name: str,
    speech: Iterable[Said],
    sentences: Sequence[SpokenSentence],
    *,
    voice: Tensor,
    folder: Path,
    embed: Embed | None = None,
    second_embed: Embed | None = None,
    recognizer: Recognizer | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ModelScores:
    """Scores of one model; its wavs go to `folder`.

    Args:
        name: of the model.
        speech: the sentences in their order, as it speaks them.
        sentences: what it says.
        voice: recording [1, N] of the voice that it should sound like.
        folder: of the evaluation; the wavs go to a folder below, named after the model.
        embed: speaker encoder.
        second_embed: a speaker encoder that had no part in training.
        recognizer: of the sentences' language.
        progress: called with (sentences done, in all).

    Raises:
        UserError: the model cannot read a sentence.
    """
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    said: list[tuple[Said, float]] = []
    started = time.perf_counter()
    for number, one in enumerate(speech):
        said.append((one, time.perf_counter() - started))
        write_wav(place / f"{number:03}.wav", one.wav, OUTPUT_RATE)
        if progress is not None:
            progress(number + 1, len(sentences))
        started = time.perf_counter()
    wavs = [resample(one.wav, OUTPUT_RATE, RATE) for one, _ in said]
    pace = usual_pace(wavs, [one.reference for one in sentences])
    references = [mfccs(trimmed(one.reference)) for one in sentences]
    own_sound = sound_of(voice)
    own_voice, own_second = (encode and encode(voice) for encode in (embed, second_embed))
    scores = []
    for number, ((spoken, took), wav, sentence) in enumerate(zip(said, wavs, sentences, strict=True)):
        inner = trimmed(wav)
        cepstra, wanted = mfccs(inner), references[number]
        near = [mfccs(trimmed(one)) for one in sentence.near_misses]
        words = recognizer.recognize(wav, sentence.text) if recognizer else None
        defects = find_defects(wav, sentence.reference, finished=spoken.finished, pace=pace)
        if recognizer and words and words.has_end and {"run_on", "early_stop"}.intersection(defects):
            # By its sound alone, every seventh ending of people's own recordings differs too much from espeak-ng's.
            end = recognizer.end_of(wav)
            talks_on = "run_on" in defects if end is None else end_of_sound(wav) - end > MAX_EXTRA_S
            kept = {"run_on"} if talks_on or not spoken.finished else set()
            defects = [name for name in DEFECTS if name in kept | {*defects} - {"run_on", "early_stop"}]
        rendition = sentence.rendition
        scores.append(
            Score(
                text=sentence.text,
                wav=f"{name}/{number:03}.wav",
                audio_s=wav.shape[1] / RATE,
                took_s=took,
                wer=words.wer if words else None,
                cer=words.cer if words else None,
                num_words=words.num_words if words else 0,
                num_characters=words.num_characters if words else 0,
                heard=words.text if words else None,
                retrieval_rank=rank(cepstra, wanted, references[:number] + references[number + 1 :]),
                near_miss_rank=rank(cepstra, mfccs(trimmed(rendition)), near)
                if near and rendition is not None
                else None,
                mcd_db=distortion(inner, trimmed(sentence.reference)),
                cosine=_cosine(embed, inner, own_voice),
                second_cosine=_cosine(second_embed, inner, own_second),
                **difference(sound_of(wav), own_sound),
                duration_ratio=_seconds(wav) / _seconds(sentence.reference),
                defects=defects,
            )
        )
    return ModelScores(name=name, scores=scores)


def speak_texts(
    synthesizer: Synthesizer,
    texts: Sequence[list[Piece]],
    *,
    voice: Voice,
    settings: SpeechSettings,
    guard: bool = False,
) -> Iterator[Said]:
    """Texts, each in pieces, as a model speaks them side by side; the seeds of each are as if it were spoken alone."""
    how: dict[str, Any] = {"voice": voice, "settings": settings, "guard": guard}
    for own in synthesizer.batch.speak_texts([synthesizer.utterances(pieces, **how) for pieces in texts]):
        yield Said(wav=torch.cat([piece.wav for piece in own], dim=1), finished=all(piece.finished for piece in own))


def embedder(synthesizer: Synthesizer) -> Embed:
    """The speaker encoder of a model: speech [1, N] at 16 000 Hz to a unit vector [E]."""

    # Not the whole model, which is freed where another one is loaded.
    encoder: Any = synthesizer.decoder.speaker_encoder

    @torch.inference_mode()
    def embed(wav: Tensor) -> Tensor:
        found: Tensor = encoder(wav.to(next(encoder.parameters()).device), l2_norm=True)
        return found[0].cpu()

    return embed


def usual_pace(wavs: Sequence[Tensor], references: Sequence[Tensor]) -> float:
    """Usual length of a voice's sentences over that of the references, [1, N] each."""
    ratios = [_seconds(wav) / _seconds(reference) for wav, reference in zip(wavs, references, strict=True)]
    return float(np.clip(np.median(ratios), SLOWEST, FASTEST))


def _cosine(embed: Embed | None, wav: Tensor, known: Tensor | None) -> float | None:
    """Between speech and voice; None without an encoder, and for silence, which has no voice."""
    if embed is None or known is None or wav.shape[1] < 0.3 * RATE:
        return None
    return float(F.cosine_similarity(embed(wav), known, dim=0))


def distortion(said: Tensor, reference: Tensor) -> float:
    """Mel-cepstral distortion along the best path in dB; infinite for silence.

    Source: Kubichek 1993: 10 / ln 10 * sqrt(2 * sum of squared differences of coefficients 1 to 24).
    """
    (distance,) = distances(mel_cepstra(said), [mel_cepstra(reference)])
    return float(10 / np.log(10) * np.sqrt(2) * distance)


def _seconds(wav: Tensor) -> float:
    """Length without silence at both ends."""
    return trimmed(wav).shape[1] / RATE
