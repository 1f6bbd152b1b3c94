"""A run has its devices before it uses them, and all its processes learn of a refusal."""

import os
import socket
from pathlib import Path

import pytest

from tests.training.test_run import config_of
from utils import jobs
from utils.errors import UserError
from utils.project.paths import Project
from utils.training.claim import claimed
from utils.training.run import fine_tune


class Reached(Exception):
    """Training came to where it uses the device."""


def test_nothing_uses_the_device_before_it_is_claimed_and_it_is_free_after_any_end(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reached(*_: object) -> None:
        raise Reached

    config = config_of(project, device="cpu")
    monkeypatch.setattr("utils.training.setup.make_accelerator", reached)
    with pytest.raises(Reached):
        fine_tune(config)
    held = jobs.hold("train", device="cpu", output=project.output, folder=project.folder)
    with held, pytest.raises(UserError, match="the CPU is in use by the train job"):
        fine_tune(config)
    assert not project.runs.exists() or not list(project.runs.iterdir())


def one_of_two(rank: int, port: int, project: Project) -> str:
    """What this process of a run of two came to."""
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_PORT": port, "MASTER_ADDR": "127.0.0.1"}
    os.environ.update({name: str(value) for name, value in places.items()})
    try:
        with claimed("cpu", project):
            return "trains"
    except UserError as error:
        return str(error.what)


@pytest.mark.skipif(os.name != "posix", reason="needs fork")
def test_all_processes_learn_when_one_is_refused_its_device(tmp_path: Path) -> None:
    project = Project(name="voice", output=tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def together(port: int) -> list[str]:
        pipes, children = [os.pipe() for _ in range(2)], []
        for rank, (_, write) in enumerate(pipes):
            if (child := os.fork()) == 0:
                os.setpgid(0, 0)
                os.write(write, one_of_two(rank, port, project).encode())
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        return [os.read(read, 10_000).decode() for read, _ in pipes]

    assert together(port) == ["trains", "trains"]
    reader, writer = os.pipe()
    end_reader, end_writer = os.pipe()
    if (other := os.fork()) == 0:
        # A run of somebody else, no parent of the two.
        with jobs.hold("train", device="cpu", output=tmp_path, folder=tmp_path / "other"):
            os.write(writer, b"has it")
            os.close(end_writer)
            os.read(end_reader, 1)
        os._exit(0)
    assert os.read(reader, 10) == b"has it"
    first, second = together(port)
    os.close(end_writer)
    os.waitpid(other, 0)
    assert first == "Training is already running: the CPU is in use by the train job 'other'"
    assert second == f"another process of this run has no device: {first}"
