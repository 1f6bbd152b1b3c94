"""Latents by teacher forcing are those of speaking, where training reads what speaking reads."""

from dataclasses import replace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.decoding import greedy
from utils.bases.find import find_base
from utils.bases.loading import load_gpt
from utils.decoder_training import decoder_clips as module
from utils.decoder_training.decoder_clips import known_latents
from utils.model.gpt import ForwardOptions, XttsGpt


@pytest.mark.parametrize("sees_stop", [True, False])
def test_training_reads_what_speaking_reads_only_where_it_sees_the_stop(sees_stop):
    gpt = load_gpt(find_base("tiny")).eval()
    gpt.shape = replace(gpt.shape, sees_stop=sees_stop)
    generator = torch.Generator().manual_seed(1)
    voice = torch.randn(1, 32, gpt.shape.width, generator=generator)
    tokens = [[21, 30, 25, 40, 22], [33, 24, 29, 60, 51, 23, 28]]
    spoken = [greedy(gpt, voice, one, limit=12) for one in tokens]
    known = known_latents(gpt, voice, [torch.tensor(one) for one in tokens], [codes[:11] for codes, _ in spoken])
    for (_, said), forced in zip(spoken, known, strict=True):
        difference = (said[0] - forced).abs().max()
        assert difference < 1e-4 if sees_stop else difference > 1e-2


@pytest.mark.slow
def test_on_a_gpu_all_tensors_are_on_its_device(monkeypatch):
    """Without a GPU: fake tensors have a device and a shape, and kernels check both."""
    gpt = load_gpt(find_base("tiny"))
    tokens, codes = [torch.arange(10)], [torch.arange(40)]
    batch = module.pack(tokens, codes, gpt.shape)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        monkeypatch.setattr(module, "pack", lambda *_: batch._with(mode.from_tensor))
        with torch.device("cuda"):
            fake = XttsGpt(gpt.shape, ForwardOptions(sdpa=True)).eval()
            conditioning = torch.zeros(1, 32, gpt.shape.width)
        (known,) = known_latents(fake, conditioning, tokens, codes)
    assert (known.device.type, tuple(known.shape)) == ("cuda", (41, gpt.shape.width))
