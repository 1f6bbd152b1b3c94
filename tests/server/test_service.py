"""The thread that owns the device: order, limits, recovery; with the starter, in this process."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.decoding import said
from tests.server.conftest import TEXT, samples
from utils.bases.find import find_base
from utils.errors import UserError
from utils.inference.batch import SpeechBatch
from utils.inference.engine import Synthesizer
from utils.inference.generation import Generation, RequestError, SpeechRequest
from utils.jobs.device import CPU, Claim
from utils.runs.process import ProcessId
from utils.server.api import SpeechApi
from utils.server.service import STALL_S, SpeechService
from utils.server.settings import ServerConfig
from utils.speech.voice_library import VoiceLibrary

WAIT_S = 120.0
LONG = " ".join([TEXT] * 40)


def is_unavailable(error: Exception | None) -> bool:
    return isinstance(error, RequestError) and error.code == "unavailable"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., SpeechService]]:
    """Makes services of one output folder, which end with the test."""
    made: list[SpeechService] = []

    def start(stall_s: float = STALL_S, **settings: Any) -> SpeechService:
        config = ServerConfig(output=tmp_path, device="cpu", precision="fp32", **settings)
        service = SpeechService(config, stall_s=stall_s)
        made.append(service)
        service.start()
        return service

    yield start
    for service in made:
        service.close()
        assert not service._thread.is_alive()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpeechService]:
    """One for all tests that need no settings: it loads the model once."""
    config = ServerConfig(output=tmp_path_factory.mktemp("output"), device="cpu", precision="fp32")
    shared = SpeechService(config, stall_s=30.0)
    shared.start()
    yield shared
    shared.close()
    assert not shared._thread.is_alive()


def ask(service: SpeechService, text: str = TEXT, *, model: str = "starter", **fields: Any) -> Generation:
    request = SpeechRequest(text=text, **{"seed": 1, "language": "en", **fields})
    generation = Generation(request, SpeechApi(service).find(model))
    service.submit(generation)
    return generation


def received(generation: Generation, pause_s: float = 0.05) -> np.ndarray:
    """All of its speech, taken as it comes."""
    parts, deadline = [], time.monotonic() + WAIT_S
    while not generation.wait(pause_s):
        assert time.monotonic() < deadline
        parts += generation.take()
    if generation.error is not None:
        raise generation.error
    return samples(b"".join([*parts, *generation.take()]))


@pytest.fixture(scope="module")
def alone() -> np.ndarray:
    """The sentence as the engine speaks it by itself."""
    synthesizer = Synthesizer(find_base("starter"))
    wav = said(synthesizer, TEXT, seed=1, guard=False)
    return wav[0].clamp(-1, 1).numpy()  # 16 bits hold no more


def same(found: np.ndarray, wanted: np.ndarray) -> bool:
    return len(found) <= len(wanted) and np.abs(found - wanted[: len(found)]).max() < 5e-3


def test_a_request_is_spoken_as_the_engine_speaks_it(service, alone):
    whole, streamed = ask(service, stream=False), ask(service)
    assert same(received(whole), alone) and same(received(streamed), alone)
    assert streamed.first_sound_s < WAIT_S and service.num_live == 0


@pytest.mark.slow
def test_words_of_a_projects_table_are_said_otherwise_by_its_models(make, tmp_path):
    base = find_base("tiny")
    shutil.copytree(base.folder, tmp_path / "anna" / "ready")
    torch.save({"model": base.state()}, tmp_path / "anna" / "ready" / "model.pth")
    service = make()

    def speech(text: str) -> np.ndarray:
        return received(ask(service, text, model="anna/ready", speed=4.0, stream=False))

    plain, wanted = speech("No, Dr."), speech("No, Doctor.")
    (tmp_path / "anna" / "pronunciations.csv").write_text("word,say,language\nDr,Doctor,\n", encoding="utf-8")
    assert np.array_equal(speech("No, Dr."), wanted) and not np.array_equal(plain, wanted)


@pytest.mark.slow
def test_a_text_is_spoken_by_several_voices(service):
    VoiceLibrary(service.output).make("ben", [next(Path("assets/demo_voice/wavs").iterdir())])
    text = '<speak>No. <voice name="ben">No.</voice></speak>'
    plain, spoken = (
        received(ask(service, one, model="tiny", speed=4.0, split="sentences")) for one in ("No. No.", text)
    )
    assert same(spoken[:2_000], plain) and not np.array_equal(spoken, plain)
    with pytest.raises(RequestError, match="'eve'"):
        received(ask(service, text.replace("ben", "eve"), model="tiny"))


def test_a_request_too_many_is_refused_and_told_when_to_come_back(make):
    service = make(max_requests=2)
    first = [ask(service) for _ in range(2)]
    with pytest.raises(RequestError, match="being spoken or waiting") as error:
        ask(service)
    assert error.value.retry_after_s >= 1
    assert all(len(received(generation)) for generation in first)
    assert len(received(ask(service)))


def test_a_first_sentence_goes_before_the_rest_of_a_long_text(make):
    service = make(slots=4)
    long = ask(service, LONG, stream=False)
    while not service.num_active():
        time.sleep(0.01)
    short = ask(service)
    assert len(received(short)) and not long.is_ended
    long.cancel()
    assert long.wait(WAIT_S)


@pytest.mark.slow
def test_a_listener_that_takes_nothing_is_given_up(make, monkeypatch):
    monkeypatch.setattr("utils.inference.generation.BUFFER_S", 3.0)
    service = make(stall_s=1.0)
    generation = ask(service, LONG)
    assert generation.wait(WAIT_S)
    assert isinstance(generation.error, RequestError) and generation.error.code == "client_stalled"
    # What is spoken ahead of a slow listener is bounded.
    assert generation.buffered_s < 20


@pytest.mark.slow
def test_a_slow_listener_gets_all(service, monkeypatch):
    monkeypatch.setattr("utils.inference.generation.BUFFER_S", 2.0)
    text = " ".join([TEXT] * 4)
    slow = received(ask(service, text, split="sentences"), pause_s=0.7)
    assert same(slow, received(ask(service, text, split="sentences")))


def test_an_error_of_one_request_leaves_the_others(service, monkeypatch, alone):
    step = SpeechBatch.step

    def fail_for_one(batch: SpeechBatch) -> Any:
        if any(
            sentence.settings.temperature == 1.5 and len(sentence.codes) > 5 for sentence in batch.decoder.sentences
        ):
            raise IndexError("index out of range")
        return step(batch)

    monkeypatch.setattr(SpeechBatch, "step", fail_for_one)
    good = [ask(service) for _ in range(3)]
    bad = ask(service, temperature=1.5)
    good += [ask(service) for _ in range(2)]
    assert all(same(received(generation), alone) for generation in good)
    with pytest.raises(IndexError):
        received(bad)
    assert service.num_live == 0 and len(received(ask(service)))


def test_faults_of_a_request_end_it_with_words(service):
    with pytest.raises(RequestError, match="missing"):
        received(ask(service, voice="missing"))
    with pytest.raises(UserError, match="cannot read"):
        received(ask(service, "漢字"))
    assert len(received(ask(service)))


def test_a_training_takes_the_device_and_gives_it_back(make, tmp_path, monkeypatch):
    service = make()
    late: list[Generation] = []
    end_all = service._end_all

    def end_all_and_ask(*args, **kwargs):
        end_all(*args, **kwargs)
        if not late:
            late.append(ask(service))

    monkeypatch.setattr(service, "_end_all", end_all_and_ask)
    generation = ask(service, LONG)
    while generation.buffered_s == 0:
        time.sleep(0.01)
    claim = Claim(CPU, tmp_path)
    run = tmp_path / "voice" / "runs" / "one"
    run.mkdir(parents=True)
    claim.give(run, "train", ProcessId.of(os.getpid()))
    assert generation.wait(WAIT_S)
    assert is_unavailable(generation.error) and "'one' has started" in generation.error.what
    while not late:
        time.sleep(0.01)
    with pytest.raises(RequestError, match="needs the device"):
        received(late[0])
    assert not service.loaded()
    with pytest.raises(RequestError, match="needs the device"):
        received(ask(service))
    claim.free()
    deadline = time.monotonic() + WAIT_S
    while True:  # it looks twice a second
        try:
            assert len(received(ask(service)))
            return
        except RequestError as error:
            assert is_unavailable(error) and time.monotonic() < deadline
            time.sleep(0.1)


def test_the_model_used_last_stays_when_memory_is_short(make):
    def speak(service: SpeechService, model: str) -> None:
        assert len(received(ask(service, "No.", model=model, speed=4.0)))

    service = make(max_model_gb=0.15)
    speak(service, "starter")
    (size,) = service.loaded().values()
    assert 80_000_000 < size < 160_000_000
    speak(service, "tiny")
    speak(service, "starter")
    assert "starter" in service.loaded()
    small = make(max_model_gb=1e-9)
    for model in ("starter", "tiny", "starter"):
        speak(small, model)
        assert list(small.loaded()) == [model]


@pytest.mark.slow
def test_models_are_unloaded_after_a_time_without_requests_and_load_again(make):
    service = make(unload_after=0.1 / 60)
    for _ in range(2):
        assert len(received(ask(service, "No.", model="tiny", speed=4.0)))
        deadline = time.monotonic() + WAIT_S
        while service.loaded():
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_stop_ends_all_requests_with_an_error(make):
    service = make()
    generations = [ask(service, LONG) for _ in range(3)]
    while not service.num_active():
        time.sleep(0.01)
    threading.Thread(target=service.close).start()
    assert all(generation.wait(WAIT_S) and is_unavailable(generation.error) for generation in generations)
    with pytest.raises(RequestError, match="stopped"):
        ask(service)
