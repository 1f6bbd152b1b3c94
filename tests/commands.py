"""Run a command line in this process as printed, without its slow work: flags are read and checked."""

import importlib
import shlex
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

WORK = {
    "prepare": ("_prepare",),
    "train": ("_command",),
    "export": ("_export",),
    "language": ("look",),
    "evaluate": ("_evaluate",),
    "synthesize": ("_synthesize",),
    "speech_server": ("serve",),
    "lengths": ("_lengths",),
    "fix": ("fix_clip",),
    "demo": ("_demo",),
    "voices": ("VoiceLibrary",),
}
"""Of each command, the functions that do its work."""


class Nothing:
    """What replaced work gives back."""

    name = "anna"

    def table(self) -> str:
        return ""

    def make(self, *given: Any) -> "Nothing":
        return self

    mix = make

    def all(self) -> list[Any]:
        return []


def run_as_printed(line: str, monkeypatch: pytest.MonkeyPatch, known: Mapping[str, str] | None = None) -> Any:
    """Run one of our commands; what it would have worked with: its checked settings, or a version to download.

    Args:
        line: as a message or a document shows it.
        monkeypatch: of the test.
        known: placeholders and what to put in their place.
    """
    python, dash_m, module, *words = shlex.split(line, comments=True)
    assert (python, dash_m) == ("python", "-m"), line
    program = importlib.import_module(module)
    seen: list[Any] = []

    def work(*given: Any, **more: Any) -> Nothing:
        seen.extend(given[:1])
        return Nothing()

    names = WORK.get(module.removeprefix("utils.cli."), ())
    for name in names:
        monkeypatch.setattr(program, name, work)
    monkeypatch.setattr("utils.bases.download.download_base", work)
    main = program.main
    if isinstance(main, partial):
        # It holds the work since it was imported.
        main = partial(main.func, *(work if getattr(part, "__name__", "") in names else part for part in main.args))
    main([(known or {}).get(word, word) for word in words])
    return next(iter(seen), None)
