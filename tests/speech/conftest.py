"""An empty project, and a queue whose worker is quick."""

from collections.abc import Iterator

import pytest

from tests.speech.workers import worker
from utils.project.paths import Project
from utils.speech.take_queue import GenerationQueue


@pytest.fixture
def project(tmp_path) -> Project:
    project = Project(name="voice", output=tmp_path)
    project.folder.mkdir()
    return project


@pytest.fixture
def queue(tmp_path) -> Iterator[GenerationQueue]:
    queue = GenerationQueue(tmp_path, device="cpu", worker=worker(tmp_path))
    yield queue
    queue.release("the test is over")
