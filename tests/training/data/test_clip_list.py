"""A clip list is made once, holds what reading clip by clip gives, and is made anew when its sources changed."""

import hashlib
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sounds import speech
from utils.audio.write import write_wav
from utils.bases.find import find_base
from utils.config import TrainConfig
from utils.dataset.storage import stamps
from utils.errors import UserError
from utils.project.paths import Project
from utils.training.data import clip_list, list_build, load
from utils.training.data.clip_list import ClipList
from utils.training.data.clips import TrainingClip
from utils.training.data.load import TrainingData, load_data
from utils.training.data.many import in_ranges
from utils.training.optimizer.precision import make_accelerator
from utils.training.settings import settle


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stamps prove what they say at once."""
    monkeypatch.setattr(stamps, "_RACY_NS", -1)


@pytest.fixture
def makes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Manifests that a list is made of."""
    names: list[str] = []
    write = load.write_rows
    monkeypatch.setattr(load, "write_rows", lambda csv, *rest: names.append(csv.name) or write(csv, *rest))
    return names


def start(project: Project, **settings) -> TrainingData:
    """As a training does."""
    base = find_base("tiny")
    config = TrainConfig(base="tiny", project=project.name, output=project.output, device="cpu", **settings)
    return load_data(settle(config, project, base), project, base, make_accelerator("cpu"))


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


def test_a_list_is_made_once_and_found_again(project: Project, makes: list[str]) -> None:
    first, second = start(project), start(project)
    assert makes == ["metadata_train.csv", "metadata_eval.csv"]
    assert [plain(first.train), plain(first.evaluate)] == [plain(second.train), plain(second.evaluate)]
    assert (len(first.train), first.fingerprint()) == (6, second.fingerprint())


def test_the_fingerprint_is_that_of_earlier_versions(project: Project) -> None:
    data, digest = start(project), hashlib.sha256()
    for clip in (*data.train, *data.evaluate):
        digest.update(f"{clip.audio.name} {clip.num_samples}".encode())
        digest.update(clip.tokens.numpy().tobytes())
        digest.update(clip.codes.tobytes())
    assert data.fingerprint() == digest.hexdigest()[:12]


def test_clips_are_those_of_the_manifest_one_by_one(project: Project) -> None:
    tokenizer, data = find_base("tiny").tokenizer(), start(project)
    rows = [line.split("|") for line in project.train_csv.read_text(encoding="utf-8").splitlines()[1:]]
    assert [clip.audio for clip in data.train] == [project.dataset / name for name, _, _ in rows]
    assert [clip.tokens.tolist() for clip in data.train] == [tokenizer.encode(text, "en") for _, text, _ in rows]
    assert data.train.num_samples.tolist() == [round((1.0 + 0.31 * number) * 22_050) for number in range(6)]
    assert data.longest.audio.name == "clip5.wav"


