"""The decoder's GPU branches on a CPU: CUDA's streams, events and graphs are replaced, allocations are counted."""

import contextlib
import weakref
from collections.abc import Iterator

import pytest
import torch

from tests.decoding import decoded
from tests.emulated_flash import emulated_flash
from utils.bases.find import find_base
from utils.bases.loading import load_gpt
from utils.inference import decode as module
from utils.inference import engine
from utils.inference.adapters import Adapter
from utils.inference.cached_attention import attend_at_once, has_flash_attention, new_cache
from utils.inference.decode import Decoder, Sentence
from utils.inference.engine import Synthesizer
from utils.model.gpt import ForwardOptions
from utils.options import SpeechSettings

GREEDY = SpeechSettings(temperature=0)


class Nothing:
    """A stream or an event that does nothing."""

    def __init__(self, **_: object) -> None: ...

    def record(self) -> None: ...

    def synchronize(self) -> None: ...

    def wait_stream(self, other: object) -> None: ...


class Recorder:
    """A captured graph: replays the Python calls that were made while it was captured."""

    def pool(self) -> int:
        return 0

    def replay(self) -> None:
        self.result.copy_(self.step())


@pytest.fixture
def cuda(monkeypatch) -> Iterator[list[dict]]:
    """Decoders that are made meanwhile take their GPU branch; yields what each capture was given."""
    captures: list[dict] = []
    step, empty = Decoder._step_at_once, torch.empty
    capturing: list[Recorder] = []

    def recorded(self: Decoder, num: int, length: int) -> torch.Tensor:
        if not capturing:
            return step(self, num, length)
        (graph,) = capturing
        graph.step = lambda: step(self, num, length)
        graph.result = torch.zeros(num, 2)  # a capture runs nothing
        return graph.result

    @contextlib.contextmanager
    def capture(graph: Recorder, **how: object) -> Iterator[None]:
        captures.append(how)
        capturing.append(graph)
        yield
        capturing.clear()

    monkeypatch.setattr(Decoder, "_step_at_once", recorded)
    monkeypatch.setattr(module, "is_gpu", lambda device: True)
    monkeypatch.setattr(module, "pinning_fault", lambda: "")
    for name, stub in {"Event": Nothing, "Stream": Nothing, "CUDAGraph": Recorder, "graph": capture}.items():
        monkeypatch.setattr(torch.cuda, name, stub)
    monkeypatch.setattr(torch.cuda, "current_stream", Nothing)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch, "empty", lambda *size, pin_memory=False, **how: empty(*size, **how))
    yield captures


@pytest.fixture(scope="module")
def gpt():
    return load_gpt(find_base("tiny"), ForwardOptions(sdpa=True)).eval().requires_grad_(False)


def sentences(gpt, sampling: SpeechSettings) -> list[Sentence]:
    made = []
    for number, limit in enumerate([60, 25, 140, 90, 33]):
        latents = torch.randn(1, 32, gpt.shape.width, generator=torch.Generator().manual_seed(number))
        tokens = [21 + (7 * number + place) % 30 for place in range(3 + 5 * number)]
        random = torch.Generator().manual_seed(100 + number)
        made.append(Sentence(latents=latents, tokens=tokens, settings=sampling, limit=limit, generator=random))
    return made


def test_graphs_give_the_codes_of_a_cpu(gpt, cuda, monkeypatch):
    by_graphs = decoded(Decoder(gpt, slots=4), sentences(gpt, SpeechSettings()))
    monkeypatch.undo()
    assert by_graphs == decoded(Decoder(gpt, slots=4), sentences(gpt, SpeechSettings()))


def test_the_variable_length_kernel_attends_to_what_a_slot_has(gpt):
    random, found, device = torch.Generator().manual_seed(0), [], torch.device("cpu")
    heads, channels = gpt.shape.heads, gpt.shape.width // gpt.shape.heads
    content = torch.randn(gpt.shape.layers, 2, 4, heads, 80, channels, generator=random).bfloat16()
    q, *new = torch.randn(3, 3, heads, 1, channels, generator=random).bfloat16()
    for is_ragged in (False, True):
        cache = new_cache(gpt.shape, 4, 80, torch.bfloat16, device, is_ragged=is_ragged)
        cache[:] = content
        with emulated_flash():
            attend = attend_at_once(cache, torch.tensor([3, 79, 40]), length=80, is_ragged=is_ragged)
            found.append(attend(1, q, torch.stack(new)))
        assert torch.equal(cache[1, 0, 2, :, 40], new[0][2, :, 0])
    assert found[0].shape == found[1].shape == q.shape
    torch.testing.assert_close(*found, rtol=0.02, atol=0.02)


def test_the_variable_length_kernel_is_tried(monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (11, 0))
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    with emulated_flash():
        assert has_flash_attention(torch.device("cpu"), torch.bfloat16) and not caplog.text
    assert not has_flash_attention(torch.device("cpu"), torch.bfloat16), "there is no such kernel here"
    assert "failed its trial" in caplog.text


def test_few_graphs_are_captured_and_none_while_speaking(gpt, cuda):
    decoder = Decoder(gpt, slots=8)
    captured = len(cuda)
    assert 0 < captured <= 9 and captured == len(decoder.graphs)
    decoded(decoder, sentences(gpt, SpeechSettings()))
    decoded(decoder, sentences(gpt, GREEDY))
    assert len(cuda) == captured
    # Another thread's CUDA calls do not end a capture, and all captures share one stream.
    assert {how["capture_error_mode"] for how in cuda} == {"thread_local"}
    assert len({id(how["stream"]) for how in cuda}) == 1


