"""A device without room for two decoders, or that fails: requests are answered, and later ones are spoken."""

import threading
import time

import pytest
import torch
from starlette.testclient import TestClient

from tests.server.test_service import WAIT_S, ask, make, received, same  # noqa: F401
from utils.errors import UserError
from utils.inference.batch import SpeechBatch
from utils.inference.decode import Decoder
from utils.inference.generation import Generation
from utils.server.api import SpeechApi
from utils.server.application import create_application
from utils.server.service import SpeechService
from utils.server.settings import ServerConfig

SHORTAGE = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")


def fail_at(monkeypatch: pytest.MonkeyPatch, step: int, error: Exception) -> None:
    """The batch's step of that number fails, once."""
    whole, count = SpeechBatch.step, 0

    def stepped(self: SpeechBatch) -> list:
        nonlocal count
        count += 1
        if count == step:
            raise error
        return whole(self)

    monkeypatch.setattr(SpeechBatch, "step", stepped)


def allow_only(monkeypatch: pytest.MonkeyPatch, slots: int) -> None:
    """The device has room for a decoder of this many slots, and not for a second decoder."""
    new_cache = Decoder._new_cache

    def allocate(self: Decoder, *args) -> torch.Tensor:
        if self.slots > slots or (self._cache.numel() and args[0] <= self._cache.size(4)):
            raise torch.OutOfMemoryError("CUDA out of memory (the old decoder is still alive)")
        return new_cache(self, *args)

    monkeypatch.setattr(Decoder, "_new_cache", allocate)


def answers(service: SpeechService, *generations: Generation) -> list[str]:
    """How each request ended: spoken, or the name of its error; none may wait for ever."""
    deadline = time.monotonic() + WAIT_S
    while not all(generation.wait(0.05) for generation in generations):
        assert time.monotonic() < deadline and service._thread.is_alive(), "a request never ends"
        for generation in generations:
            generation.take()
    return [type(generation.error).__name__ if generation.error else "spoken" for generation in generations]


def test_shortage_while_speaking_frees_first_and_loses_no_request(make, monkeypatch):  # noqa: F811
    service = make(slots=4)
    alone = received(ask(service))
    allow_only(monkeypatch, slots=2)
    fail_at(monkeypatch, 10, SHORTAGE)
    assert all(same(received(generation), alone) for generation in (ask(service), ask(service)))
    assert service.counts.out_of_memory == 1
    assert same(received(ask(service)), alone)


@pytest.mark.slow
def test_device_without_room_for_one_sentence_answers_and_loads_again_later(make, monkeypatch):  # noqa: F811
    service = make(slots=4)
    assert answers(service, ask(service)) == ["spoken"]
    with monkeypatch.context() as short:
        allow_only(short, slots=0)
        fail_at(short, 10, torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 64 MiB"))
        assert answers(service, ask(service), ask(service)) == ["OutOfMemoryError"] * 2
        assert not service.loaded()
    assert answers(service, ask(service)) == ["spoken"]


@pytest.mark.slow
def test_device_that_fails_ends_requests_and_not_the_engine(make, monkeypatch):  # noqa: F811
    service = make(slots=4)
    assert answers(service, ask(service)) == ["spoken"]
    with monkeypatch.context() as broken:
        error = RuntimeError("CUDA error: an illegal memory access was encountered")
        fail_at(broken, 10, error)
        broken.setattr(SpeechBatch, "reset", lambda self, slots: (_ for _ in ()).throw(error))
        assert answers(service, ask(service), ask(service)) == ["RuntimeError"] * 2
    assert answers(service, ask(service)) == ["spoken"]


@pytest.mark.slow
def test_a_turn_that_fails_ends_its_requests_and_not_the_thread(make, monkeypatch):  # noqa: F811
    service = make(slots=4)
    assert answers(service, ask(service)) == ["spoken"]
    admit, errors, recovered = service._admit, [RuntimeError("a device error")], threading.Event()

    def fail_once() -> None:
        if errors and service._inbox:
            raise errors.pop()
        if not errors:
            recovered.set()
        admit()

    monkeypatch.setattr(service, "_admit", fail_once)
    assert answers(service, ask(service)) == ["RuntimeError"]
    assert service._thread.is_alive() and not service.has_died
    assert recovered.wait(WAIT_S)  # what comes during the turn that fails ends with it
    assert answers(service, ask(service)) == ["spoken"]


def test_an_engine_that_has_ended_is_a_server_that_is_not_well(tmp_path, monkeypatch):
    def refuse(self: SpeechService) -> None:
        raise UserError(what="device cuda was requested, but PyTorch cannot use CUDA")

    monkeypatch.setattr(SpeechService, "_new_engine", refuse)
    api = SpeechApi(SpeechService(ServerConfig(output=tmp_path, model="tiny", device="cpu")))
    client = TestClient(create_application(api, ()), base_url="http://127.0.0.1")
    assert client.get("/health").json()["status"] == "loading"
    api.service.start(api.find())
    api.service._thread.join(WAIT_S)
    answer = client.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "failed")
    spoken = client.post("/v1/audio/speech", json={"model": "tts-1", "voice": "alloy", "input": "Hello."})
    assert spoken.status_code == 503 and "the speech engine has ended" in spoken.text.lower()
