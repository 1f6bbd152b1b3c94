"""What every handler may ask of the running app: where the projects lie, whom to tell before training starts."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from utils.errors import UserError
from utils.events import Series
from utils.paths import Project
from utils.projects import find_project
from utils.speech.desk import SpeechDesk
from utils.uploads import DEFAULT_QUOTA_BYTES
from webui import text
from webui.monitor import Monitor

MAX_SERIES = 64
"""Curves kept between polls; one that was let go is read anew."""


@dataclass(kw_only=True)
class Studio:
    """One app; what it knows of projects and runs is read from disk each time."""

    output: Path
    """The folder that holds all projects."""
    quota_bytes: int = DEFAULT_QUOTA_BYTES
    """All uploads of one project together may take so much, see `utils.uploads`."""
    input_roots: tuple[Path, ...] = ()
    """Folders of the server, besides `output`, that recordings may be taken from."""
    before_training: list[Callable[[], str]] = field(default_factory=list)
    """Called before a training starts, to free what it needs; each says what it did, or nothing."""
    monitor: Monitor = field(default_factory=Monitor)
    desk: SpeechDesk = field(init=False)
    """Has texts spoken, in a process of its own; nothing is loaded before the first."""
    _series: OrderedDict[tuple, Series] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.desk = SpeechDesk(self.output)
        self.before_training.append(self._release_speech)

    def project(self, name: object) -> Project:
        """The chosen project.

        Raises:
            UserError: none was chosen, its name is not usable, or it does not exist.
        """
        if not isinstance(name, str) or not name:
            raise UserError(what=text.NO_PROJECT, where=text.PROJECT, fix=text.NO_PROJECT_FIX)
        return find_project(name, self.output)

    def project_or_none(self, name: object) -> Project | None:
        """As `project`, for what is asked every two seconds and must not complain."""
        try:
            return self.project(name)
        except UserError:
            return None

    def _release_speech(self) -> str:
        """Training and speaking do not share a GPU, nor the memory of a small computer."""
        return text.RELEASED if self.desk.release(text.RELEASE_REASON) else ""

    def curve(self, path: Path, kind: str, fields: Sequence[str], max_points: int = 300) -> dict[str, list[Any]]:
        """A curve of a run's log, of which only what is new is read each time; see `utils.events.series`."""
        key = (path, kind, tuple(fields), max_points)
        with self._lock:
            if key not in self._series:
                self._series[key] = Series(path, kind, fields, max_points)
            self._series.move_to_end(key)
            while len(self._series) > MAX_SERIES:
                self._series.popitem(last=False)
            return self._series[key].columns()
