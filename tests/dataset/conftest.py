"""A dataset of the clips of a module's own `source`."""

from pathlib import Path

import pytest

from tests.dataset.recordings import config
from utils.dataset.build import prepare
from utils.project.paths import Project


@pytest.fixture
def project(tmp_path: Path, source: Path) -> Project:
    prepare(config(source, tmp_path / "out"))
    return Project(name="voice", output=tmp_path / "out")
