"""The DVAE learns real speech with its whole codebook alive, resumes exactly, and its files are a base's files."""

import math

import numpy as np
import pytest
import torch

from tests.dataset.recordings import demo_clips
from utils.audio.decode import load_audio
from utils.codec_training.dvae import (
    DvaeShape,
    DvaeTraining,
    MelCorpus,
    evaluate_dvae,
    init_codebook,
    load_dvae,
    new_dvae,
    revive_dead_codes,
    save_dvae,
    train_dvae,
)
from utils.errors import UserError
from utils.model.dvae import load_code_encoder
from utils.options import DATASET_RATE

SHAPE = DvaeShape(num_tokens=64, codebook_dim=16, hidden_dim=32, num_resnet_blocks=1)
TINY = DvaeTraining(steps=240, batch_size=8, crop_frames=64, open_steps=100, revive_every=10, log_every=80)


@pytest.fixture(scope="module")
def wavs() -> list[torch.Tensor]:
    """Speech of the bundled voice, one clip each."""
    return [load_audio(clip.audio, DATASET_RATE) for clip in demo_clips(4)]


@pytest.fixture(scope="module")
def mels(wavs, tmp_path_factory) -> MelCorpus:
    return MelCorpus.build(wavs[:3], tmp_path_factory.mktemp("train"))


@pytest.fixture(scope="module")
def unheard(wavs, tmp_path_factory) -> MelCorpus:
    return MelCorpus.build(wavs[3:], tmp_path_factory.mktemp("eval"))


def _train(mels, folder, settings=TINY, **more):
    torch.manual_seed(1)
    dvae = new_dvae(SHAPE)
    train_dvae(dvae, mels, mel_stats=mels.stats(), settings=settings, folder=folder, **more)
    return dvae


def test_training_explains_unheard_speech_and_keeps_most_codes_alive(mels, unheard, tmp_path):
    qualities = []
    dvae = _train(mels, tmp_path, eval_mels=unheard, on_log=lambda step, loss, quality: qualities.append(quality))
    assert [quality is not None for quality in qualities] == [True] * 3
    last = evaluate_dvae(dvae, unheard, mels.stats())
    assert last == qualities[-1]
    assert last.explained_variance > 0.4
    heard = evaluate_dvae(dvae, mels, mels.stats())
    assert heard.explained_variance > 0.45
    assert heard.codes_used > 30


def test_resumed_training_equals_undisturbed_training(mels, tmp_path):
    settings = DvaeTraining(
        steps=30, batch_size=4, crop_frames=64, open_steps=8, revive_every=4, checkpoint_every=6, log_every=14
    )

    def interrupt(step, loss, quality):
        raise KeyboardInterrupt

    whole = _train(mels, tmp_path / "whole", settings).state_dict()
    with pytest.raises(KeyboardInterrupt):
        _train(mels, tmp_path / "cut", settings, on_log=interrupt)
    for name, tensor in _train(mels, tmp_path / "cut", settings).state_dict().items():
        torch.testing.assert_close(tensor, whole[name], rtol=0, atol=0)


def test_saved_files_encode_to_the_codes_of_the_loaded_dvae(mels, wavs, tmp_path):
    dvae = _train(mels, tmp_path, DvaeTraining(steps=25, batch_size=4, crop_frames=64, open_steps=5))
    save_dvae(tmp_path, dvae, mels.stats())
    loaded, mel_stats = load_dvae(tmp_path)
    codes = load_code_encoder(tmp_path / "dvae.safetensors", mel_stats)(wavs[0], [wavs[0].shape[1]])[0]
    assert len(codes) == math.ceil(wavs[0].shape[1] / 1024)
    mel = mels.clip(0) / mel_stats[:, None]
    # The clip's own end is not padded here, so the last positions see something else.
    same = loaded.get_codebook_indices(mel)[0, :-8]
    # The corpus holds mels in half precision: a close call may fall the other way.
    assert (codes[: len(same)] == same).float().mean() > 0.95
    assert evaluate_dvae(loaded, mels, mel_stats).error == pytest.approx(
        evaluate_dvae(dvae, mels, mel_stats).error, rel=0.02
    )


def test_codebook_from_data_uses_what_a_random_one_leaves_dead(mels):
    torch.manual_seed(1)
    dvae = new_dvae(SHAPE)
    before = evaluate_dvae(dvae, mels, mels.stats()).codes_used
    rng = np.random.default_rng(1)
    init_codebook(dvae, mels.crops(32, 64, rng) / mels.stats()[:, None], rng)
    assert before < 20
    assert evaluate_dvae(dvae, mels, mels.stats()).codes_used > 45


def test_dead_codes_move_onto_encoder_outputs_and_live_ones_stay(mels):
    torch.manual_seed(1)
    dvae = new_dvae(SHAPE)
    dvae.codebook.cluster_size.fill_(1.0)
    dvae.codebook.cluster_size[5:9] = 0.0
    before = dvae.codebook.embed.clone()
    rng = np.random.default_rng(1)
    mel = mels.crops(4, 64, rng) / mels.stats()[:, None]
    assert revive_dead_codes(dvae, mel, rng) == 4
    moved = (dvae.codebook.embed != before).any(0)
    assert moved.nonzero().flatten().tolist() == [5, 6, 7, 8]
    outputs = dvae.encoder(mel).transpose(1, 2).flatten(0, 1)
    assert torch.cdist(dvae.codebook.embed[:, 5:9].T, outputs).min(1).values.max() < 1e-3
    assert (dvae.codebook.cluster_size[5:9] > 0).all()


def test_quality_of_a_known_case(mels):
    """A DVAE that always answers with one code explains nothing more than a constant can."""
    dvae = new_dvae(SHAPE).eval()
    with torch.no_grad():
        for parameter in dvae.decoder.parameters():
            parameter.zero_()
        dvae.codebook.embed.fill_(1e3)
        dvae.codebook.embed[:, 7] = 0.0
    quality = evaluate_dvae(dvae, mels, mels.stats())
    scaled = mels.frames.astype(np.float32) / mels.stats().numpy()
    assert quality.codes_used == 1
    assert quality.perplexity == pytest.approx(1.0)
    assert quality.error == pytest.approx(float((scaled**2).mean()), rel=0.03)
    assert quality.explained_variance < 0


def test_a_folder_without_mels_or_weights_is_refused(tmp_path):
    with pytest.raises(UserError, match="no mel corpus"):
        MelCorpus(tmp_path)
    with pytest.raises(UserError, match="cannot be read"):
        load_dvae(tmp_path)
