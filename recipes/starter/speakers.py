"""Stage E: the speaker encoder, trained on many espeak-ng voices; leaves speaker.safetensors and quality.json.

The demo voice's variant, and the one that shares its formants, are used only in the final measurement.
"""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recipes.starter.corpus import read_wav, speak
from recipes.starter.sentences import SentenceMaker
from recipes.starter.speaker_encoder import (
    SpeakerClip,
    SpeakerShape,
    SpeakerTraining,
    embed_clips,
    identification_accuracy,
    new_speaker_encoder,
    separation,
    train_speaker_encoder,
)
from recipes.starter.voices import DEMO_VOICE, EspeakVoice, everyone
from utils.audio.resample import resample
from utils.model.weights import write_weights
from utils.options import DATASET_RATE, SPEAKER_RATE

SHAPE = SpeakerShape()
SETTINGS = SpeakerTraining(steps=900)
CLIPS_PER_VOICE, HELD_OUT_PER_VOICE = 24, 6


def run(work: Path) -> None:
    """Speak, train, measure on held-out sentences and on the demo voice, save."""
    folder, speakers = work / "speaker", everyone()
    clips = [clip for number, voice in enumerate(speakers) for clip in _clips(voice, number, folder)]
    training = [clip for place, clip in enumerate(clips) if place % CLIPS_PER_VOICE >= HELD_OUT_PER_VOICE]
    held_out = [clip for place, clip in enumerate(clips) if place % CLIPS_PER_VOICE < HELD_OUT_PER_VOICE]
    torch.manual_seed(SETTINGS.seed)
    encoder, started = new_speaker_encoder(SHAPE), time.time()
    train_speaker_encoder(encoder, training, settings=SETTINGS, folder=folder)
    seconds = round(time.time() - started) or _former_seconds(folder)
    quality: dict[str, Any] = {"speakers": len(speakers), "seconds": seconds}
    quality["parameters"] = sum(parameter.numel() for parameter in encoder.parameters())
    known, asked = embed_clips(encoder, training), embed_clips(encoder, held_out)
    quality["heldout_accuracy"] = identification_accuracy(known, _numbers(training), asked, _numbers(held_out))
    demo = embed_clips(encoder, _clips(DEMO_VOICE, 0, folder))
    same, different, rate = separation(demo, asked)
    quality["demo_voice"] = {"cosine_same": same, "cosine_different": different, "equal_error_rate": rate}
    nearest = (demo.mean(0) @ asked.T).view(len(speakers), -1).mean(1)
    quality["demo_nearest"] = {
        speakers[i].name: round(float(nearest[i]), 3) for i in nearest.argsort(descending=True)[:5]
    }
    write_weights(folder / "speaker.safetensors", encoder.state_dict())
    (folder / "quality.json").write_text(json.dumps(quality, indent=2), encoding="utf-8")
    print(f"speaker: {quality}")


def _former_seconds(folder: Path) -> int:
    """How long training took when it was done; a stage that is run again finds nothing left to train."""
    path = folder / "quality.json"
    return int(json.loads(path.read_text(encoding="utf-8"))["seconds"]) if path.is_file() else 0


def _clips(voice: EspeakVoice, number: int, folder: Path) -> list[SpeakerClip]:
    """Recordings of one voice at 16 kHz, each of its own sentences; kept in one file a voice."""
    path = folder / "clips" / f"{voice.name}.npz"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = list(islice(SentenceMaker(seed=90_000 + number), CLIPS_PER_VOICE))
        wavs = [folder / "clips" / f"{voice.name}_{place}.wav" for place in range(CLIPS_PER_VOICE)]
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda text, wav: speak(text, voice, wav), texts, wavs))
        audio = [resample(read_wav(wav), DATASET_RATE, SPEAKER_RATE)[0] for wav in wavs]
        unfinished = path.with_suffix(".part.npz")
        np.savez(unfinished, *[(wav.clamp(-1, 1) * 32767).numpy().astype(np.int16) for wav in audio])
        unfinished.replace(path)
        for wav in wavs:
            wav.unlink()
    with np.load(path) as saved:
        return [SpeakerClip(samples=saved[name], speaker=number) for name in saved.files]


def _numbers(clips: list[SpeakerClip]) -> torch.Tensor:
    return torch.tensor([clip.speaker for clip in clips])
