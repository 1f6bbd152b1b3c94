"""Convert form values to settings dataclasses and back, and report all errors together."""

import math
from collections.abc import Mapping
from typing import Any, TypeVar

from utils.errors import UserError, raise_problems
from utils.options import DATASET_RATE
from utils.settings import Config
from webui import text
from webui.change import Values
from webui.fields import Field, Kind, fields_of

ConfigType = TypeVar("ConfigType", bound=Config)

IN_SECONDS = ("max_audio_length",)
"""Fields that count samples at 22 050 Hz; people are asked for seconds."""
MINUS_SIGNS = {"−": "-", "–": "-"}
"""What word processors make of the minus in 5e-6."""


def settings(config: type[ConfigType], values: Mapping[str, Any], *, where: str, **fixed: Any) -> ConfigType:
    """Checked settings from what a form holds.

    Args:
        config: the settings dataclass.
        values: what the form's fields hold, by field name; empty ones take their default.
        where: which form, for the message.
        fixed: settings that the form does not ask for.

    Raises:
        UserError: values that cannot be read, or are not usable; all together.
    """
    known: dict[str, Field] = fields_of(config)
    read, problems = dict(fixed), []
    for name, value in values.items():
        if name not in known or name in fixed:
            continue
        try:
            read[name] = parse(known[name], value)
        except ValueError as error:
            problems.append(str(error))
    raise_problems(problems, where=where)
    return config(**read).validate(where=where)


def parse(field: Field, value: Any) -> Any:
    """One value as its field wants it.

    Raises:
        ValueError: in words for people.
    """
    if isinstance(value, str):
        value = value.strip()
    if value is None:
        return field.default
    if value == "":
        # A field that was emptied is left open; one that cannot be takes its default.
        return None if field.may_be_open else field.default
    if field.kind == "bool":
        return value in (True, "True", "true")
    if field.kind == "text":
        return str(value)
    if field.kind == "choice":
        if str(value) not in field.choices:
            raise ValueError(text.not_a_choice(field.name, value, field.choices))
        return str(value)
    number = _number(field, value)
    if field.name in IN_SECONDS:
        return round(number * DATASET_RATE)
    if field.kind == "int" and number != int(number):
        raise ValueError(text.not_whole(field.name, value))
    return int(number) if field.kind == "int" else number


def number(name: str, value: Any, *, is_whole: bool) -> Any:
    """A number that belongs to no settings class; None where there is none.

    Raises:
        UserError: it is no number, or not a whole one.
    """
    kind: Kind = "int" if is_whole else "float"
    field = Field(name=name, kind=kind, choices=(), default=None, may_be_open=False)
    try:
        return parse(field, value)
    except ValueError as error:
        raise UserError(what=str(error)) from error


def required(value: object, *, what: str, where: str, fix: str) -> str:
    """A text that a field must hold.

    Raises:
        UserError: it is empty, or something else.
    """
    if not isinstance(value, str) or not value.strip():
        raise UserError(what=what, where=where, fix=fix)
    return value.strip()


def shown(field: Field, value: Any) -> Any:
    """A setting as its field of the form shows it."""
    if value is None:
        return None
    if field.name in IN_SECONDS:
        return round(value / DATASET_RATE, 2)
    if field.kind == "float":
        return number_text(value)
    return str(value) if field.kind == "choice" else value


def in_form(field: Field, value: Any) -> Any:
    """A setting as its component holds it: an open one is empty."""
    if value is None:
        return ""
    if field.kind == "bool":
        return str(value) if field.may_be_open else value
    if field.name in IN_SECONDS:
        # To the sample: a limit that is rounded up may be more than the model takes.
        return round(value / DATASET_RATE, 5)
    return shown(field, value)


def number_text(value: float) -> str:
    """A number as people write it: 5e-6 rather than 5e-06 or 0.000005."""
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        mantissa, exponent = f"{value:.6e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value:g}"


def by_field(values: Values, prefix: str) -> dict[str, Any]:
    """The values of components whose id begins with `prefix`, by what follows."""
    return {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}


def _number(field: Field, value: Any) -> float:
    refused = ValueError(text.not_a_number(field.name, value, whole=field.kind == "int"))
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise refused
    written = str(value).replace(" ", "")
    for sign, minus in MINUS_SIGNS.items():
        written = written.replace(sign, minus)
    if written.count(",") == 1 and "." not in written:
        written = written.replace(",", ".")
    try:
        number = float(written)
    except ValueError:
        number = math.nan
    # A length in seconds is kept in samples.
    if not math.isfinite(number * DATASET_RATE):
        raise refused
    return number
