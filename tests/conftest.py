"""What all tests share: no test touches the user's own base models, and tests that need a GPU skip without one."""

import gc
import logging
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from subprocess import Popen
from typing import Any

import psutil
import pytest
from httpx._transports import default
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from scripts.without_programs import environment
from utils.hardware.environment import TORCH_ENVIRONMENT
from utils.project.paths import BASES_VARIABLE, Project

# Inputs that are made up for a test; on top of the profile for machines that test by themselves, where there is CI.
for profile, num_inputs in (("long", 2_000), ("quick", 200)):
    settings.register_profile(profile, settings(), max_examples=num_inputs, deadline=None)
settings.load_profile("quick")

ROOT = Path(__file__).resolve().parent.parent
USES_SERVER = re.compile(r"^def \w+\((?:.*, )?(address|server|processes)[,:)]", re.MULTILINE)
"""A test of the session's app, speech server or forkserver, each of which takes a worker seconds to start."""
MEMORY_DISK, ITS_BYTES, MEMORY_BYTES = Path("/dev/shm"), 8e9, 16e9

# Before torch is loaded: threads that wait by spinning take the other processes' time on a shared machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ["LANGUAGE"] = "en"
if "PYTEST_XDIST_WORKER" in os.environ:
    # Several files run at a time: models as small as the tests' only lose time to a second thread then.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Tests delete hundreds of checkpoints, which takes seconds each on a disk that tells its drive of freed blocks.
IN_MEMORY = (
    "PYTEST_DEBUG_TEMPROOT" not in os.environ
    and MEMORY_DISK.is_dir()
    and shutil.disk_usage(MEMORY_DISK).free > ITS_BYTES
    and psutil.virtual_memory().available > MEMORY_BYTES
)
if IN_MEMORY:
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(MEMORY_DISK)

OF_COMMANDS = TORCH_ENVIRONMENT.keys() - os.environ.keys()

HIDDEN = tempfile.TemporaryDirectory(prefix="without-programs-")


@cache
def without_programs() -> dict[str, str]:
    return environment(Path(HIDDEN.name))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Only a test that is marked `programs` finds the system's: any other runs as on a machine that has none."""
    hidden = {} if item.get_closest_marker("programs") else without_programs()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in hidden.items():
            patch.setenv(name, value)
        try:
            return (yield)
        finally:
            # A command sets these for its own process, which is this one; later tests must not compute with them.
            for name in OF_COMMANDS:
                os.environ.pop(name, None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs a program which is not there, with what to install."""
    needed = [name for marker in item.iter_markers("programs") for name in marker.args]
    if needed:
        from tests.programs import MISSING  # loads torch

        for reason in filter(None, (MISSING[name]() for name in needed)):
            pytest.skip(reason)


def pytest_collection_finish() -> None:
    """Libraries and tests stay to the end: the garbage collector would look at their million objects each time."""
    gc.freeze()
    gc.set_threshold(10_000)  # what tests leave behind is small, and looked at less often


def pytest_unconfigure(config: pytest.Config) -> None:
    """Memory is freed, even after failures; PYTEST_DEBUG_TEMPROOT=/tmp keeps what failed tests wrote."""
    folder = config._tmp_path_factory._basetemp  # type: ignore[attr-defined]  # pytest has no public way
    if IN_MEMORY and folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def bases_of(temporary: Path) -> str:
    """The folder of base models below the temporary one of a session."""
    return str(temporary / "bases")


def pytest_sessionstart(session: pytest.Session) -> None:
    """The tiny base is made while files are collected, once for all workers."""
    config = session.config
    if config.getoption("dist", "no") != "no" and "PYTEST_XDIST_WORKER" not in os.environ:
        folder = bases_of(config._tmp_path_factory.getbasetemp())  # type: ignore[attr-defined]
        call = "import utils.bases.find as f; f.find_base('tiny')"
        config.add_cleanup(Popen([sys.executable, "-c", call], env=os.environ | {BASES_VARIABLE: folder}).wait)


@pytest.fixture(scope="session", autouse=True)
def own_bases_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Base models made or fetched by tests go to a temporary folder, one for the whole session."""
    temporary = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(BASES_VARIABLE, bases_of(temporary.parent if "PYTEST_XDIST_WORKER" in os.environ else temporary))
        yield


@pytest.fixture(scope="session", autouse=True)
def certificates_read_once() -> Iterator[None]:
    """httpx reads all of them for each request of its own, which takes longer than most answers to tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default, "create_ssl_context", cache(default.create_ssl_context))
        yield


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """Commands set up logging for a process of their own; the test process gets its own back."""
    yield
    for name, level in (("", logging.WARNING), ("utils", logging.NOTSET)):
        logger = logging.getLogger(name)
        logger.handlers[:] = [one for one in logger.handlers if type(one).__module__.startswith("_pytest")]
        logger.setLevel(level)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with a prepared dataset, made once; runs go to copies of it."""
    from tests.sounds import make_project  # loads torch

    return make_project(tmp_path_factory.mktemp("output"))


@pytest.fixture(scope="session")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A converted Whisper model of toy size."""
    from tests.dataset.whisper import make_whisper  # loads transformers

    return make_whisper(tmp_path_factory.mktemp("whisper"))


def copy_of(project: Project, output: Path) -> Project:
    shutil.copytree(project.folder, output / project.name)
    return Project(name=project.name, output=output)


@pytest.fixture
def project(prepared: Project, tmp_path: Path) -> Project:
    """A copy of the prepared project that a test may change."""
    return copy_of(prepared, tmp_path)


@pytest.fixture(scope="module")
def file_project(prepared: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy for the runs that several tests of a file look at."""
    return copy_of(prepared, tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    """Makes processes from one that has loaded the libraries: dozens of starts are then a second each."""
    context = multiprocessing.get_context("forkserver")
    tests = ["tests.training.test_kill", "tests.training.test_processes"]
    context.set_forkserver_preload([*tests, "utils.training.train", "TTS.tts.layers.xtts.tokenizer"])
    return context


@cache
def scope_of(file: str) -> str:
    """The server that a test file uses, or the file; asked for each test when it is given out and when it has ended."""
    used = USES_SERVER.search((ROOT / file).read_text(encoding="utf-8"))
    return used[1] if used else file


class Scheduling(LoadFileScheduling):
    """A file's tests stay in one worker, and so do all files that use one server: the app, speech, or processes."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)  # after -m has chosen
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start the app and files of few tests come first; tests marked gpu skip without a CUDA device.

    The few are whole jobs that take long, and a long file at the end leaves the other workers idle. It takes
    --no-loadscope-reorder: xdist by itself begins with the files of the most tests.
    """
    sizes = Counter(item.path for item in items)
    sizes.subtract({path: size for path, size in sizes.items() if "running_app(" in path.read_text(encoding="utf-8")})
    items.sort(key=lambda item: sizes[item.path])  # stable: a file's tests stay together, in their order
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch  # seconds to load, so only when a GPU test is about to run

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
