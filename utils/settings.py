"""What every settings class can do: check its values, report all faults together, be saved and loaded."""

import codecs
import dataclasses
import difflib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, Self, Union, get_args, get_origin, get_type_hints

import yaml

from utils.errors import UserError, raise_problems

RETIRED: dict[str, Any] = {
    "shuffle_window": 0,
    "compress_gradients": "none",
    "shard": False,
    "rank_timeout": 30.0,
    "offload_optimizer": False,
    "split_weights": False,
    "gradient_release": False,
}
"""Fields that left a settings class, or are about to, and the value with which they changed nothing: saved files that
hold them load, and a run warns of another value."""


class Config:
    """What all settings classes share: checking, saving and loading."""

    retired: Mapping[str, Any] = MappingProxyType({})
    """Retired fields of the file this came from that had another value than the neutral one; `save` keeps them."""

    def problems(self) -> list[str]:
        """Every fault of these values, each with its limit and the fix."""
        return []

    def beyond(self, limits: Mapping[str, tuple[str, str, str]]) -> list[str]:
        """Values outside of their intervals; None is not given.

        Args:
            limits: by field, an interval such as `[0, 1)`, the unit, and what to use instead.
        """
        found = []
        for name, (interval, unit, instead) in limits.items():
            value, (low, high) = getattr(self, name), map(float, interval[1:-1].split(","))
            ends = [end for end, mark in ((low, interval[0]), (high, interval[-1])) if mark in "[]"]
            if value is not None and not (low < value < high or value in ends):
                found.append(f"{name} is {f'{value} {unit}'.rstrip()}; use {instead}")
        return found

    def validate(self, *, where: str) -> Self:
        """Return self when every value is usable.

        Raises:
            UserError: naming all faults together.
        """
        assert dataclasses.is_dataclass(self)
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        raise_problems(self.wrong_types(values) or self.problems(), where=where)
        return self

    @classmethod
    def wrong_types(cls, values: Mapping[str, Any]) -> list[str]:
        """Values of another type than their field's, as a Python call or an edited file may give them."""
        hints = get_type_hints(cls)
        wrong = {name: value for name, value in values.items() if not _fits(value, hints[name])}
        return [f"{name} is {value!r}; use {_wanted(hints[name])}" for name, value in wrong.items()]

    def plain(self) -> dict[str, Any]:
        """The settings as values that YAML and JSON know."""
        assert dataclasses.is_dataclass(self)
        return {key: _plain(value) for key, value in dataclasses.asdict(self).items()} | dict(self.retired)

    def save(self, path: Path) -> None:
        """Write the values as YAML, one line a field."""
        path.write_text(yaml.safe_dump(self.plain(), sort_keys=False, allow_unicode=True), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read values written by `save`; fields that are absent take their defaults.

        Raises:
            UserError: the file is not such a file, or names a setting that does not exist.
        """
        return cls.from_saved(cls.read(path), where=str(path))

    @classmethod
    def read(cls, path: Path) -> dict[str, Any]:
        """The values in a YAML or JSON file, unchecked; `//` begins a comment in the latter.

        Raises:
            UserError: the file cannot be read, or is not a mapping.
        """
        try:
            text = path.read_text(encoding="utf-8")
            if path.suffix == ".json":
                values = json.loads(re.sub(r'("(?:\\.|[^"\\])*")|//.*', lambda found: found[1] or "", text))
            else:
                values = yaml.safe_load(text)
        except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
            raise UserError(what=f"the settings cannot be read: {error}", where=str(path)) from error
        if not isinstance(values, dict):
            what = "the file is not a mapping of settings"
            raise UserError(what=what, where=str(path), fix="write each setting as NAME: VALUE")
        return values

    @classmethod
    def from_saved(cls, values: dict[str, Any], *, where: str) -> Self:
        """Settings that `save` wrote, in this version or an earlier one; see `from_values`."""
        assert dataclasses.is_dataclass(cls)
        left = {
            name: values[name] for name in (RETIRED.keys() - {f.name for f in dataclasses.fields(cls)}) & values.keys()
        }
        hints = get_type_hints(cls)
        kept = {n: _number(value, hints.get(n)) for n, value in values.items() if n not in left}
        config = cls.from_values(kept, where=where)
        if used := {name: value for name, value in left.items() if value != RETIRED[name]}:
            object.__setattr__(config, "retired", used)
        return config

    @classmethod
    def from_values(cls, values: dict[str, Any], *, where: str) -> Self:
        """Settings from plain values; text is taken for a path where a path is wanted.

        Raises:
            UserError: a setting that does not exist, or one that must be given and is not.
        """
        assert dataclasses.is_dataclass(cls)
        fields = {field.name: field for field in dataclasses.fields(cls)}
        if unknown := sorted(set(values) - set(fields), key=str):
            near = [match for name in unknown for match in difflib.get_close_matches(str(name), fields, n=1)]
            fix = f"did you mean {', '.join(near)}?" if near else ""
            raise UserError(what=f"unknown settings: {', '.join(map(str, unknown))}", where=where, fix=fix)
        required = [name for name, field in fields.items() if field.default is dataclasses.MISSING]
        if missing := [name for name in required if name not in values]:
            raise UserError(what=f"settings are missing: {', '.join(missing)}", where=where)
        hints = get_type_hints(cls)
        return cls(**{name: _typed(value, hints[name]) for name, value in values.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _choices(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a type hint: of `int | None`, int and None."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _number(value: Any, hint: Any) -> Any:
    """A field's value in a file: YAML reads 5e-6 as text, and 5.0e-6 as a number."""
    if isinstance(value, str) and {float, str} & {*_choices(hint)} == {float}:
        with suppress(ValueError):
            return float(value)
    return value


def _typed(value: Any, hint: Any) -> Any:
    """YAML and callers write paths as text: give a field declared as a path its type."""
    choices = _choices(hint)
    if get_origin(hint) is tuple and isinstance(value, (list, tuple)):
        return tuple(_typed(item, get_args(hint)[0]) for item in value)
    return Path(value) if isinstance(value, str) and Path in choices and str not in choices else value


def _fits(value: Any, hint: Any) -> bool:
    return any(_fits_one(value, choice) for choice in _choices(hint))


def _fits_one(value: Any, choice: Any) -> bool:
    if get_origin(choice) is Literal:
        return value in get_args(choice)
    if get_origin(choice) is tuple:
        return isinstance(value, tuple) and all(_fits(item, get_args(choice)[0]) for item in value)
    if isinstance(value, bool):
        return choice is bool
    return isinstance(value, (int, float) if choice is float else choice)


def _wanted(hint: Any) -> str:
    """A type hint in words."""
    words = {
        bool: "True or False",
        int: "a whole number",
        float: "a number",
        str: "text",
        Path: "a path",
        NoneType: "None",
    }
    if get_origin(hint) is tuple:
        return f"a tuple, each item {_wanted(get_args(hint)[0])}"
    named = [" or ".join(get_args(c)) if get_origin(c) is Literal else words[c] for c in _choices(hint)]
    return " or ".join(named)


def is_encoding(name: str) -> bool:
    """Whether Python can read text in an encoding of that name."""
    try:
        codecs.lookup(name).decode(b"")
    except (LookupError, ValueError):
        return False
    return True
