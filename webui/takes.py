"""A project's takes as the page lists them; a take is read again only after its file changed."""

from dataclasses import dataclass
from pathlib import Path

from utils.errors import UserError
from utils.project.paths import Project
from utils.speech.takes import TAKE_FILE, Take, has_owner, read_take, take_folders
from webui.markup import Markup
from webui.text.catalog import language
from webui.views import inference as view

MAX_KEPT = 10_000
"""Takes that are remembered; with more, all are read anew."""


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
        self._known: dict[tuple[str, Path], tuple[tuple[int, int], ShownTake]] = {}

    def newest(self, project: Project, limit: int) -> list[ShownTake]:
        """At most so many takes, the newest first; folders that hold none are skipped."""
        found: list[ShownTake] = []
        for folder in take_folders(project):
            if len(found) >= limit:
                break
            try:
                found.append(self._shown(folder))
            except (UserError, OSError):
                continue
        return found

    def _shown(self, folder: Path) -> ShownTake:
        file = (folder / TAKE_FILE).stat()
        now = (file.st_size, file.st_mtime_ns)
        key = language(), folder
        known = self._known.get(key)
        if known is not None and known[0] == now and (known[1].live is None or has_owner(known[1].live)):
            return known[1]
        shown = _show(read_take(folder))
        if len(self._known) >= MAX_KEPT:
            self._known.clear()
        self._known[key] = now, shown
        return shown


def _show(take: Take) -> ShownTake:
    is_shown = take.is_live and len(take.lines) > 1
    return ShownTake(
        id=take.id,
        label=view.label(take),
        progress=view.take(take) if is_shown else None,
        listed=view.listed(take),
        live=take if take.is_live else None,
    )
