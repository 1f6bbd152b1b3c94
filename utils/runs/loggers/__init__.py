"""Programs that show a run beside the page: each is a module here whose class subscribes to the run's events.

A new one is one file and a line of `LOGGERS`; its name is then a value of `log_to`.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from utils.errors import UserError
from utils.runs.log import Logger

LOGGERS = {"tensorboard": "TensorBoardLogger", "wandb": "WandbLogger"}
"""Modules here, each with its class."""
SCALARS = ("step", "eval", "memory")
"""Events whose numbers are curves over the steps."""


def find_loggers(log_to: str | None) -> list[type[Logger]]:
    """The loggers that a comma-separated list names.

    Raises:
        UserError: there is none of that name, or its package is not installed.
    """
    found = []
    for name in filter(None, (part.strip() for part in (log_to or "").split(","))):
        if name not in LOGGERS:
            raise UserError(what=f"there is no logger {name!r}", where="log_to", fix=f"use {' or '.join(LOGGERS)}")
        try:
            found.append(getattr(import_module(f"{__name__}.{name}"), LOGGERS[name]))
        except ModuleNotFoundError as error:
            fix = f"install it: python -m pip install {error.name}"
            raise UserError(what=f"{error.name} is not installed", where=f"log_to {name}", fix=fix) from error
    return found


def scalars(kind: str, fields: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of an event as (kind/name, value); those of events that are no curves are none."""
    for name, value in fields.items() if kind in SCALARS else ():
        if isinstance(value, int | float) and not isinstance(value, bool) and name != "step":
            yield f"{kind}/{name}", float(value)
