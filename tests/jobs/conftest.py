"""An output folder whose jobs end with the test, and a temporary folder of its own."""

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from utils.runs.process import ProcessId, end_tree


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which job has a GPU is noted there."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("tmp")))


@pytest.fixture
def output(tmp_path: Path) -> Iterator[Path]:
    """An output folder; the children that were started in the test are ended after it, whatever their records say."""
    yield tmp_path / "output"
    for process in psutil.process_iter(["cmdline"]):
        if any(str(tmp_path) in argument for argument in process.info["cmdline"] or ()):
            with suppress(psutil.NoSuchProcess):  # it may have ended by itself
                end_tree(ProcessId.of(process.pid), whole_session=True)
