"""A base of any size with random weights, and ragged clips of the bundled voice: what training speed is measured on."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from tokenizers import Tokenizer

from utils.bases.find import find_base
from utils.dataset.storage.manifest import Clip, write_manifest
from utils.model.dvae import lay_out_dvae
from utils.model.gpt import XttsGpt
from utils.model.shapes import gpt_shape
from utils.model.weights import write_weights
from utils.model.xtts import full_state, initialize_gpt
from utils.options import DATASET_RATE
from utils.project.paths import Project, assets_folder
from utils.text.tokenizer import Tokenizer as XttsTokenizer

SIZES = {"full": (30, 1024, 16), "small": (4, 256, 4)}
"""Layers, width and heads: XTTS v2's own, and what a quick check needs."""
TEXT_ROWS = 6_681
"""Rows of XTTS v2's text embedding."""
SHORTEST_S, LONGEST_S = 1.0, 11.6
LETTERS_A_SECOND = 14.0
"""Of the bundled voice, which speaks as fast as people read aloud."""


def make_base(folder: Path, size: str) -> Path:
    """A base with seeded random weights; the sizes that do not belong to the GPT are XTTS v2's own.

    Args:
        folder: to be made.
        size: full (441.0 M parameters) or small.
    """
    from TTS.tts.configs.xtts_config import XttsConfig

    folder.mkdir(parents=True)
    layers, width, heads = SIZES[size]
    config = XttsConfig()
    arguments = config.model_args
    arguments.gpt_layers, arguments.gpt_n_model_channels, arguments.gpt_n_heads = layers, width, heads
    arguments.decoder_input_dim = width
    arguments.gpt_num_audio_tokens, arguments.gpt_start_audio_token = 1026, 1024
    arguments.gpt_stop_audio_token, arguments.gpt_use_perceiver_resampler = 1025, True
    values: dict[str, Any] = config.to_dict()
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    _write_vocabulary(folder / "vocab.json")
    torch.manual_seed(0)
    torch.save(find_base("tiny").mel_stats(), folder / "mel_stats.pth")
    # The DVAE's real width: stock encodes the clips again in each step, and that is part of what its step costs.
    write_weights(folder / "dvae.safetensors", make_dvae().state_dict())
    gpt = XttsGpt(gpt_shape(values, XttsTokenizer(folder / "vocab.json")))
    initialize_gpt(gpt)
    write_weights(folder / "model.safetensors", full_state(gpt.state_dict(), {}, find_base("tiny").mel_stats()))
    (folder / "about.json").write_text(json.dumps({"name": f"random {size}", "kind": "random"}), encoding="utf-8")
    return folder


def make_clips(project: Project, count: int, *, seed: int = 5, seconds: float | None = None) -> float:
    """Write `count` clips with as much text as such clips have.

    Args:
        project: to write them into.
        count: of clips.
        seed: of lengths and places in the bundled voice.
        seconds: length of each clip; lognormal, 1 to 11.6 s, when not given.

    Returns:
        Speech in all clips, in seconds.
    """
    random = np.random.default_rng(seed)
    voice, text = _voice()
    wavs = project.dataset / "wavs"
    wavs.mkdir(parents=True)
    clips, total = [], 0.0
    for number in range(count):
        drawn = float(np.clip(random.lognormal(np.log(4.5), 0.6), SHORTEST_S, LONGEST_S))
        length = drawn if seconds is None else seconds
        samples, letters = int(length * DATASET_RATE), int(length * LETTERS_A_SECOND)
        at, spoken = random.integers(len(voice) - samples), random.integers(len(text) - letters)
        soundfile.write(wavs / f"clip-{number:04d}.wav", voice[at : at + samples], DATASET_RATE)
        words = text[spoken : spoken + letters].strip()
        clips.append(Clip(audio=wavs / f"clip-{number:04d}.wav", text=words, speaker="voice"))
        total += samples / DATASET_RATE
    write_manifest(project.train_csv, clips)
    write_manifest(project.eval_csv, clips[:1])
    project.language_file.write_text("en\n", encoding="utf-8")
    return total


def make_dvae() -> torch.nn.Module:
    """The DVAE of XTTS v2's sizes."""
    dvae: torch.nn.Module = lay_out_dvae(
        channels=80, num_tokens=1024, codebook_dim=512, hidden_dim=512, num_resnet_blocks=3, kernel_size=3
    )
    return dvae


def _voice() -> tuple[np.ndarray, str]:
    """All recordings of the bundled voice in one, and all it says."""
    folder = assets_folder() / "demo_voice"
    sounds = []
    for path in sorted((folder / "wavs").glob("*.flac")):
        sound, rate = soundfile.read(path, dtype="float32")
        assert rate == DATASET_RATE, path
        sounds.append(sound)
    rows = (folder / "metadata.csv").read_text(encoding="utf-8").splitlines()[1:]
    return np.concatenate(sounds), " ".join(row.split("|")[1] for row in rows)


def _write_vocabulary(path: Path) -> None:
    """The tiny base's tokenizer with tokens that no text has, up to XTTS v2's number of rows."""
    values = json.loads(find_base("tiny").vocab.read_text(encoding="utf-8"))
    vocabulary = values["model"]["vocab"]
    first = max(vocabulary.values()) + 1
    for number in range(first, TEXT_ROWS):
        vocabulary[f"\ue000{number}"] = number
    path.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")
    Tokenizer.from_file(str(path))
