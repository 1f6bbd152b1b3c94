"""Create the `tiny` base: every module of XTTS v2 at small size with seeded random weights, for tests and trials.

It is created on demand in seconds and exports to a model that stock coqui-tts loads. It speaks noise: for a voice, use
the starter base or XTTS v2.
"""

import json
import math
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from torch import Tensor

from utils.bases.catalog import TINY_VERSION
from utils.files import new_folder
from utils.model.decoder.build import build_decoder
from utils.model.dvae import build_dvae
from utils.model.gpt import XttsGpt
from utils.model.mel import conditioning_mel, dvae_mel
from utils.model.shapes import decoder_shape, gpt_shape
from utils.model.weights import write_weights
from utils.model.xtts import full_state, initialize_gpt
from utils.options import DATASET_RATE
from utils.text.languages import CLEANED_LANGUAGES
from utils.text.tokenizer import Tokenizer as XttsTokenizer

SEED = 20_240
WIDTH, LAYERS, HEADS = 128, 4, 4
NUM_CODES = 1_024
ABOUT: dict[str, Any] = {
    "name": "tiny",
    "kind": "tiny",
    "version": TINY_VERSION,
    "license": "Apache-2.0",
    "description": "random seeded weights at small size: trains in seconds, speaks noise",
    # Crops of 0.5 to 1 s instead of 3 to 6: the conditioning encoder's attention would take most of a step otherwise.
    "training": {"learning_rate": 3e-3, "num_epochs": 6, "dropout": 0.0, "crop": [11_025, 22_050]},
}


def make_tiny(folder: Path) -> Path:
    """Write the tiny base to `folder`; a folder appears whole or not at all.

    Args:
        folder: must not exist, or be empty.

    Returns:
        The folder.
    """
    with new_folder(folder) as aside, torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(SEED)
        _make_vocabulary().save(str(aside / "vocab.json"))
        config = _make_config()
        (aside / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
        signal = babble(seconds=50)
        # The mean absolute log-mel of each channel, [80].
        mel_stats = dvae_mel(torch.ones(80))(signal).abs().mean(dim=(0, 2)).clamp(min=1.0)
        torch.save(mel_stats, aside / "mel_stats.pth")
        write_weights(aside / "dvae.safetensors", _make_dvae(signal, mel_stats))
        gpt = XttsGpt(gpt_shape(config, XttsTokenizer(aside / "vocab.json")))
        initialize_gpt(gpt)
        decoder = build_decoder(decoder_shape(config)).eval()
        write_weights(aside / "model.safetensors", full_state(gpt.state_dict(), decoder.state_dict(), mel_stats))
        torch.save(_speakers(gpt, decoder, signal, mel_stats), aside / "speakers_xtts.pth")
        (aside / "about.json").write_text(json.dumps(ABOUT, indent=2), encoding="utf-8")
    return folder


def _make_config() -> dict[str, Any]:
    """Stock's own settings at small sizes."""
    from TTS.tts.configs.xtts_config import XttsConfig

    config = XttsConfig()
    arguments = config.model_args
    arguments.gpt_layers, arguments.gpt_n_model_channels, arguments.gpt_n_heads = LAYERS, WIDTH, HEADS
    arguments.decoder_input_dim = WIDTH
    arguments.gpt_num_audio_tokens = NUM_CODES + 2
    arguments.gpt_start_audio_token, arguments.gpt_stop_audio_token = NUM_CODES, NUM_CODES + 1
    arguments.gpt_use_perceiver_resampler = True
    return config.to_dict()


def _make_vocabulary() -> Tokenizer:
    """Characters of the languages' alphabets and some English merges, in the format of the published vocabulary."""
    languages = [f"[{'zh-cn' if code == 'zh' else code}]" for code in CLEANED_LANGUAGES]
    special = ["[STOP]", "[UNK]", "[SPACE]", *languages, "[START]"]
    letters = [*"!'(),-./:;?…«»“”‘’–—¡¿、。，！？：；।؟،", *"abcdefghijklmnopqrstuvwxyz0123456789"]
    letters += [chr(code) for block in _ALPHABETS for code in range(*block) if chr(code) == chr(code).lower()]
    pairs = ["th", "he", "in", "er", "an", "re", "on", "at", "en", "ou", "st", "is", "ing", "the", "and"]
    merges = [(pair[:-1], pair[-1]) for pair in pairs if len(pair) == 2] + [("in", "g"), ("the", ""), ("an", "d")]
    merges = [merge for merge in merges if merge[1]] + [("t", "he")]
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys([*special, *letters, *pairs]))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return tokenizer


