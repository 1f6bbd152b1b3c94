"""The second speaker encoder: its spectrogram is the one it was trained with, and voices are distinguished."""

import librosa
import numpy as np
import pytest
import torch

from utils.errors import UserError
from utils.evaluation.reference import say
from utils.evaluation.second_encoder import RATE, SecondEncoder, second_encoder


def test_its_mel_is_librosas():
    wav = torch.randn(1, RATE, generator=torch.Generator().manual_seed(0))
    # Its own function for the whole compiles for half a minute.
    spectra = torch.stft(wav[0], 400, 160, window=torch.hann_window(400), pad_mode="constant", return_complex=True)
    wanted = librosa.filters.mel(sr=RATE, n_fft=400, n_mels=40) @ (spectra.abs() ** 2).numpy()
    assert np.allclose(SecondEncoder().mel(wav)[0], wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.programs("espeak-ng")
def test_another_sentence_of_a_voice_is_nearer_than_another_voice():
    try:
        embed = second_encoder()
    except UserError as error:
        pytest.skip(str(error))
    first, again = (
        embed(say(text, "en-us", pitch=20)) for text in ("The bell rang twice.", "She bought a ticket for the train.")
    )
    other = embed(say("The bell rang twice.", "en-us+f3", pitch=80))
    assert float(first @ first) == pytest.approx(1, abs=1e-4)
    assert float(first @ again) > float(first @ other) + 0.05
