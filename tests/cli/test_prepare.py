"""python -m utils.cli.prepare: a dataset and a table, or a plain message and status 2 with everything as it was."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dataset.recordings import add_row, make_source, snapshot
from utils.cli.prepare import main
from utils.project.paths import Project

ROOT = Path(__file__).resolve().parents[2]


def _args(source: Path, output: Path, *more: str, project: str = "voice", language: str = "en") -> list[str]:
    given = ["--input", str(source), "--project", project, "--language", language, "--output", str(output)]
    return [*given, "--base", "tiny", *more]


def _command(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "utils.cli.prepare", *args]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    main(_args(make_source(tmp_path / "good", 3), tmp_path / "out"))
    return Project(name="voice", output=tmp_path / "out")


@pytest.mark.slow
def test_some_clips_as_a_user_would(tmp_path):
    """All forty of the voice: tests/cli/test_demo.py."""
    done = _command(*_args(make_source(tmp_path / "in", 6), tmp_path))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"dataset {tmp_path}/voice/dataset: 6 new clips, 0 as before"
    assert [line.split() for line in lines[2:4]] == [["given", "6"], ["used", "6", "0.4"]]
    assert lines[-1].startswith("next  python -m utils.cli.train --project voice")
    assert done.stderr.startswith("preparing clips: 6 in ")
    assert (tmp_path / "voice" / "dataset" / "metadata_train.csv").is_file()


def test_a_fault_as_a_user_would_see_it(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(_args(tmp_path / "nowhere", tmp_path))
    printed = capsys.readouterr()
    assert printed.err.startswith("error: the input does not exist\n")
    assert "Traceback" not in printed.err and not printed.out


def test_dropped_clips_are_listed_and_do_not_fail_the_command(tmp_path, capsys):
    source = make_source(tmp_path / "in", 3)
    (source / "fake.wav").write_text("I am text.")
    add_row(source, "fake.wav", "Hello.")
    main(_args(source, tmp_path / "out"))
    assert "fake.wav: unreadable audio: fake.wav cannot be read as audio" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--language", "zh"], "pip install pypinyin"),
        (["--eval-fraction", "1.5", "--max-text-length", "0"], "2 settings are not usable"),
    ],
)
def test_bad_settings_exit_with_2_and_the_dataset_stays(
    project,
    tmp_path,
    capsys,
    monkeypatch,
    more,
    message,
):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    before = snapshot(project)
    capsys.readouterr()
    with pytest.raises(SystemExit, match="2"):
        main([*_args(tmp_path / "good", project.output), *more])
    text = capsys.readouterr().err
    assert text.startswith("error: ") and message in text
    assert snapshot(project) == before
