"""Tests as on a machine without espeak-ng, a browser and the word list: none of them is found, and all else is."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from recipes.base.word_lists import DICTIONARY, WordLists, find_dictionary
from scripts.without_programs import PROGRAMS
from tests.webui.browser import NAMES
from utils.errors import UserError
from utils.evaluation.reference import PROGRAM

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "without_programs.py"
LOOK = f"for name in {' '.join(PROGRAMS)} other; do command -v $name; done; ls $XDG_DATA_DIRS/dict; exit 7"


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """A machine that has them all, each under two names of its folder, and another program beside them."""
    for name in ("usr/bin", "usr/share/dict"):
        (tmp_path / name).mkdir(parents=True)
    for name in (*PROGRAMS, "other"):
        (tmp_path / "usr" / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "usr" / "bin" / name).chmod(0o755)
    (tmp_path / "usr" / "share" / DICTIONARY).write_text("ant\nbee\ncat\n")
    (tmp_path / "bin").symlink_to("usr/bin")
    path = os.pathsep.join([str(tmp_path / "usr" / "bin"), str(tmp_path / "bin"), "/usr/bin", "/bin"])
    return {"PATH": path, "XDG_DATA_DIRS": str(tmp_path / "usr" / "share")}


def test_a_command_finds_all_but_these(installed: dict[str, str]) -> None:
    command = [sys.executable, str(SCRIPT), "sh", "-c", LOOK]
    done = subprocess.run(command, env=installed, capture_output=True, text=True, check=False)
    assert [Path(line).name for line in done.stdout.splitlines()] == ["other"] and done.returncode == 7


def test_the_hidden_ones_are_those_that_are_looked_for() -> None:
    assert {PROGRAM, *NAMES} <= set(PROGRAMS)


def test_tests_without_the_marker_find_none() -> None:
    assert not any(map(shutil.which, PROGRAMS)) and find_dictionary() is None
    with pytest.raises(UserError, match="apt-get install wamerican-small"):
        WordLists(1)


def test_the_dictionary_is_found_in_the_folders_for_data(installed: dict[str, str], monkeypatch) -> None:
    monkeypatch.setenv("XDG_DATA_DIRS", f"/nowhere:{installed['XDG_DATA_DIRS']}")
    assert next(iter(WordLists(1)))
