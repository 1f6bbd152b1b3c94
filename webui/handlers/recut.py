"""Tab 1, the edges of a clip: its waveform, and moving its start and end within the recording."""

from pathlib import Path

from utils.dataset.edits.edit import FixConfig
from utils.dataset.edits.recut import check_edges, check_is_current, edges, outline, recording_seconds
from utils.dataset.storage.report import ClipReport
from utils.project.paths import Project
from webui.change import Change, Updates, Values
from webui.views.waveform import waveform

EDGES = ("data.recording_start_s", "data.recording_end_s")
"""Fields of the edges, in seconds of the recording."""


def shown(project: Project, found: ClipReport, *, has_sound: bool) -> Updates:
    """Waveform and edges of the chosen clip."""
    drawn = outline(project.dataset, found) if has_sound else None
    return {"data.waveform": Change(value=waveform(drawn), visible=drawn is not None), **_fields(found)}


def moved(found: ClipReport, values: Values) -> bool:
    """Whether the fields of the edges hold other times than the clip has."""
    return any(values.get(name) != time for name, time in _fields(found).items())


def _fields(found: ClipReport) -> Updates:
    return {name: round(time, 3) for name, time in zip(EDGES, edges(found), strict=True)}


def check(found: ClipReport, config: FixConfig) -> None:
    """Do nothing when a clip can be cut so, as far as the page can see: its process takes seconds to start.

    Raises:
        UserError: the clip is no more in use, its recording is missing, or the edges are not within that.
    """
    if config.fix in ("trim", "split", "merge"):
        check_is_current(found)
    elif config.fix == "recut":
        assert config.start_s is not None and config.end_s is not None, "checked by FixConfig.problems"
        check_edges(found, config.start_s, config.end_s, length_s=recording_seconds(Path(found.source)))
