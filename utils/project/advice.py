"""Build the commands that messages recommend, quoted for the user's shell."""

import dataclasses
import os
import shlex
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from utils.settings import Config

DEFAULT_OUTPUT = Path("output")
"""The folder of all projects where a command names none."""
NAME, FOLDER, CODE, TEXTS = "NAME", "FOLDER", "CODE", "TEXTS"
"""Stand for what only the user knows: a project, its recordings, a language code, a text file in the language."""
RESUME = "python -m utils.cli.train --project NAME --resume last"
"""Continues a run, where it is unknown which."""
NEW_TOKENS = 2_000
"""Known to do well for a new language."""


class Place(Protocol):
    """Where a command works: a `utils.project.paths.Project`."""

    @property
    def name(self) -> str:
        """The project's name."""

    @property
    def output(self) -> Path:
        """The folder of all projects."""


def command(program: str, *words: object, project: Place | str | None = None, **flags: object) -> str:
    """One of our commands, quoted for the shell.

    Args:
        program: module of utils.cli.
        words: subcommand and positional values.
        project: where it works. A text stands for a project that is not known.
        flags: settings by field name, in order; None is skipped, and the output folder where it is the default; True
            and False are switches, a tuple is several.
    """
    line = ["python", "-m", f"utils.cli.{program}", *map(str, words)]
    if isinstance(project, str):
        flags = {"project": project} | flags
    elif project is not None:
        flags = {"project": project.name, "output": project.output} | flags
    if isinstance(output := flags.get("output"), Path) and output.resolve() == DEFAULT_OUTPUT.resolve():
        flags["output"] = None
    for name, value in flags.items():
        line += _flag(name.replace("_", "-"), value)
    return subprocess.list2cmdline(line) if os.name == "nt" else shlex.join(line)


def train_command(config: Config, project: Place, always: Collection[str] = ()) -> str:
    """The command that trains with these settings: it names what differs from the defaults.

    Args:
        config: a `TrainConfig`.
        project: theirs.
        always: settings that are named in any case, last.
    """
    assert dataclasses.is_dataclass(config)
    plain = {field.name: field.default for field in dataclasses.fields(config)}
    names = [name for name in plain if name not in ("project", "output", *always)]
    flags = {name: value for name in names if (value := getattr(config, name)) != plain[name]}
    flags |= {name: getattr(config, name) for name in always}
    # A switch that may also be open takes its value as a word.
    words = {
        name: str(value) if plain[name] is None and isinstance(value, bool) else value for name, value in flags.items()
    }
    return command("train", project=project, **words)


def extend_command(language: str, base: object, project: Place | None = None) -> str:
    """The command that makes a base with the letters of a language.

    Args:
        language: its code.
        base: the base to begin with: a name or a folder.
        project: where it is put; NAME when unknown.
    """
    return command("language", project=project or NAME, language=language, base=base, corpus=TEXTS, extend=NEW_TOKENS)


def _flag(name: str, value: object) -> list[str]:
    if value is None:
        return []
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    values = [str(item) for item in value] if isinstance(value, tuple) else [str(value)]
    # A value that looks like a flag must hang on its own one.
    return [f"--{name}={values[0]}"] if len(values) == 1 and values[0].startswith("-") else [f"--{name}", *values]
