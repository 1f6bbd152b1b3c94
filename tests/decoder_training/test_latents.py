"""Latents by teacher forcing are those of speaking, where training reads what speaking reads."""

from dataclasses import replace

import pytest
import torch

from utils.bases.find import find_base
from utils.bases.loading import load_gpt
from utils.decoder_training.latents import known_latents
from utils.inference.decode import decode
from utils.inference.sampling import Sampling


@pytest.mark.parametrize("sees_stop", [True, False])
def test_training_reads_what_speaking_reads_only_where_it_sees_the_stop(sees_stop) -> None:
    gpt = load_gpt(find_base("tiny")).eval()
    gpt.shape = replace(gpt.shape, sees_stop=sees_stop)
    generator = torch.Generator().manual_seed(1)
    voice = torch.randn(1, 32, gpt.shape.width, generator=generator)
    tokens = [[21, 30, 25, 40, 22], [33, 24, 29, 60, 51, 23, 28]]
    spoken = [decode(gpt, voice, one, Sampling(temperature=0), max_codes=12) for one in tokens]
    known = known_latents(gpt, voice, [torch.tensor(one) for one in tokens], [one.codes[:11] for one in spoken])
    for said, forced in zip(spoken, known, strict=True):
        difference = (said.latents[0] - forced).abs().max()
        assert difference < 1e-4 if sees_stop else difference > 1e-2
