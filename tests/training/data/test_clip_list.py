"""The clips of a run hold what reading them one by one gives; those that do not train are named."""

import hashlib
import pickle
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.clip_tables import listed
from tests.configs import tiny_run
from tests.sounds import speech
from utils.audio.write import write_wav
from utils.bases.find import find_base
from utils.dataset.storage import stamps
from utils.errors import UserError
from utils.project.paths import Project
from utils.training.data import codes, load
from utils.training.data.clip_list import ClipList, TrainingClip
from utils.training.data.codes import CodeCache
from utils.training.data.load import TrainingData, load_data
from utils.training.plan import settle
from utils.training.switches.optim import make_accelerator


def start(project: Project, accelerator: Any = None, **settings) -> TrainingData:
    """As a training does."""
    base = find_base("tiny")
    config = tiny_run(project, device="cpu", **settings)
    return load_data(settle(config, project, base), project, base, accelerator or make_accelerator("cpu"))


def plain(clips: ClipList) -> list[tuple]:
    """All that clips hold."""
    return [
        (
            *(clip.audio, clip.num_samples, clip.is_native, clip.tokens.tolist(), clip.codes.tolist()),
            *(clip.speaker, clip.reading.tolist()),
        )
        for clip in clips
    ]


def change(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def test_the_fingerprint_is_that_of_earlier_versions(project):
    data, digest = start(project), hashlib.sha256()
    for clip in (*data.train, *data.evaluate):
        digest.update(f"{clip.audio.name} {clip.num_samples}".encode())
        digest.update(clip.tokens.numpy().tobytes())
        digest.update(clip.codes.tobytes())
    assert data.fingerprint == digest.hexdigest()[:12]


def test_clips_are_those_of_the_manifest_one_by_one(project):
    tokenizer, data = find_base("tiny").tokenizer(), start(project)
    rows = [line.split("|") for line in project.train_csv.read_text(encoding="utf-8").splitlines()[1:]]
    assert [clip.audio for clip in data.train] == [project.dataset / name for name, _, _ in rows]
    assert [clip.tokens.tolist() for clip in data.train] == [tokenizer.encode(text, "en") for _, text, _ in rows]
    lengths = [round((1.0 + 0.31 * number) * 22_050) for number in range(6)]
    assert data.train.num_samples.tolist() == lengths and data.audio_bytes == 2 * sum(lengths)
    assert data.longest.audio.name == "clip5.wav"
    assert data.train.positions(7).tolist() == [len(clip.tokens) + len(clip.codes) + 7 for clip in data.train]


CHANGES: dict[str, Callable[[Project], object]] = {
    "text": lambda project: change(project.train_csv, "worm", "fish"),
    "evaluation text": lambda project: change(project.eval_csv, "feather", "colour"),
    "recording": lambda project: write_wav(project.dataset / "wavs" / "clip3.wav", speech(1.5, seed=77), 22_050),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_what_changed_since_the_last_start_is_read_again(project, kind):
    before = start(project)
    assert start(project).fingerprint == before.fingerprint
    CHANGES[kind](project)
    assert start(project).fingerprint != before.fingerprint


def test_a_missing_recording_is_named(project):
    start(project)
    (project.dataset / "wavs" / "clip2.wav").unlink()
    with pytest.raises(UserError, match=r"1 of 6 audio files are missing, the first is clip2\.wav"):
        start(project)


def test_a_list_that_does_not_fit_into_memory_is_refused(project, monkeypatch):
    monkeypatch.setattr(load, "memory", lambda: SimpleNamespace(available_bytes=8_500_000_000))
    monkeypatch.setattr(load, "BYTES_A_CLIP", 10**9)
    assert len(start(project).train) == 6, "of eight clips"
    monkeypatch.setattr(load, "BYTES_A_CLIP", 1.1 * 10**9)
    with pytest.raises(UserError, match=r"a list of 8 clips needs up to 8\.8 GB of memory, and 8\.5 GB are free"):
        start(project)


def test_what_is_too_long_is_dropped_before_its_text_is_read(project, monkeypatch):
    read: list[str] = []
    tokens_of = load.tokens_of
    monkeypatch.setattr(load, "tokens_of", lambda text, *rest: read.append(text) or tokens_of(text, *rest))
    data = start(project, max_audio_length=64_000)
    assert data.dropped == [{"clip": "clip7.wav", "reason": "3.2 s is longer than 2.9 s"}]
    assert len(read) == len(data.train) + len(data.evaluate) == 7


def test_word_times_belong_to_their_clips(project):
    change(project.train_csv, "audio_file|text|speaker_name", "audio_file|text|speaker_name|word_times")
    lines = project.train_csv.read_text(encoding="utf-8").splitlines()
    timed = [f"{line}|{'0.00 0.10 0.20 0.30' if 'Still' in line else ''}" for line in lines[1:]]
    project.train_csv.write_text("\n".join([lines[0], *timed]) + "\n", encoding="utf-8")
    clips = start(project).train
    assert clips.num_timed == 1 and clips[2].reading[:, 0].tolist()[:2] == [0.0, pytest.approx(0.1)]


def test_a_list_of_objects_and_one_in_another_process_hold_the_same(project):
    clips = start(project).train
    assert plain(listed(list(clips))) == plain(clips) == plain(pickle.loads(pickle.dumps(clips)))


def test_speakers_are_counted(project):
    clips: list[TrainingClip] = list(start(project).train)
    named = [replace(clip, speaker="ab"[number < 5]) for number, clip in enumerate(clips)]
    assert listed(named).num_alone == 1


@pytest.mark.slow
def test_processes_read_texts_as_one_does(project, monkeypatch):
    one = start(project)
    monkeypatch.setattr(load, "WORTH_PROCESSES", 1)
    monkeypatch.setattr(load, "TEXTS_A_TASK", 2)
    assert plain(start(project).train) == plain(one.train)


def test_each_process_reads_and_encodes_its_part(project, monkeypatch):
    """Threads stand in for the processes, which share nothing but the files."""
    # Other tests may have trained on the project that this one is a copy of.
    shutil.rmtree(project.dataset / "codes", ignore_errors=True)
    monkeypatch.setattr(stamps, "_RACY_NS", -1)
    did, read, add = Counter[tuple[str, int]](), codes.read_facts, CodeCache.add

    def read_counted(path: Path) -> codes.AudioFacts:
        did["read", threading.get_ident()] += 1
        return read(path)

    def add_counted(self: CodeCache, encoded: dict) -> None:
        did["encoded", threading.get_ident()] += len(encoded)
        add(self, encoded)

    monkeypatch.setattr(codes, "read_facts", read_counted)
    monkeypatch.setattr(CodeCache, "add", add_counted)
    meet, same = threading.Barrier(2, timeout=60).wait, {"num_processes": 2, "device": torch.device("cpu")}
    parts = [
        SimpleNamespace(process_index=rank, is_main_process=rank == 0, wait_for_everyone=meet, **same)
        for rank in range(2)
    ]
    with ThreadPoolExecutor(2) as threads:
        found = [plain(data.train) + plain(data.evaluate) for data in threads.map(partial(start, project), parts)]
    assert list(did.values()) == [4] * 4
    alone = start(project)
    assert found == [plain(alone.train) + plain(alone.evaluate)] * 2
