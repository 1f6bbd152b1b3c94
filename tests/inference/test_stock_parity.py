"""What we speak is what stock coqui-tts speaks with the same model: codes, latents and sound."""

import pytest
import torch

from tests.decoding import greedy
from tests.inference.stock import load_stock, stock_greedy, stock_sound
from utils.bases.base import Base
from utils.inference.engine import Synthesizer
from utils.model.voices import load_reference

# A random model never stops by itself, and half a minute of stock's decoder takes half a minute.
MAX_CODES = 40
LONG = "The quick brown fox jumps over the lazy dog, and 14 more."


@pytest.fixture(scope="module")
def stock(tiny_model_folder):
    model = load_stock(tiny_model_folder)
    model.gpt.max_gen_mel_tokens = MAX_CODES
    return model


@pytest.fixture(scope="module")
def ours(tiny_model_folder):
    return Synthesizer(Base(tiny_model_folder))


def test_voice_of_a_recording_equals_stock(ours, stock, demo_clip):
    wav = load_reference(demo_clip, ours.limits)
    voice = ours.voice(demo_clip)
    latents = stock.get_gpt_cond_latents(
        wav, 22_050, length=ours.limits.latent_seconds, chunk_length=ours.limits.chunk_seconds
    )
    assert (voice.latents - latents).abs().max() < 1e-5
    # Stock resamples with torchaudio's default filter, we with a longer one: the embedding is close, not equal.
    embedding = stock.get_speaker_embedding(wav, 22_050)
    assert torch.cosine_similarity(voice.embedding.flatten(), embedding.flatten(), dim=0) > 0.99


@pytest.mark.parametrize(
    ("text", "repetition_penalty"), [pytest.param(LONG, 1.0, marks=pytest.mark.slow), ("No.", 5.0)]
)
def test_greedy_codes_and_sound_equal_stock(ours, stock, demo_clip, text, repetition_penalty):
    voice = ours.voice(demo_clip)
    tokens = ours.tokenizer.encode(text, "en")
    assert tokens == stock.tokenizer.encode(text.lower(), "en")

    most = stock.gpt.max_gen_mel_tokens
    said, hidden = greedy(ours.gpt, voice.latents, tokens, limit=most, repetition_penalty=repetition_penalty)
    codes, latents = stock_greedy(stock, tokens, voice, repetition_penalty)

    assert said.tolist() == codes.tolist()
    assert (hidden - latents).abs().max() < 1e-4
    assert (ours.vocoder(hidden, voice.embedding) - stock_sound(stock, latents, voice)).abs().max() < 1e-4
