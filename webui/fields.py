"""Describe the fields of a settings dataclass: kind and default, from which forms are built."""

import dataclasses
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from utils.config import TrainConfig
from utils.switches import CHECKBOXES

Kind = Literal["bool", "int", "float", "choice", "text"]
KINDS = {"gradient_checkpointing": "recompute", "mixed_precision": "half"}
"""Checkboxes of tab 2 whose setting has several values that are on, and the component that chooses among them."""
NOT_ASKED = ("project", "output", "base", "language", "run_id", "resume", "allow_changes", "preflight")
"""Settings of a training that the page gives itself."""
NOT_OFFERED = ("reading_weight", "trim_end", "log_to", "profile")
"""Settings that need word times, which preparing a dataset never writes, suit all, or need another program."""
PLAIN: dict[Any, Kind] = {bool: "bool", int: "int", float: "float", str: "text"}


@dataclass(frozen=True, kw_only=True)
class Field:
    """One setting."""

    name: str
    kind: Kind
    choices: tuple[str, ...]
    """What may be chosen, for kind "choice"."""
    default: Any
    """None also where the base model or the machine chooses."""
    may_be_open: bool
    """None is a value: the program that runs it chooses."""


def fields_of(config: Any) -> dict[str, Field]:
    """The fields that a form can show, by name; those of other types (paths, lists) are skipped.

    Args:
        config: a settings dataclass.
    """
    assert dataclasses.is_dataclass(config)
    hints = get_type_hints(config)
    found = {}
    for field in dataclasses.fields(config):
        kind, choices, may_be_open = _kind(hints[field.name])
        if kind is not None:
            default = None if field.default is dataclasses.MISSING else field.default
            found[field.name] = Field(
                name=field.name,
                kind=kind,
                choices=choices,
                default=default,
                may_be_open=may_be_open,
            )
    return found


def training_fields() -> dict[str, Field]:
    """The settings of a training that the page's form has a field for, beside the checkboxes."""
    elsewhere = (*(switch.field for switch in CHECKBOXES), *NOT_ASKED, *NOT_OFFERED)
    return {name: field for name, field in fields_of(TrainConfig).items() if name not in elsewhere}


def _kind(hint: Any) -> tuple[Kind | None, tuple[str, ...], bool]:
    """Kind, choices and whether None is allowed, of a type hint."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    wanted = [option for option in options if option is not NoneType]
    # A choice that also takes True and False, for callers of old, is still a choice.
    literal = next((option for option in wanted if get_origin(option) is Literal), None)
    if literal is not None:
        return "choice", tuple(map(str, get_args(literal))), NoneType in options
    kind = PLAIN.get(wanted[0]) if len(wanted) == 1 else None
    return kind, (), NoneType in options