# Latin with its accents, Cyrillic, Arabic, Devanagari: half-open ranges of code points.
_ALPHABETS = ((0xDF, 0x180), (0x430, 0x460), (0x621, 0x653), (0x901, 0x950), (0x966, 0x970))


def babble(*, seconds: int) -> Tensor:
    """Speech-like sound, [1, N]: voiced harmonics with moving pitch and vowels, noise and pauses; seeded."""
    time = torch.arange(seconds * DATASET_RATE) / DATASET_RATE
    pitch = 140 + 60 * torch.sin(2 * math.pi * 0.31 * time) + 25 * torch.sin(2 * math.pi * 2.3 * time)
    phase = 2 * math.pi * torch.cumsum(pitch, 0) / DATASET_RATE
    first, second = 500 + 300 * torch.sin(2 * math.pi * 1.7 * time), 1600 + 700 * torch.sin(2 * math.pi * 1.1 * time)
    voiced = torch.zeros_like(time)
    for harmonic in range(1, 17):
        frequency = harmonic * pitch
        level = torch.exp(-(((frequency - first) / 250) ** 2)) + 0.5 * torch.exp(-(((frequency - second) / 350) ** 2))
        voiced += (level + 0.02) * torch.sin(harmonic * phase)
    open_share = (torch.sin(2 * math.pi * 3.1 * time) + 0.6).clamp(0, 1)
    hiss = 0.05 * torch.randn_like(time) * (torch.sin(2 * math.pi * 1.3 * time) > 0.7)
    return (0.2 * (voiced * open_share + hiss)).clamp(-1, 1).unsqueeze(0)


def _make_dvae(signal: Tensor, mel_stats: Tensor) -> dict[str, Tensor]:
    """A random encoder with a codebook of its own outputs: a random codebook would answer with a handful of codes."""
    from TTS.tts.layers.xtts.dvae import DiscreteVAE

    dvae = DiscreteVAE(
        channels=80,
        hidden_dim=64,
        codebook_dim=64,
        num_tokens=NUM_CODES,
        num_resnet_blocks=1,
        num_layers=2,
        kernel_size=3,
        positional_dims=1,
        use_transposed_convs=False,
    )
    features = dvae.encoder(dvae_mel(mel_stats)(signal)).transpose(1, 2).flatten(0, 1)
    dvae.codebook.embed.copy_(features[torch.randperm(len(features))[:NUM_CODES]].T)
    state = dvae.state_dict()
    assert build_dvae(state) is not None
    return state


def _speakers(gpt: XttsGpt, decoder: Any, signal: Tensor, mel_stats: Tensor) -> dict[str, dict[str, Tensor]]:
    """Two reference voices in stock's format: latents [1, 32, D] and embedding [1, 512, 1]."""
    six = 6 * DATASET_RATE
    voices = {}
    for name, wav in {"Tiny One": signal[:, :six], "Tiny Two": signal[:, six : 2 * six]}.items():
        # Any 16 kHz audio will do for a random speaker encoder: no resampling.
        embedding = decoder.speaker_encoder(wav.clone(), l2_norm=True).unsqueeze(-1)
        latents = gpt.latents(conditioning_mel(mel_stats)(wav))
        voices[name] = {"gpt_cond_latent": latents.clone(), "speaker_embedding": embedding.clone()}
    return voices
