"""The decoder learns from latents, its crops line up, its discriminator joins when asked, and training resumes."""

from dataclasses import replace

import numpy as np
import pytest
import soundfile
import torch

from recipes.base.decoder import SpectralDiscriminator
from utils.decoder_training.decoder import balance, decode, train_decoder
from utils.decoder_training.decoder_clips import SAMPLES_PER_LATENT, DecoderClip, DecoderClips, DecoderTraining
from utils.decoder_training.spectral import SpectralLoss
from utils.errors import UserError
from utils.model.decoder.build import build_decoder
from utils.model.shapes import DecoderShape
from utils.options import OUTPUT_RATE

SHAPE = DecoderShape(
    latent_width=8, speaker_width=4, initial_channels=16, speaker_filters=(4, 4, 4, 8), speaker_layers=(1, 1, 1, 1)
)
TINY = DecoderTraining(
    steps=24, batch_size=2, crop_latents=6, margin_latents=1, learning_rate=5e-3, warmup_steps=2, log_every=8
)


def _decoder():
    torch.manual_seed(1)
    return build_decoder(SHAPE)


@pytest.fixture(scope="module")
def clips(tmp_path_factory) -> list[DecoderClip]:
    """Tones whose level and pitch the latents tell."""
    folder, rng = tmp_path_factory.mktemp("clips"), np.random.default_rng(1)
    made = []
    for number in range(3):
        latents = rng.standard_normal((20, 8)).astype(np.float32)
        samples = round(len(latents) * SAMPLES_PER_LATENT)
        along = np.interp(np.arange(samples) / SAMPLES_PER_LATENT, np.arange(20) + 0.5, latents[:, 0])
        sound = 0.3 / (1 + np.exp(-along)) * np.sin(2 * np.pi * 300 * (number + 1) * np.arange(samples) / OUTPUT_RATE)
        np.save(folder / f"{number}.npy", latents.astype(np.float16))
        soundfile.write(folder / f"{number}.wav", sound, OUTPUT_RATE)
        speaker = torch.eye(4)[number]
        made.append(DecoderClip(latents=folder / f"{number}.npy", wav=folder / f"{number}.wav", speaker=speaker))
    return made


@pytest.mark.slow
def test_training_brings_the_spectrum_nearer_and_leaves_the_speaker_encoder_alone(clips, tmp_path):
    decoder, logged = _decoder(), []
    before = {name: tensor.clone() for name, tensor in decoder.speaker_encoder.state_dict().items()}
    train_decoder(decoder, clips, settings=TINY, folder=tmp_path, on_log=lambda step, losses: logged.append(losses))
    assert [set(losses) for losses in logged] == [{"mel", "convergence", "magnitude"}] * 3
    assert logged[-1]["mel"] < 0.9 * logged[0]["mel"]
    for name, tensor in decoder.speaker_encoder.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)


@pytest.mark.slow
def test_a_trunk_learns_alone_first_and_goes_on_where_it_was_stopped(clips, tmp_path):
    settings = replace(TINY, trunk_steps=12, steps=4, log_every=4, checkpoint_every=3, speaker_noise=0.2)

    def train(folder, on_log=None):
        torch.manual_seed(1)
        decoder = build_decoder(replace(SHAPE, trunk_blocks=1, vocoder_blocks=1, vocoder_width=32))
        train_decoder(decoder, clips, settings=settings, folder=folder, on_log=on_log)
        return decoder.state_dict()

    def interrupt(step, losses):
        raise KeyboardInterrupt

    logged = []
    whole = train(tmp_path / "whole", on_log=lambda step, losses: logged.append(losses))
    assert [set(losses) for losses in logged[:3]] == [{"pitch", "voiced", "outline"}] * 3
    assert set(logged[3]) == {"mel", "convergence", "magnitude", "pitch", "voiced", "outline"}
    assert all(logged[2][name] < share * logged[0][name] for name, share in (("outline", 0.8), ("pitch", 0.9)))
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "cut", on_log=interrupt)
    for name, tensor in train(tmp_path / "cut").items():
        torch.testing.assert_close(tensor, whole[name], rtol=0, atol=0)


