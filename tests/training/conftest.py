"""A project with a prepared dataset, made once; runs go to folders of their own."""

import multiprocessing
import shutil
from multiprocessing.context import ForkServerContext
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


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    """Makes processes from one that has loaded the libraries: dozens of starts are then a second each."""
    context = multiprocessing.get_context("forkserver")
    tests = ["tests.training.test_kill", "tests.training.test_processes"]
    context.set_forkserver_preload([*tests, "utils.training.run", "TTS.tts.layers.xtts.tokenizer"])
    return context
