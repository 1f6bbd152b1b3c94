"""The real worker speaks with every kind of model, exactly as the engine does, and lines that fail leave the others."""

import asyncio
import io
import json
import sys
import time
import wave
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.configs import tiny_run
from tests.decoding import said
from tests.sounds import make_project
from tests.speech.workers import ended, until
from utils.audio.write import to_pcm16
from utils.bases.find import find_base
from utils.cli import synthesize
from utils.config import ExportConfig, SpeechSettings
from utils.inference.batch import SpeechBatch
from utils.inference.engine import Synthesizer
from utils.inference.export import export_model
from utils.inference.model_cache import ModelCache
from utils.inference.speaker import Speaker
from utils.inference.worker import serve
from utils.jobs.replies import Replies
from utils.project.paths import Project
from utils.runs.layout import REFERENCE_FILE
from utils.speech.live_sound import LiveSound
from utils.speech.models import find_model, speaking_models
from utils.speech.take_queue import GenerationQueue, request_of
from utils.speech.takes import Line, Take, read_take
from utils.speech.voice_library import VoiceLibrary
from utils.speech.worker_client import SpeechWorker
from utils.training.train import fine_tune

SETTINGS = SpeechSettings(language="en", split="sentences", speed=4.0, seed=1)
"""Random weights never stop by themselves: fast speech saves the decoder's time."""
LOAD_S = 120.0
"""The first take waits for torch to be loaded."""
FLOAT32_WORKER = """
from functools import partial
from utils.inference import model_cache, worker
model_cache.ModelCache = partial(model_cache.ModelCache, precision="fp32")
worker.main()
"""
"""The worker in float32: in 16 bits, two processes with other numbers of threads differ on some processors."""


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    project = make_project(tmp_path_factory.mktemp("output"))
    fine_tune(tiny_run(project, num_epochs=1))
    export_model(ExportConfig(project=project.name, output=project.output))
    return project


@pytest.fixture(scope="module")
def queue(project) -> Iterator[GenerationQueue]:
    worker = SpeechWorker(project.output, command=[sys.executable, "-c", FLOAT32_WORKER])
    queue = GenerationQueue(project.output, device="cpu", worker=worker)
    yield queue
    queue.release("the tests are over")


def say(queue: GenerationQueue, project: Project, *texts: str, model: str = "base/tiny", **options) -> Take:
    return ended(queue.submit(project, texts, model=model, settings=SETTINGS, **options), timeout_s=LOAD_S)


def samples(path: Path) -> np.ndarray:
    with wave.open(str(path)) as wav:
        assert (wav.getframerate(), wav.getnchannels(), wav.getsampwidth()) == (24_000, 1, 2)
        return np.frombuffer(wav.readframes(wav.getnframes()), dtype="<i2")


def test_every_model_of_the_project_speaks(queue, project):
    ids = [model.id for model in speaking_models(project)]
    run = next(project.runs.iterdir()).name
    names = (f"run/{run}/last", f"run/{run}/best", "ready", "base/tiny")
    assert set(names) <= set(ids)
    takes = [say(queue, project, "No.", model=name) for name in (*names, names[1])]
    assert [take.state for take in takes] == ["finished"] * 5, takes
    assert takes[0].checkpoint == f"step-{find_model(project, names[0]).step:08}"
    _, best, ready, base, again = (samples(take.wavs[0]) for take in takes)
    assert np.array_equal(best, ready) and np.array_equal(best, again)
    assert len(base) != len(best) or not np.array_equal(base, best)


def test_the_worker_says_what_the_engine_says(queue, project):
    reference = next((project.dataset / "wavs").iterdir())
    take = say(queue, project, "No. Go on.", reference=reference, reference_name="mine.wav")
    synthesizer = Synthesizer(find_base("tiny"))
    voice = synthesizer.voice(reference)
    wav = said(synthesizer, "No. Go on.", voice=voice, speed=4.0, seed=1, split="sentences")
    wavs = samples(take.wavs[0])
    # Another number of threads may round one sample in the last bit.
    assert len(wavs) == wav.shape[1] and np.abs(wavs - to_pcm16(wav)[0].numpy().astype(int)).max() <= 1
    assert [sentence.text for sentence in take.sentences] == ["No.", "Go on."]
    assert sum(len(samples(take.folder / sentence.file)) for sentence in take.sentences) == len(wavs)


def test_a_take_shows_the_words_that_were_said_otherwise(queue, project):
    table = project.folder / "pronunciations.csv"
    table.write_text("word,say,language\nDr,Doctor,en\n", encoding="utf-8")
    try:
        take = say(queue, project, "No, Dr.")
        assert "pronounced: Dr: Doctor" in take.message and [line.text for line in take.lines] == ["No, Dr."]
        assert read_take(take.folder).sentences[0].said == ("Dr: Doctor",)
        table.write_text("Dr;Doctor\n", encoding="utf-8")
        assert "pronunciations cannot be read" in say(queue, project, "No, Dr.").message
    finally:
        table.unlink()
    assert "pronounced" not in say(queue, project, "No, Dr.").message


