"""Stage F: the trained GPT's hidden states for known speech: the decoder's training examples, below `work/latents`.

Each clip is put through the GPT with its true codes (teacher forcing). Beside the GPT's own twelve voices all those of
the speaker encoder take part, and synthetic ones: the GPT need not be trained on a voice to follow its codes, and
a decoder that knows many voices does better on a new one. The demo voice is not among them.

The GPT may still be in training: its examples are kept in a folder named after the checkpoint that made them, and those
of an older checkpoint go once the newer ones are complete.
"""

import json
import shutil
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import soundfile
import torch
from torch import Tensor

from recipes.starter.corpus import MAX_CLIP_SAMPLES, read_wav, speak
from recipes.starter.sentences import SentenceMaker
from recipes.starter.speaker_encoder import new_speaker_encoder
from recipes.starter.speakers import SHAPE as SPEAKER_SHAPE
from recipes.starter.synthetic_speakers import NUM_SYNTHETIC_SPEAKERS, make_synthetic_speakers
from recipes.starter.voices import GPT_VOICES, EspeakVoice, everyone
from utils.audio.resample import resample
from utils.bases.base import Base
from utils.decoder_training.decoder_clips import DecoderClip
from utils.decoder_training.latents import known_latents
from utils.errors import UserError
from utils.model.dvae import CodeEncoder, load_code_encoder
from utils.model.gpt import XttsGpt
from utils.model.mel import conditioning_mel
from utils.model.weights import read_weights
from utils.model.xtts import build_gpt
from utils.options import CODE_SAMPLES, DATASET_RATE, OUTPUT_RATE, SPEAKER_RATE
from utils.runs.checkpoints import Checkpoints, load_checkpoint
from utils.text.tokenizer import Tokenizer

GPT_VOICE_CLIPS, OTHER_VOICE_CLIPS, SYNTHETIC_VOICE_CLIPS = 60, 16, 12
CLIPS_PER_REFERENCE = 4
"""Clips that share a reference: two seconds of each condition the GPT and the speaker encoder."""
REFERENCE_SECONDS = 2


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """Everything that turns a recording into a training example of the decoder."""

    gpt: XttsGpt
    tokenizer: Tokenizer
    codes: CodeEncoder
    speaker: torch.nn.Module
    mel: torch.nn.Module


def run(work: Path) -> None:
    """Make the training examples of every voice that has none yet; clips.json is written last."""
    teacher, folder = load_teacher(work), work / "latents" / best_checkpoint(work).name
    speakers = [*everyone(), *make_synthetic_speakers(work / "throats", count=NUM_SYNTHETIC_SPEAKERS)]
    for number, voice in enumerate(speakers):
        others = SYNTHETIC_VOICE_CLIPS if voice.data else OTHER_VOICE_CLIPS
        count = GPT_VOICE_CLIPS if voice in GPT_VOICES else others
        place = folder / voice.name
        if not (place / "speakers.npy").is_file():
            texts = list(islice(SentenceMaker(seed=50_000 + number), count))
            make_training_examples(teacher, voice, texts, place)
            print(f"latents: {voice.name}, {number + 1} of {len(speakers)} voices", flush=True)
    clips = [str(path.relative_to(folder)) for path in sorted(folder.glob("*/*.npy")) if path.stem != "speakers"]
    (folder / "clips.json").write_text(json.dumps(clips), encoding="utf-8")
    for former in (work / "latents").iterdir():
        if former != folder:
            shutil.rmtree(former)
    print(f"latents: {len(clips)} clips by {folder.name}")


