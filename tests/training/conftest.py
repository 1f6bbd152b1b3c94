"""A project with a prepared dataset, made once; runs go to folders of their own."""

import shutil
from pathlib import Path

import pytest

from tests.sounds import make_project
from utils.paths import Project


@pytest.fixture(scope="session")
def prepared(tmp_path_factory) -> Project:
    return make_project(tmp_path_factory.mktemp("output"))


@pytest.fixture
def project(prepared: Project, tmp_path: Path) -> Project:
    """A copy of the prepared project that a test may change."""
    shutil.copytree(prepared.folder, tmp_path / prepared.name)
    return Project(name=prepared.name, output=tmp_path)
