"""A browser and an app; a project with a dataset of four clips, and what would have been started for it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.conftest import without_programs
from tests.webui.app import running_app
from tests.webui.browser import running_browser
from tests.webui.small_project import make_project
from utils import jobs
from utils.project.paths import Project
from webui.interface import create_ui
from webui.page import Page
from webui.studio import Studio


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as opened:
        yield opened


@pytest.fixture(scope="session")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `address` serves: one folder, in which each file has projects of names that no other file uses."""
    return tmp_path_factory.mktemp("output")


@pytest.fixture(scope="session")
def address(output: Path) -> Iterator[str]:
    """The app, for all tests that it needs no flags for: a start takes seconds."""
    with running_app(output, env=without_programs()) as url:
        yield url


@pytest.fixture(scope="module")
def own_output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `own_address` serves."""
    return tmp_path_factory.mktemp("output")


@pytest.fixture(scope="module")
def own_address(own_output: Path) -> Iterator[str]:
    """An app of the file alone: what jobs of other files say in the bar would move its page."""
    with running_app(own_output) as url:
        yield url


@pytest.fixture(scope="session")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The page without a server, for tests that only look at it."""
    return create_ui(tmp_path_factory.mktemp("output"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "output", "maria")


@pytest.fixture
def studio(project: Project) -> Studio:
    return Studio(output=project.output)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What would have been started, once what it needs was freed."""
    found: list[tuple[str, Any]] = []

    def start(kind: str, config: Any, *, before: Callable[[], object] | None = None) -> None:
        if before:
            before()
        found.append((kind, config))

    monkeypatch.setattr(jobs, "start", start)
    return found
