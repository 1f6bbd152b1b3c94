"""A project's takes as the page lists them; a take is read again only after its file changed."""

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from utils.errors import UserError
from utils.project.paths import Project
from utils.speech.takes import TAKE_FILE, Take, has_owner, read_take, take_folders
from webui.markup import Markup
from webui.text.catalog import language
from webui.views import inference as view

MAX_TAKES = 50
"""Takes that are listed."""
MAX_KEPT = 10_000
"""Takes that are remembered."""


@dataclass(frozen=True, kw_only=True)
class ShownTake:
    """What the page shows of a take without being asked; small, because a take may have thousands of lines."""

    id: str
    label: str
    progress: Markup | None
    """How far it is, while its lines are being spoken."""
    listed: Markup
    """Its line in the list, with a player."""
    live: Take | None
    """The take while it is spoken: it is cut when its process is gone, though its file stays as it is."""


class TakeWatch:
    """The newest takes of projects, for who asks every two seconds."""

    def __init__(self) -> None:
        self._read = lru_cache(MAX_KEPT)(_read)

    def newest(self, project: Project) -> list[ShownTake]:
        """At most `MAX_TAKES` takes, the newest first; folders that hold none are skipped."""
        found: list[ShownTake] = []
        for folder in take_folders(project):
            if len(found) >= MAX_TAKES:
                break
            with suppress(UserError, OSError):
                found.append(self._shown(folder))
        return found

    def _shown(self, folder: Path) -> ShownTake:
        file = (folder / TAKE_FILE).stat()
        state = file.st_size, file.st_mtime_ns
        shown = self._read(folder, state, language())
        is_cut = shown.live is not None and not has_owner(shown.live)
        return self._read(folder, state, language(), is_cut=True) if is_cut else shown


def _read(folder: Path, state: tuple[int, int], code: str, *, is_cut: bool = False) -> ShownTake:
    """A take as it is for this state of its file and this language; again once its process is gone."""
    del state, code, is_cut
    return _show(read_take(folder))


def _show(take: Take) -> ShownTake:
    is_shown = take.is_live and len(take.lines) > 1
    return ShownTake(
        id=take.id,
        label=view.label(take),
        progress=view.take(take) if is_shown else None,
        listed=view.listed(take),
        live=take if take.is_live else None,
    )
