"""Presets: settings of a training under a name, one JSON file each, shared by the projects of an output folder."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from utils.config import TrainConfig
from utils.errors import UserError, disk_errors
from utils.files import write_atomic
from utils.project.paths import check_name

FOLDER = ".presets"
"""Below the output folder; no project can have this name."""
FORMAT = "xtts-studio-preset"
FILE_FIX = "use a file that the page saved as a preset"
MAX_BYTES = 64 * 1024
"""A preset of all settings takes 2 kB."""
MAX_PRESETS = 500
_PLACE = ("project", "output", "base", "language", "train_csv", "eval_csv", "resume", "allow_changes", "run_id")
"""Settings that say on what and where to train: another project or machine has its own."""
_NO_FORM = ("trim_end", "reading_weight", "log_to")
"""Settings that no form asks for; see `webui.fields`."""
KEPT = frozenset(field.name for field in dataclasses.fields(TrainConfig)).difference(_PLACE, _NO_FORM)
"""Settings of a preset."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Settings under a name."""

    name: str
    config: TrainConfig
    """The settings; its project and base mean nothing."""
    unknown: tuple[str, ...]
    """Settings that the file has and no preset of this version does."""
    missing: tuple[str, ...]
    """Settings that this version has and the file does not: they are at their defaults."""


def list_presets(output: Path) -> list[str]:
    """The names of all presets, sorted; a file whose name no preset can have is none."""
    return sorted(path.stem for path in (output / FOLDER).glob("*.json") if _is_name(path.stem))


@disk_errors()
def save_preset(output: Path, name: str, config: TrainConfig) -> str:
    """Save settings under a name; a preset that has it is replaced.

    Args:
        output: the folder that holds all projects.
        name: see `utils.project.paths.check_name`.
        config: checked settings.

    Returns:
        The name as it was saved.

    Raises:
        UserError: the name is not usable, there are too many presets, or the disk is full.
    """
    name = check_name(name, kind="preset")
    values = {key: value for key, value in config.plain().items() if key in KEPT}
    _write(output, name, values)
    return name


def read_preset(output: Path, name: str) -> Preset:
    """A preset by its name.

    Raises:
        UserError: there is none, or its file or values are not usable; all faulty values are named.
    """
    path = _path(output, name)
    if not path.is_file():
        raise UserError(
            what=f"there is no preset {name!r}", where=str(path.parent), fix="select one of the list, or save it first"
        )
    _, values = _read(path)
    return _preset(name, values, where=f"preset {name}")


@disk_errors()
def add_preset(output: Path, file: Path, *, name: str | None = None) -> Preset:
    """Take in a preset from a file, such as another machine's.

    Args:
        output: the folder that holds all projects.
        file: the preset.
        name: its name; the file's own when not given. One that is taken by another preset gets a number.

    Raises:
        UserError: the file is no preset, or a value in it is not usable.
    """
    own, values = _read(file)
    wanted = check_name(name or own or file.stem, kind="preset")
    preset = _preset(wanted, values, where=file.name)
    taken = {other.casefold(): other for other in list_presets(output)}
    free = (wanted, *(f"{wanted}-{number}" for number in range(2, MAX_PRESETS + 2)))
    for candidate in free:
        if candidate.casefold() not in taken:
            break
        try:
            if _read(_path(output, taken[candidate.casefold()]))[1] == values:
                return dataclasses.replace(preset, name=taken[candidate.casefold()])
        except UserError:
            continue
    # What this version does not know is kept for those that do.
    _write(output, check_name(candidate, kind="preset"), values)
    return dataclasses.replace(preset, name=candidate)


@disk_errors()
def remove_preset(output: Path, name: str) -> None:
    """Remove a preset; one that another page has removed is gone already."""
    _path(output, name).unlink(missing_ok=True)


def preset_file(output: Path, name: str) -> Path | None:
    """The file of a preset, to download; None where there is none."""
    return path if _is_name(name) and (path := _path(output, name)).is_file() else None


def _path(output: Path, name: str) -> Path:
    return output / FOLDER / f"{check_name(name, kind='preset')}.json"


def _is_name(name: str) -> bool:
    try:
        return check_name(name, kind="preset") == name
    except UserError:
        return False


def _write(output: Path, name: str, values: Mapping[str, Any]) -> None:
    folder, others = output / FOLDER, list_presets(output)
    if len(others) >= MAX_PRESETS and name not in others:
        raise UserError(
            what=f"there are {MAX_PRESETS} presets already", where=str(folder), fix="delete some that are not used"
        )
    folder.mkdir(parents=True, exist_ok=True)
    content = {"format": FORMAT, "version": 1, "name": name, "settings": values}
    write_atomic(folder / f"{name}.json", json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    for other in others:
        # Windows and macOS take Slow and slow for the same file.
        if other != name and other.casefold() == name.casefold() and not _is_same(folder, other, name):
            (folder / f"{other}.json").unlink(missing_ok=True)


def _is_same(folder: Path, one: str, other: str) -> bool:
    try:
        return (folder / f"{one}.json").samefile(folder / f"{other}.json")
    except OSError:
        return False


def _read(path: Path) -> tuple[str | None, dict[str, Any]]:
    """The name and the settings that a file holds.

    Raises:
        UserError: it is no preset.
    """

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no number")

    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES // 1024} kB")
        found = json.loads(content.decode("utf-8-sig"), parse_constant=refuse)
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(
            what=f"the preset cannot be read: {error}",
            where=path.name,
            fix=FILE_FIX,
        ) from error
    settings = found.get("settings") if isinstance(found, dict) else None
    if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(settings, dict):
        raise UserError(what="the file is no preset", where=path.name, fix=FILE_FIX)
    return found["name"] if isinstance(found.get("name"), str) else None, settings


def _preset(name: str, values: dict[str, Any], *, where: str) -> Preset:
    known = {key: value for key, value in values.items() if key in KEPT}
    # `project` must be given; another project's name is never looked up.
    config = TrainConfig.from_values({"project": "preset", **known}, where=where).validate(where=where)
    return Preset(
        name=name,
        config=config,
        unknown=tuple(sorted(set(values) - KEPT)),
        missing=tuple(sorted(KEPT - set(values))),
    )
