"""A change is all there or not there at all, also after a kill, and two at once are refused."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.dataset.sources import config, make_source, snapshot
from utils.dataset import sound
from utils.dataset.build import prepare
from utils.dataset.staging import Staging, staged
from utils.errors import UserError
from utils.paths import Project

ROOT = Path(__file__).resolve().parents[2]


def _fill(staging: Staging, project: Project, content: str) -> None:
    (staging.wavs / f"{content}.wav").write_text(content)
    for path in (project.train_csv, project.eval_csv, project.report, project.language_file):
        staging.file(path).write_text(content)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(name="voice", output=tmp_path)
    with staged(project) as staging:
        _fill(staging, project, "old")
        staging.commit()
    return project


def test_a_committed_change_is_there_and_the_staging_folder_is_not(project: Project) -> None:
    assert set(snapshot(project)) == {
        "dataset/wavs/old.wav",
        "dataset/metadata_train.csv",
        "dataset/metadata_eval.csv",
        "dataset/report.json",
        "dataset/lang.txt",
    }
    assert not (project.dataset / ".new").exists()


def test_a_change_without_commit_leaves_no_trace(project: Project) -> None:
    before = snapshot(project)
    with staged(project) as staging:
        _fill(staging, project, "new")
    assert snapshot(project) == before


def test_a_change_that_was_complete_when_the_process_died_is_finished(project: Project) -> None:
    staging = Staging(project)
    staging.begin()
    _fill(staging, project, "new")
    (staging.folder / "complete").touch()
    # As after a kill in mid-move: the wav and one file are in place already.
    (staging.wavs / "new.wav").rename(project.dataset / "wavs" / "new.wav")
    staging.file(project.eval_csv).rename(project.eval_csv)
    with staged(project):
        pass
    after = snapshot(project)
    assert {name for name, content in after.items() if content == b"new"} == {
        "dataset/wavs/new.wav",
        "dataset/metadata_train.csv",
        "dataset/metadata_eval.csv",
        "dataset/report.json",
        "dataset/lang.txt",
    }
    assert not (project.dataset / ".new").exists()


def test_what_an_interrupted_preparation_left_is_discarded(project: Project) -> None:
    before = snapshot(project)
    staging = Staging(project)
    staging.begin()
    _fill(staging, project, "torn")
    with staged(project):
        pass
    assert snapshot(project) == before


def test_two_preparations_of_one_project_at_once_are_refused(project: Project) -> None:
    before = snapshot(project)
    with staged(project) as first:
        _fill(first, project, "first")
        with pytest.raises(UserError, match="another preparation of this project is running"), staged(project):
            pass
        first.commit()
    assert snapshot(project) != before


def test_a_killed_preparation_leaves_the_dataset_and_the_next_one_works(tmp_path: Path) -> None:
    project = Project(name="voice", output=tmp_path / "out")
    prepare(config(make_source(tmp_path / "in", 3), project.output))
    before = snapshot(project)
    make_source(tmp_path / "in", 10)
    stall = (
        "import sys, time; from pathlib import Path;"
        "from utils.dataset.build import prepare;"
        "from tests.dataset.sources import config;"
        "prepare(config(Path(sys.argv[1]), Path(sys.argv[2]), workers=1),"
        "progress=lambda done, total: time.sleep(60) if done == 8 else None)"
    )
    command = [sys.executable, "-c", stall, str(tmp_path / "in"), str(project.output)]
    child = subprocess.Popen(command, cwd=ROOT, env=dict(os.environ))
    wavs = project.dataset / ".work" / "wavs"
    deadline = time.monotonic() + 60
    while not (wavs.is_dir() and len(list(wavs.glob("*.wav"))) >= 5):
        assert child.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait()
    left = {name: content for name, content in snapshot(project).items() if "/.new/" not in name}
    assert left == before
    done = {wav.name: wav.stat().st_mtime_ns for wav in wavs.glob("*.wav")}
    assert len(prepare(config(tmp_path / "in", project.output)).used) == 10
    times = {wav.stat().st_mtime_ns for wav in (project.dataset / "wavs").iterdir()}
    # The last chunk had not been noted down yet, so at most that is made again.
    assert len(times & set(done.values())) >= len(done) - 1
    assert not (project.dataset / ".new").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_after_a_kill_in_the_midst_of_several_processes_nothing_runs_on_and_the_rest_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, project = make_source(tmp_path / "in", 40), Project(name="voice", output=tmp_path / "out")
    script = (
        "import sys; from pathlib import Path;"
        "from utils.dataset.build import prepare; from tests.dataset.sources import config;"
        "prepare(config(Path(sys.argv[1]), Path(sys.argv[2]), workers=2, trim=True, loudness=-23.0))"
    )
    child = subprocess.Popen([sys.executable, "-c", script, str(source), str(project.output)], cwd=ROOT)
    log = project.dataset / ".work" / "log.jsonl"
    deadline = time.monotonic() + 300
    while not (log.is_file() and log.read_bytes().count(b'"sound:') >= 8):
        assert child.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    tree = psutil.Process(child.pid).children(recursive=True)
    child.send_signal(signal.SIGKILL)
    child.wait()
    _, alive = psutil.wait_procs(tree, timeout=60)
    assert not alive, "processes outlive the one that was killed"
    assert not project.report.exists()
    noted = log.read_bytes().count(b'"sound:')
    made = []
    decode = sound.decode
    monkeypatch.setattr(sound, "decode", lambda path, **more: made.append(path) or decode(path, **more))
    report = prepare(config(source, project.output, workers=1, trim=True, loudness=-23.0))
    assert len(report.used) == 40
    assert len(made) <= 40 - noted, "what was noted down is not made again"