CHANGES: dict[str, Callable[[Project], object]] = {
    "text": lambda project: change(project.train_csv, "worm", "fish"),
    "evaluation text": lambda project: change(project.eval_csv, "feather", "colour"),
    "recording": lambda project: write_wav(project.dataset / "wavs" / "clip3.wav", speech(1.5, seed=77), 22_050),
    "codes": lambda project: shutil.rmtree(next(project.dataset.glob("codes/*/codes.bin")).parent),
    "cut column": lambda project: next(project.dataset.glob("codes/lists/*/train/tokens")).write_bytes(b"\0" * 8),
    "no column": lambda project: next(project.dataset.glob("codes/lists/*/evaluate/samples")).unlink(),
    "about": lambda project: next(project.dataset.glob("codes/lists/*/about.json")).write_text("{"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_list_is_made_anew_when_what_it_was_made_of_changed(
    project: Project, makes: list[str], kind: str, tmp_path: Path
) -> None:
    start(project)
    CHANGES[kind](project)
    makes.clear()
    found = start(project)
    assert makes == ["metadata_train.csv", "metadata_eval.csv"]
    shutil.rmtree(project.dataset / "codes")
    assert [plain(found.train), plain(found.evaluate)] == [plain(one) for one in whole(start(project))]
    assert len(list(project.dataset.glob("codes/lists/*-*"))) == 1


def whole(data: TrainingData) -> tuple[ClipList, ClipList]:
    return data.train, data.evaluate


def test_a_recording_that_is_gone_is_named(project: Project) -> None:
    start(project)
    (project.dataset / "wavs" / "clip2.wav").unlink()
    with pytest.raises(UserError, match=r"1 of 6 audio files are missing, the first is clip2\.wav"):
        start(project)
    assert not list(project.dataset.glob("codes/lists/.making-*")), "what was begun is removed"


def test_other_settings_have_a_list_of_their_own(project: Project, makes: list[str]) -> None:
    start(project)
    shorter = start(project, max_audio_length=64_000)
    assert [clip.audio.name for clip in shorter.evaluate] == ["clip6.wav"]
    makes.clear()
    start(project)
    assert makes == []


def test_what_is_too_long_is_dropped_before_its_text_is_read(project: Project, monkeypatch) -> None:
    read: list[str] = []
    tokens_of = list_build.tokens_of
    monkeypatch.setattr(list_build, "tokens_of", lambda text, *rest: read.append(text) or tokens_of(text, *rest))
    data = start(project, max_audio_length=64_000)
    assert data.dropped == [{"clip": "clip7.wav", "reason": "3.2 s is longer than 2.9 s"}]
    assert len(read) == len(data.train) + len(data.evaluate) == 7


@pytest.mark.parametrize("kept", [True, False])
def test_small_blocks_give_the_same_list(project: Project, monkeypatch: pytest.MonkeyPatch, kept: bool) -> None:
    change(project.train_csv, "audio_file|text|speaker_name", "audio_file|text|speaker_name|word_times")
    lines = project.train_csv.read_text(encoding="utf-8").splitlines()
    timed = [f"{line}|{'0.00 0.10 0.20 0.30' if 'Still' in line else ''}" for line in lines[1:]]
    project.train_csv.write_text("\n".join([lines[0], *timed]) + "\n", encoding="utf-8")
    before = start(project)
    assert before.train.num_timed == 1 and before.train[2].reading[:, 0].tolist()[:2] == [0.0, pytest.approx(0.1)]
    if not kept:
        shutil.rmtree(project.dataset / "codes")
    shutil.rmtree(project.dataset / "codes" / "lists", ignore_errors=True)
    monkeypatch.setattr(list_build, "BLOCK", 2)
    monkeypatch.setattr(list_build, "ROWS_A_TASK", 1)
    assert [plain(one) for one in whole(start(project))] == [plain(one) for one in whole(before)]


def test_a_list_in_memory_and_one_in_another_process_hold_the_same(project: Project) -> None:
    clips = start(project).train
    assert plain(ClipList.of(list(clips))) == plain(clips) == plain(pickle.loads(pickle.dumps(clips)))
    assert len(pickle.dumps(clips)) < 1_000, "its place is sent, not the clips"
    assert ClipList.of([replace(clips[1])]).positions(3).tolist() == [len(clips[1].tokens) + len(clips[1].codes) + 3]


def test_speakers_are_counted(project: Project) -> None:
    clips: list[TrainingClip] = list(start(project).train)
    named = [replace(clip, speaker="ab"[number < 5]) for number, clip in enumerate(clips)]
    assert ClipList.of(named).num_alone == 1


def test_ranges_come_in_their_order_whichever_is_done_first(monkeypatch: pytest.MonkeyPatch) -> None:
    from utils.training.data import many

    monkeypatch.setattr(many, "run_tasks", lambda work, tasks, **_: (([one], work([one])) for one in reversed(tasks)))
    found = list(in_ranges(lambda tasks: [list(one) for one in tasks], 5, rows_a_task=2, in_processes=False))
    assert found == [(range(2), [0, 1]), (range(2, 4), [2, 3]), (range(4, 5), [4])]


@pytest.mark.slow
def test_processes_read_texts_as_one_does(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    one = start(project)
    shutil.rmtree(project.dataset / "codes" / "lists")
    monkeypatch.setattr(list_build, "WORTH_PROCESSES", 1)
    monkeypatch.setattr(list_build, "ROWS_A_TASK", 2)
    assert plain(start(project).train) == plain(one.train)


def test_pages_that_are_given_back_are_read_again(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    found = start(project).train
    as_it_is = plain(found), found.positions(7).tolist(), found.longest, found.seconds, found.is_whole
    monkeypatch.setattr(clip_list, "_READ_BEFORE_RELEASE", 1)
    monkeypatch.setattr(clip_list, "_LOOKED_AT_ONCE", 2)
    assert (plain(found), found.positions(7).tolist(), found.longest, found.seconds, found.is_whole) == as_it_is
    assert found.positions(7).tolist() == [len(clip.tokens) + len(clip.codes) + 7 for clip in found]
    assert found[found.longest].num_samples == max(clip.num_samples for clip in found)
