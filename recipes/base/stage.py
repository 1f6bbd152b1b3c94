"""What the command of each stage takes."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro

from utils.errors import UserError
from utils.hardware.environment import keep_freed_memory


@dataclass(frozen=True, kw_only=True)
class StageConfig:
    """One stage of the recipe; it resumes from its last checkpoint."""

    work: Path
    """Folder of the recipe's work."""
    action: str = "train"
    """train, or measure: the stage's gate with what is there now."""
    threads: int = 1
    """Processor threads."""
    sentences: int = 60
    """At most this many clips of the choosing set are measured."""
    whisper: str | None = None
    """Recognizer: tiny.en, base or a folder; what is installed when not given."""


def main_of(config_type: type[StageConfig], actions: Mapping[str, Callable[[Any], object]]) -> None:
    """The stage's command."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    config = tyro.cli(config_type)
    torch.set_num_threads(config.threads)
    keep_freed_memory()
    try:
        if config.action not in actions:
            raise UserError(what=f"action is {config.action!r}", fix=f"use one of {', '.join(actions)}")
        actions[config.action](config)
    except UserError as error:
        raise SystemExit(f"error: {error}") from None
