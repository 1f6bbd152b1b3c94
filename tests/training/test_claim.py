"""A run has its device before it uses it."""

import pytest

from tests.training.test_run import config_of
from utils import jobs
from utils.errors import UserError
from utils.project.paths import Project
from utils.training.train import fine_tune


class Reached(Exception):
    """Training reached the place where it uses the device."""


def test_nothing_uses_the_device_before_it_is_claimed_and_it_is_free_after_any_end(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reached(*_: object) -> None:
        raise Reached

    config = config_of(project, device="cpu")
    monkeypatch.setattr("utils.training.train.make_accelerator", reached)
    with pytest.raises(Reached):
        fine_tune(config)
    held = jobs.hold("train", device="cpu", output=project.output, folder=project.folder)
    with held, pytest.raises(UserError, match="the CPU is in use by the train job"):
        fine_tune(config)
    assert not project.runs.exists() or not list(project.runs.iterdir())