def test_capture_that_fails_leaves_speech_without_graphs(gpt, cuda, monkeypatch, caplog):
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.cuda, "graph", refuse)
    decoder = Decoder(gpt, slots=4)
    assert not decoder.graphs and "operation not permitted" in caplog.text
    codes = decoded(decoder, sentences(gpt, SpeechSettings()))
    monkeypatch.undo()
    assert codes == decoded(Decoder(gpt, slots=4), sentences(gpt, SpeechSettings()))


def test_speech_needs_no_page_locked_memory(gpt, cuda, monkeypatch, caplog):
    def locked(*size: int, pin_memory: bool = False, **how: object) -> torch.Tensor:
        if pin_memory:
            raise RuntimeError("CUDA error: operation not supported")
        return torch.zeros(*size, **how)

    monkeypatch.setattr(torch, "empty", locked)
    monkeypatch.setattr(module, "pinning_fault", lambda: "CUDA error: operation not supported")
    assert decoded(Decoder(gpt, slots=4), sentences(gpt, SpeechSettings())) and "page-locked" in caplog.text


def test_attention_of_cudnn_is_never_chosen(gpt, monkeypatch):
    chosen, attention = set(), torch.nn.functional.scaled_dot_product_attention

    def watched(*args, **kwargs):
        chosen.add((torch.backends.cuda.cudnn_sdp_enabled(), torch.backends.cuda.flash_sdp_enabled()))
        return attention(*args, **kwargs)

    monkeypatch.setattr(module.F, "scaled_dot_product_attention", watched)
    before = torch.backends.cuda.cudnn_sdp_enabled()
    decoded(Decoder(gpt, slots=4), sentences(gpt, SpeechSettings()))
    assert chosen == {(False, True)} and torch.backends.cuda.cudnn_sdp_enabled() == before


@pytest.fixture
def allocations(monkeypatch) -> list[tuple[int, int]]:
    """Of each cache that is allocated: its slots, and how many others were alive."""
    alive: list[weakref.ref] = []
    found: list[tuple[int, int]] = []
    new_cache = Decoder._new_cache

    def allocate(self: Decoder, *args) -> torch.Tensor:
        found.append((self.slots, sum(one() is not None for one in alive)))
        cache = new_cache(self, *args)
        alive.append(weakref.ref(cache))
        return cache

    monkeypatch.setattr(Decoder, "_new_cache", allocate)
    return found


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_other_weights_and_fewer_slots_never_hold_two_caches(allocations, precision):
    speaker = Synthesizer(find_base("tiny"), precision=precision)
    layers = speaker.batch.decoder._layers
    speaker.batch.reset(2)
    assert speaker.batch.decoder._layers is layers, "weights that did not change are not prepared again"
    speaker.renew(load_gpt(find_base("tiny")).state_dict())
    assert allocations == [(8, 0), (2, 0), (2, 0)]


@pytest.mark.slow
def test_memory_of_a_model_is_that_of_its_tensors(monkeypatch):
    assert Synthesizer(find_base("starter")).num_bytes > 20_000_000
    base = find_base("tiny")
    blocks = sum(
        layer.weight.numel()
        for block in load_gpt(base).gpt.h
        for layer in (block.attn.c_attn, block.attn.c_proj, block.mlp.c_fc, block.mlp.c_proj)
    )
    monkeypatch.setattr(engine, "vocoder_in_bf16", lambda *_: False)
    full, half = (Synthesizer(base, precision=precision).num_bytes for precision in ("fp32", "bf16"))
    # Originals are freed: 2 bytes are left of each weight's 4.
    assert full - half == 2 * blocks
    speakers = [Synthesizer(base, slots=slots) for slots in (1, 2, 9)]
    one, two, nine = (speaker.num_bytes for speaker in speakers)
    decoder = speakers[0].batch.decoder
    slot = sum(tensor.nbytes for tensor in (decoder._cache, *decoder._rows))
    assert two - one == slot > 0 and nine - one == 8 * slot


def adapters(gpt) -> list[Adapter]:
    """Additions of two voices, of different ranks."""
    width, random = gpt.shape.width, torch.Generator().manual_seed(0)
    sizes = [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)] * gpt.shape.layers
    return [
        Adapter(
            tuple((torch.randn(r, i, generator=random) / 9, torch.randn(r, o, generator=random) / 9) for i, o in sizes)
        )
        for r in (3, 2)
    ]


def test_voices_are_captured_together_once_and_have_the_codes_of_a_cpu(gpt, cuda, monkeypatch):
    first, second = adapters(gpt)

    def made() -> list[Sentence]:
        found = sentences(gpt, GREEDY)
        for sentence, adapter in zip(found, (first, None, second, first, second), strict=True):
            sentence.adapter = adapter
        return found

    decoder = Decoder(gpt, slots=4)
    captured, found = len(cuda), decoded(decoder, made())
    # The second voice waits until no sentence is decoded: graphs know the additions that they were captured with.
    assert len(cuda) == 3 * captured
    assert decoded(decoder, made()) == found and len(cuda) == 3 * captured
    monkeypatch.undo()
    assert found == decoded(Decoder(gpt, slots=4), made()) != decoded(Decoder(gpt, slots=4), sentences(gpt, GREEDY))
