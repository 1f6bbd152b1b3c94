"""On a GPU the vocoder computes few shapes, and the samples of the whole sentence."""

import pytest
import torch

from utils.inference import vocoder as vocoder_module
from utils.inference.vocoder import HOP, WINDOW, Vocoder, _Plain
from utils.model.decoder.build import build_decoder
from utils.model.shapes import DecoderShape


@pytest.fixture(scope="module")
def generator() -> torch.nn.Module:
    torch.manual_seed(0)
    return build_decoder(DecoderShape(latent_width=16, speaker_width=8, initial_channels=32)).waveform_decoder.eval()


@torch.inference_mode()
@pytest.mark.parametrize("length", [30, WINDOW - 3, WINDOW + 1, 2 * WINDOW + 77])
def test_windows_of_one_shape_give_the_samples_of_the_whole(generator, length):
    plain = _Plain(generator, torch.float32)
    plain._is_flat, plain.module = False, generator  # as on a GPU
    shapes: list[int] = []
    hook = generator.register_forward_pre_hook(lambda _, inputs: shapes.append(inputs[0].size(2)))
    frames, speaker = torch.randn(1, 16, length), torch.randn(1, 8, 1)
    found = plain.render(frames, speaker, 0, length)
    hook.remove()
    whole = generator(frames, g=speaker)[:, 0]
    assert found.shape == (1, length * HOP) == whole.shape
    assert float((found - whole).abs().max()) < 1e-5
    assert set(shapes) == {min(length, WINDOW)}


@torch.inference_mode()
@pytest.mark.parametrize("speed", [1.0, 0.7])
def test_chunks_of_a_vocoder_of_frames_are_the_whole_sentence(speed):
    torch.manual_seed(0)
    shape = DecoderShape(latent_width=16, speaker_width=8, trunk_blocks=2, vocoder_blocks=2, vocoder_width=16)
    vocoder = Vocoder(build_decoder(shape).eval())
    latents, speaker = torch.randn(1, 40, 16), torch.randn(1, 8, 1)
    whole = vocoder(latents, speaker, speed=speed)
    stream = vocoder.stream(speaker, speed=speed)
    chunks = [stream.add(latents[:, :end], is_last=end == 40) for end in range(4, 41, 4)]
    assert sum(chunk.shape[1] > 0 for chunk in chunks) > 3
    torch.testing.assert_close(torch.cat(chunks, dim=1), whole, rtol=0, atol=1e-5)


def test_a_window_has_room_for_the_context_of_its_samples():
    assert WINDOW > 4 * vocoder_module.CONTEXT
