"""Settings of runs that tests begin."""

from typing import Any

from utils.config import TrainConfig
from utils.project.paths import Project


def tiny_run(project: Project, **settings: Any) -> TrainConfig:
    """A training of the tiny base in a project."""
    return TrainConfig(**{"base": "tiny"} | settings, project=project.name, output=project.output)
