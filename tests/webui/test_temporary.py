"""What gradio keeps for a while lies in a folder of the app's own, which ends with the app, however it ends."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.webui.app import ROOT
from webui.temporary import KEPT_S, LOOK_S, VARIABLE, own_folder

KILLED = """
import os
from webui.temporary import own_folder
with own_folder() as folder:
    (folder / "upload").mkdir()
    print(folder, flush=True)
    os._exit(9)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's temporary folder."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv(VARIABLE, "another")
    return tmp_path


def test_the_folder_is_gradios_and_goes_with_the_app(place):
    with own_folder() as folder:
        assert os.environ[VARIABLE] == str(folder) and folder.parent == place and list(folder.iterdir()) == []
        with own_folder() as second:
            # Another app starts, and sees that the first one lives.
            (folder / "upload.wav").write_bytes(b"x")
            assert second != folder
        assert (folder / "upload.wav").is_file() and not second.exists()
    assert list(place.iterdir()) == [] and os.environ[VARIABLE] == "another"


def test_what_a_killed_app_left_is_removed_and_others_folders_are_not(place):
    (place / "gradio").mkdir()
    run = [sys.executable, "-c", KILLED]
    reported = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    left = Path(reported.strip())
    assert left.is_dir() and left.parent == place
    with own_folder():
        assert not left.exists()
    assert [path.name for path in place.iterdir()] == ["gradio"]


def test_copies_are_removed_after_a_day(laid_out):
    assert laid_out.delete_cache == (LOOK_S, KEPT_S) == (3600, 86400)
