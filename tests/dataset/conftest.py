"""A dataset of the clips of a module's own `source`."""

import pytest

from tests.dataset.recordings import config
from utils.dataset.build import prepare
from utils.project.paths import Project


@pytest.fixture
def project(tmp_path, source) -> Project:
    prepare(config(source, tmp_path / "out"))
    return Project(name="voice", output=tmp_path / "out")