@pytest.mark.slow
def test_a_decoder_with_a_vocoder_of_frames_learns_sound_after_mels(clips, tmp_path):
    torch.manual_seed(1)
    decoder, logged = build_decoder(replace(SHAPE, trunk_blocks=1, vocoder_blocks=1, vocoder_width=32)), []
    settings = replace(TINY, trunk_steps=12, steps=12, log_every=4)
    train_decoder(decoder, clips, settings=settings, folder=tmp_path, on_log=lambda step, losses: logged.append(losses))
    assert logged[-1]["mel"] < logged[3]["mel"]
    assert balance(decoder, clips).abs().max() > 0


def test_noise_on_the_voice_is_as_long_as_it_was_set(clips):
    (_, plain, _), (_, noisy, _) = (
        DecoderClips(clips, replace(TINY, speaker_noise=noise)).batch(3, np.random.default_rng(1)) for noise in (0, 0.5)
    )
    _, many, _ = DecoderClips(clips[:1], replace(TINY, speaker_noise=0.5)).batch(400, np.random.default_rng(2))
    assert (plain.norm(dim=1) == 1).all() and not torch.equal(plain, noisy)
    noise = many - clips[0].speaker[:, None]
    assert noise.square().sum(1).mean().sqrt() == pytest.approx(0.5, rel=0.1) and noise.mean().abs() < 0.05


@pytest.mark.slow
def test_the_discriminator_joins_at_its_step(clips, tmp_path):
    settings = DecoderTraining(
        steps=4, batch_size=2, crop_latents=6, margin_latents=1, adversarial_from=2, log_every=2, warmup_steps=1
    )
    logged = []

    def note(step, losses):
        logged.append(losses)

    train_decoder(_decoder(), clips, settings=settings, folder=tmp_path, critic=SpectralDiscriminator, on_log=note)
    assert "judge" in logged[0] and "verdict" not in logged[0], "the discriminator learns first"
    assert {"judge", "verdict", "features"} < set(logged[1])


def test_crops_hold_the_sound_of_their_latents(tmp_path):
    """Every latent holds its own number, and so does the sound at its place."""
    numbers = np.arange(60)
    np.save(tmp_path / "a.npy", np.repeat(numbers[:, None], 8, axis=1).astype(np.float16))
    places = np.arange(round(59.5 * SAMPLES_PER_LATENT)) / SAMPLES_PER_LATENT
    soundfile.write(tmp_path / "a.wav", np.floor(places) / 100, OUTPUT_RATE)
    clip = DecoderClip(latents=tmp_path / "a.npy", wav=tmp_path / "a.wav", speaker=torch.zeros(4))
    latents, speakers, sound = DecoderClips([clip], TINY).batch(30, np.random.default_rng(1))
    assert latents.shape == (30, 8, 8) and speakers.shape == (30, 4, 1)
    middles = ((torch.arange(7) + 0.5) * SAMPLES_PER_LATENT).long()
    torch.testing.assert_close(sound[:, 0, middles] * 100, latents[:, :7, 0], atol=0.02, rtol=0)


def test_decoding_equals_stock_and_covers_the_crop(clips):
    decoder = _decoder().eval()
    latents, speakers, sound = DecoderClips(clips, TINY).batch(2, np.random.default_rng(1))
    with torch.no_grad():
        made = decode(decoder, latents, speakers)
        torch.testing.assert_close(made, decoder(latents, g=speakers))
    assert 0 <= sound.shape[2] - made.shape[2] < 256


def test_spectral_loss_of_known_sounds():
    loss, time = SpectralLoss(OUTPUT_RATE), torch.arange(12_000) / OUTPUT_RATE
    tone = (0.3 * torch.sin(2 * torch.pi * 440 * time))[None, None]
    other = (0.3 * torch.sin(2 * torch.pi * 880 * time))[None, None]
    assert all(value == 0 for value in loss(tone, tone).values())
    # Half as loud is log(2) everywhere and half of the magnitudes, except where the floor holds both up.
    assert loss(tone / 2, tone)["convergence"] == pytest.approx(0.5, abs=1e-3)
    assert loss(tone / 2, tone)["mel"] < 0.7
    assert loss(other, tone)["convergence"] > 1.2


def test_clips_shorter_than_a_crop_are_refused(clips):
    with pytest.raises(UserError, match="none of 3 clips has 34 latents"):
        DecoderClips(clips, DecoderTraining(crop_latents=30))