def examples_folder(work: Path) -> Path:
    """The folder of the newest complete training examples.

    Raises:
        UserError: there are none.
    """
    found = sorted((work / "latents").glob("*/clips.json"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise UserError(what="there are no latents yet", where=str(work / "latents"), fix="run the latents stage")
    return found[-1].parent


def load_training_examples(work: Path) -> list[DecoderClip]:
    """The clips that `run` has made."""
    folder = examples_folder(work)
    voices = {path.parent.name: torch.from_numpy(np.load(path)) for path in folder.glob("*/speakers.npy")}
    names = [folder / name for name in json.loads((folder / "clips.json").read_text(encoding="utf-8"))]
    return [
        DecoderClip(latents=path, wav=path.with_suffix(".wav"), speaker=voices[path.parent.name][int(path.stem)])
        for path in names
    ]


def load_teacher(work: Path) -> Teacher:
    """The newest run's GPT, the DVAE and the speaker encoder.

    Raises:
        UserError: the GPT has no checkpoint yet.
    """
    base, best = Base(work / "seed_base"), best_checkpoint(work)
    speaker = new_speaker_encoder(SPEAKER_SHAPE)
    speaker.load_state_dict(read_weights(work / "speaker" / "speaker.safetensors"))
    return Teacher(
        gpt=build_gpt(base.gpt_shape(), load_checkpoint(best), where=str(best)).eval(),
        tokenizer=base.tokenizer(),
        codes=load_code_encoder(base.dvae, base.mel_stats()),
        speaker=speaker.eval(),
        mel=conditioning_mel(base.mel_stats()),
    )


def best_checkpoint(work: Path) -> Path:
    """The best checkpoint of the newest GPT run, before its first evaluation the last; the run need not have ended.

    Raises:
        UserError: there is none yet.
    """
    found = [
        Checkpoints(path).best() or Checkpoints(path).last()
        for path in sorted((work / "gpt" / "runs").glob("*/checkpoints"))
    ]
    best = next((path for path in reversed(found) if path), None)
    if best is None:
        raise UserError(what="the GPT has no checkpoint yet", where=str(work / "gpt"), fix="run the gpt stage")
    return best


@torch.inference_mode()
def make_training_examples(teacher: Teacher, voice: EspeakVoice, texts: list[str], folder: Path) -> None:
    """Write <n>.npy (latents), <n>.wav (24 kHz) and, when all are there, speakers.npy ([clips, E]) of one voice."""
    folder.mkdir(parents=True, exist_ok=True)
    embeddings = torch.zeros(len(texts), SPEAKER_SHAPE.width)
    for first in range(0, len(texts), CLIPS_PER_REFERENCE):
        numbers = range(first, min(first + CLIPS_PER_REFERENCE, len(texts)))
        wavs = [_spoken(texts[number], voice, folder / "raw.wav") for number in numbers]
        latents, embedding = _reference(teacher, wavs)
        states = _hidden_states(teacher, latents, [texts[number] for number in numbers], wavs)
        for number, wav, state in zip(numbers, wavs, states, strict=True):
            np.save(folder / f"{number}.npy", state.half().numpy())
            soundfile.write(folder / f"{number}.wav", resample(wav, DATASET_RATE, OUTPUT_RATE)[0].numpy(), OUTPUT_RATE)
            embeddings[number] = embedding
    np.save(folder / "speakers.npy", embeddings.numpy())


def _spoken(text: str, voice: EspeakVoice, path: Path) -> Tensor:
    """The voice saying `text`, [1, N] at 22 050 Hz."""
    path.unlink(missing_ok=True)
    speak(text, voice, path)
    wav = read_wav(path)[:, :MAX_CLIP_SAMPLES]
    path.unlink()
    return wav


def _reference(teacher: Teacher, wavs: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Conditioning latents [1, 32, D] and speaker embedding [E] of some clips, as `utils.model.voices` does."""
    speech = torch.cat(wavs, dim=1)
    parts = speech.split(REFERENCE_SECONDS * DATASET_RATE, dim=1)
    whole = [part for part in parts if part.shape[1] == REFERENCE_SECONDS * DATASET_RATE] or [speech]
    latents = torch.stack([teacher.gpt.latents(teacher.mel(part)) for part in whole]).mean(0)
    audio = resample(speech, DATASET_RATE, SPEAKER_RATE)
    return latents, teacher.speaker(audio, l2_norm=True)[0]


def _hidden_states(teacher: Teacher, latents: Tensor, texts: list[str], wavs: list[Tensor]) -> list[Tensor]:
    """States that say the codes of each clip, and the stop after them: [M + 1, D], as decoding hands them on."""
    lengths = [wav.shape[1] for wav in wavs]
    padded = torch.zeros(len(wavs), max(lengths))
    for row, wav in enumerate(wavs):
        padded[row, : wav.shape[1]] = wav[0]
    codes = teacher.codes(padded, lengths)
    assert all(len(clip) == -(-length // CODE_SAMPLES) for clip, length in zip(codes, lengths, strict=True))
    tokens = [torch.tensor(teacher.tokenizer.encode(text, "en")) for text in texts]
    return known_latents(teacher.gpt, latents, tokens, codes)