@pytest.mark.slow
def test_a_take_is_spoken_by_several_voices(queue, project):
    library = VoiceLibrary(project.output)
    library.make("ben", [next((project.dataset / "wavs").iterdir())])
    try:
        take = say(queue, project, "No. [voice: ben] No. [voice: default] No.")
        first, by_ben, last = (samples(take.folder / sentence.file) for sentence in take.sentences)
        plain, _, again = (samples(take.folder / one.file) for one in say(queue, project, "No. No. No.").sentences)
        assert np.array_equal(first, plain) and np.array_equal(last, again)
        assert len(by_ben) and not any(np.array_equal(by_ben, one) for one in (first, last))
    finally:
        library.remove("ben")
    failed = say(queue, project, "No.", "No. [voice: eve] No.", "[voice: ben] No.")
    assert failed.state == "failed" and "there is no voice 'ben'; there is no voice 'eve'" in failed.message
    assert not failed.sentences, "it is said before the first line is spoken"


@pytest.mark.slow
def test_worker_without_memory_unloads_its_model_and_answers_in_words(tmp_path, monkeypatch):
    def fail(batch: SpeechBatch) -> None:
        raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")

    models, pipe = ModelCache("cpu", precision="fp32"), io.StringIO()
    request = {"do": "speak", "id": 1, "model": {"kind": "base", "source": "tiny"}, "folder": str(tmp_path)}
    request |= {"settings": vars(SETTINGS), "lines": [{"number": 1, "text": "No."}]}
    with monkeypatch.context() as short:
        short.setattr(SpeechBatch, "step", fail)
        serve(request, models, Replies(pipe), is_cancelled=lambda: False)
    assert "too little free memory" in pipe.getvalue() and not models.models
    serve(request, models, Replies(pipe), is_cancelled=lambda: False)
    assert json.loads(pipe.getvalue().splitlines()[-1])["kind"] == "done"


def test_a_take_without_a_seed_is_a_new_one_and_keeps_its_seed(queue, project):
    settings = replace(SETTINGS, seed=None)
    one, other = (
        ended(queue.submit(project, ["No."], model="base/tiny", settings=settings), timeout_s=LOAD_S) for _ in range(2)
    )
    assert None not in (one.settings.seed, other.settings.seed) and one.settings.seed != other.settings.seed


def test_the_command_speaks_with_a_checkpoint_by_its_name(project, tmp_path):
    run, out = next(project.runs.iterdir()).name, tmp_path / "best.wav"
    how = ["--text", "No.", "--language", "en", "--speed", "4", "--out", str(out)]
    place = ["--project", project.name, "--output", str(project.output)]
    for model in (f"run/{run}/last", "base/tiny"):
        synthesize.main([*place, "--model", model, *how])
        assert len(samples(out)) > 0
        out.unlink()
    for model in ("run/none/best", f"run/{run}/7"):
        with pytest.raises(SystemExit):
            synthesize.main([*place, "--model", model, *how])
    with pytest.raises(SystemExit):
        synthesize.main(["--model", f"run/{run}/best", *how])


def test_a_speaker_of_a_run_has_the_language_and_the_voice_of_the_run(project):
    run = next(project.runs.iterdir())
    speaker = Speaker(f"run/{run.name}/best", project=project.name, output=project.output, device="cpu")
    assert speaker.language == "en"
    assert torch.equal(speaker.voice().latents, speaker.voice(run / REFERENCE_FILE).latents)
    assert not torch.equal(speaker.voice().latents, speaker.voice(speaker.voices[0]).latents)


def test_faults_of_a_line_a_language_or_a_voice_are_told(queue, project):
    take = say(queue, project, "No.", "漢字")
    assert [line.state for line in take.lines] == ["finished", "failed"]
    assert "cannot read: 漢 字" in take.lines[1].error
    assert "not read: 漢" in say(queue, project, "No 漢.").message
    other = queue.submit(project, ["No."], model="base/tiny", settings=SpeechSettings(language="xx"))
    assert "cannot read the language 'xx'" in ended(other).message
    assert "no voice 'missing'" in say(queue, project, "No.", speaker="missing").message
    assert say(queue, project, "No.", speaker="Tiny Two").state == "finished"
    broken = project.folder / "broken.wav"
    broken.write_bytes(b"RIFF not sound")
    assert "cannot be read as audio" in say(queue, project, "No.", reference=broken).message


def test_a_stop_is_heard_in_the_middle_of_a_sentence(queue, project):
    text = "the quick brown fox jumps over the lazy dog and never comes back to the place where it had been before " * 2
    take = queue.submit(project, [text], model="base/tiny", settings=SETTINGS)
    until(take, lambda now: now.device != "", timeout_s=LOAD_S)
    asked = time.monotonic()
    queue.stop(take.folder)
    assert ended(take).state == "stopped" and time.monotonic() - asked < 5
    assert read_take(take.folder).sentences == []


def test_one_text_is_heard_within_its_sentences_and_several_are_not_streamed(queue, project):
    take = say(queue, project, "No. Go on.")
    sound = queue.sound(project.name, take.id)
    assert sound is not None
    assert asyncio.run(received(sound)) == samples(take.wavs[0]).tobytes()
    assert [len(sentence.attempts) for sentence in take.sentences] == [1, 1], "what was played stays"
    model = find_model(project, "base/tiny").request()
    for texts, is_streamed in (("Still waters run deep.",), True), (("No.", "No."), False):
        asked = replace(take, lines=tuple(Line(number=n, text=text) for n, text in enumerate(texts, start=1)))
        kinds = [reply["kind"] for reply in queue.worker.ask(request_of(asked, model), device="cpu")]
        assert ("chunk" in kinds) is is_streamed and kinds[-1] == "done"
        if is_streamed:
            assert kinds.index("chunk") < kinds.index("sentence") and kinds.count("chunk") > 1


async def received(sound: LiveSound) -> bytes:
    return b"".join([pcm async for pcm in sound.follow()])
