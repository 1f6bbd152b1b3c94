"""Training from shards is training from files, bit for bit; a missing or broken shard is named, and nothing is lost."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.training.data.test_clip_list import start
from tests.training.test_ends import after, events_of
from tests.training.test_resume import assert_same_end, cut_run, steps_of
from tests.training.test_run import config_of
from utils.audio.decode import load_audio
from utils.audio.shards import check_shard, index_file
from utils.checkpoints.store import Checkpoints
from utils.cli.shards import main
from utils.config import DATASET_RATE, TrainConfig
from utils.dataset.storage import stamps
from utils.dataset.storage.manifest import read_manifest
from utils.dataset.storage.shards import pack
from utils.errors import UserError
from utils.project.paths import Project
from utils.training.run import fine_tune

pytest.importorskip("lhotse", reason="not installed: requirements-shards.txt")
SHARD = "recording.000001.tar"


@pytest.fixture
def packed(project: Project) -> Project:
    """Six clips in shards of three, and two to evaluate with; their files are gone."""
    csvs = {"train": project.train_csv, "evaluate": project.eval_csv}
    pack(csvs, project.dataset / "shards", shard_clips=3)
    (project.dataset / "wavs").rename(project.dataset / "moved")
    return project


def csvs_of(project: Project) -> dict[str, Path]:
    folder = project.dataset / "shards"
    return {"train_csv": folder / project.train_csv.name, "eval_csv": folder / project.eval_csv.name}


def settings_of(project: Project, **more) -> TrainConfig:
    return config_of(project, batch_size=1, dropout=0.1, **csvs_of(project), **more)


def shard(project: Project) -> Path:
    return project.dataset / "shards" / "train" / SHARD


def flip_a_byte(path: Path) -> None:
    """As a disk does that fails: neither size nor name change."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


def test_a_run_from_shards_is_that_from_files_wherever_it_was_cut(
    project: Project, packed: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    wavs, moved, whole = project.dataset / "wavs", project.dataset / "moved", project.folder / "whole"
    moved.rename(wavs)
    from_files = fine_tune(config_of(project, batch_size=1, dropout=0.1))
    from_files.folder.rename(whole)
    wavs.rename(moved)
    settings = settings_of(packed, checkpoint_every=1, num_workers=2)
    folder = cut_run(settings, packed, "in mid-epoch", monkeypatch)
    resumed = fine_tune(replace(settings, resume=folder))
    assert resumed.epoch_losses == from_files.epoch_losses
    mine, theirs = steps_of(folder), steps_of(whole)
    assert [mine[step]["loss"] for step in range(1, 13)] == [theirs[step]["loss"] for step in range(1, 13)]
    assert_same_end(folder, whole)


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: path.unlink(), f"{SHARD} is missing"),
    "cut off": (lambda path: os.truncate(path, path.stat().st_size // 2), f"{SHARD} is broken: what it has at byte"),
    "changed": (flip_a_byte, f"{SHARD} is broken: what it has at byte"),
    "no index": (lambda path: index_file(path).unlink(), r"recording\.000001\.npy is missing"),
    "index cut off": (lambda path: os.truncate(index_file(path), 200), r"recording\.000001\.npy is broken"),
}


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_shard_that_is_missing_or_broken_is_refused_at_the_start(
    packed: Project, monkeypatch: pytest.MonkeyPatch, fault: str, known: bool
) -> None:
    csvs = csvs_of(packed)
    if known:
        monkeypatch.setattr(stamps, "_RACY_NS", -1)
        start(packed, **csvs)
        time.sleep(0.05)  # so that the clock of the file system has moved on
    spoil, said = FAULTS[fault]
    spoil(shard(packed))
    with pytest.raises(UserError, match=said) as refused:
        start(packed, **csvs)
    assert shard(packed).stem in refused.value.where


@pytest.mark.parametrize(("fault", "workers"), [("missing", 0), ("cut off", 2)])
def test_a_shard_lost_in_mid_run_is_named_and_what_was_trained_is_saved(
    packed: Project, fault: str, workers: int
) -> None:
    settings, original = settings_of(packed, num_workers=workers), shard(packed).read_bytes()

    def lose() -> None:
        # Every recording in it, whichever comes next.
        if fault == "missing":
            shard(packed).unlink()
        else:
            shard(packed).write_bytes(original[: len(original) // 50])

    with pytest.raises(UserError, match=f"cannot be read any more: the shard {SHARD} is") as ended:
        fine_tune(settings, progress=after(2, lose))
    assert "--resume" in ended.value.fix
    folder = max(packed.runs.iterdir())
    end, last = events_of(folder)[-1], Checkpoints(folder / "checkpoints").last()
    assert end["kind"] == "failed" and last is not None
    assert last.name == f"step-{end['step']:08d}", "every step that was taken is saved"
    shard(packed).write_bytes(original)
    whole = fine_tune(settings)
    assert fine_tune(replace(settings, resume=folder)).epoch_losses == whole.epoch_losses


def test_a_shard_is_checked_once(packed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stamps, "_RACY_NS", -1)
    checked: list[str] = []
    monkeypatch.setattr(
        "utils.training.data.audio_files.check_shard", lambda path: checked.append(path.name) or check_shard(path)
    )
    start(packed, **csvs_of(packed))
    assert checked == ["recording.000000.tar", "recording.000001.tar", "recording.000000.tar"]
    start(packed, **csvs_of(packed))
    start(packed, **csvs_of(packed), max_text_length=100)
    assert len(checked) == 3


def test_the_command_packs_what_it_then_trains_from(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--project", project.name, "--output", str(project.output), "--shard-clips", "4"])
    said = capsys.readouterr().out
    assert "8 clips in 3 shards" in said and "python -m utils.cli.train --project voice" in said
    clips = read_manifest(project.dataset / "shards" / project.train_csv.name)
    assert [clip.text for clip in clips] == [clip.text for clip in read_manifest(project.train_csv)]
    for clip in clips:
        original = load_audio(project.dataset / "wavs" / clip.audio.name, DATASET_RATE)
        assert torch.equal(load_audio(clip.audio, DATASET_RATE), original)
    with pytest.raises(SystemExit) as end:
        main(["--project", project.name, "--output", str(project.output)])
    assert end.value.code == 2 and "there are shards already" in capsys.readouterr().err
