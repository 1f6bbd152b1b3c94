"""The speaker encoder learns to tell voices apart, its measures are right on known vectors, and it resumes."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from recipes.starter.speaker_encoder import (
    AngularMargin,
    SpeakerClip,
    SpeakerShape,
    SpeakerTraining,
    embed_clips,
    identification_accuracy,
    new_speaker_encoder,
    separation,
    train_speaker_encoder,
)
from utils.errors import UserError
from utils.options import SPEAKER_RATE

SHAPE = SpeakerShape(width=16, filters=(4, 4, 8, 8), layers=(1, 1, 1, 1))
TINY = SpeakerTraining(steps=30, batch_size=12, crop_s=0.5, warmup_steps=3, log_every=10, checkpoint_every=10)


def _hum(speaker: int, *, seed: int) -> SpeakerClip:
    """A second of wavering harmonics on a pitch of the speaker's own."""
    rng = np.random.default_rng(seed)
    time = np.arange(SPEAKER_RATE) / SPEAKER_RATE
    phase = 2 * np.pi * np.cumsum((110, 170, 260)[speaker] * (1 + 0.1 * np.sin(9 * time + seed))) / SPEAKER_RATE
    sound = sum(np.sin(number * phase) / number for number in range(1, 20)) * (1 + np.sin(20 * time))
    return SpeakerClip(samples=(3000 * sound + 30 * rng.standard_normal(len(time))).astype(np.int16), speaker=speaker)


@pytest.fixture(scope="module")
def clips() -> list[SpeakerClip]:
    return [_hum(speaker, seed=10 * speaker + number) for speaker in range(3) for number in range(4)]


def test_training_tells_three_voices_apart_in_clips_it_never_heard(tmp_path, clips):
    torch.manual_seed(1)
    encoder = new_speaker_encoder(SHAPE)
    losses = []
    train_speaker_encoder(
        encoder, clips, settings=TINY, folder=tmp_path, on_log=lambda step, loss, right: losses.append(loss)
    )
    assert len(losses) == 3
    assert losses[-1] < 0.7 * losses[0]
    unheard = [_hum(speaker, seed=500 + speaker) for speaker in range(3)]
    known = torch.tensor([clip.speaker for clip in clips])
    right = identification_accuracy(embed_clips(encoder, clips), known, embed_clips(encoder, unheard), torch.arange(3))
    assert right == 1.0


def test_resumed_training_equals_undisturbed_training(tmp_path, clips):
    settings = SpeakerTraining(steps=20, batch_size=4, crop_s=0.5, log_every=12, checkpoint_every=5)

    def train(folder, on_log=None):
        torch.manual_seed(1)
        encoder = new_speaker_encoder(SHAPE)
        train_speaker_encoder(encoder, clips, settings=settings, folder=folder, on_log=on_log)
        return encoder.state_dict()

    def interrupt(step, loss, right):
        raise KeyboardInterrupt

    whole = train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "cut", on_log=interrupt)
    for name, tensor in train(tmp_path / "cut").items():
        torch.testing.assert_close(tensor, whole[name], rtol=0, atol=0)


def test_margin_makes_only_the_right_speaker_harder():
    head = AngularMargin(8, 3)
    embeddings, speakers = torch.randn(5, 8), torch.tensor([0, 1, 2, 0, 1])
    plain = head(embeddings, speakers, margin=0.0, scale=1.0)
    harder = head(embeddings, speakers, margin=0.3, scale=1.0)
    cosine = F.linear(F.normalize(embeddings), F.normalize(head.directions))
    torch.testing.assert_close(plain, cosine, atol=1e-5, rtol=0)
    right = F.one_hot(speakers, 3).bool()
    torch.testing.assert_close(harder[~right], cosine[~right], atol=1e-5, rtol=0)
    expected = torch.cos(torch.acos(cosine[right]) + 0.3)
    torch.testing.assert_close(harder[right], expected, atol=1e-4, rtol=0)


def test_separation_of_known_vectors():
    voice = F.normalize(torch.tensor([[1.0, 0.1], [1.0, -0.1]]))
    same, different, rate = separation(voice, torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))
    assert same > 0.97
    assert different < 0.1
    assert rate == 0.0
    *_, mixed = separation(voice, voice)
    assert mixed >= 0.5


def test_one_speaker_is_refused(tmp_path):
    with pytest.raises(UserError, match="two speakers"):
        train_speaker_encoder(new_speaker_encoder(SHAPE), [_hum(0, seed=1)], settings=TINY, folder=tmp_path)
