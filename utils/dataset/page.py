"""Write report.html: the report as one offline file with totals, histograms and playable clips.

It loads nothing from the network, and escapes transcripts and file names.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from utils.dataset.storage.report import ClipReport, Report

_TEMPLATE = Path(__file__).with_name("report.html.jinja")
_BINS = 24
_SHOWN = 2_000
"""Rows of a table: more would make the page slow; report.json has them all."""
_LONGEST = 2_000
"""Characters of a text that are shown."""
_LAST_COLUMNS = ("text", "as the model reads it", "sound", "clip id")
_HISTOGRAMS = (
    ("seconds", "length", "s"),
    ("letters", "characters of text", ""),
    ("rate", "speaking rate", "characters/s"),
    ("loudness", "loudness", "LUFS"),
    ("snr", "signal-to-noise ratio", "dB"),
    ("snr_before", "the same before noise was removed", "dB"),
    ("speech", "speech ratio", ""),
    ("clipping", "clipping ratio", ""),
    ("voice", "speaker similarity", ""),
    ("mos", "DNSMOS", ""),
    ("cer", "character error rate", ""),
)


def write_page(path: Path, report: Report, project: str) -> None:
    """Write the page.

    Args:
        path: file to write; its sound players expect it beside wavs/.
        report: what became of every clip.
        project: name of the voice.

    Raises:
        OSError: the disk is full or not writable.
    """
    heads = ("clip", "set", "seconds", "speaker")
    used = ("all clips in use", report.used, heads, lambda c: (c.name, c.split, f"{c.seconds:.2f}", c.speaker))
    template = jinja2.Template(_TEMPLATE.read_text(encoding="utf-8"), autoescape=True)
    charts = [_histogram(report.used, *kind) for kind in _HISTOGRAMS]
    page = template.render(
        project=project,
        totals=report.overview,
        charts=[chart for chart in charts if chart],
        sections=[_section(*section) for section in (*report.sections, used)],
        shown=_SHOWN,
        settings=report.settings.items(),
    )
    path.write_text(page, encoding="utf-8")


def _histogram(clips: Sequence[ClipReport], name: str, title: str, unit: str) -> dict[str, Any] | None:
    """One measure of all clips that have it; None where none has."""
    found = {"seconds": lambda clip: clip.seconds, "letters": lambda clip: float(len(clip.text))}
    value_of = found.get(name, lambda clip: clip.measures.get(name))
    values = np.array([value for clip in clips if (value := value_of(clip)) is not None], dtype=float)
    if not len(values):
        return None
    counts, edges = np.histogram(values, bins=_BINS)
    caption = f"{title}: {values.min():.4g} to {values.max():.4g} {unit}, median {np.median(values):.4g}"
    bars = [
        (count, f"{count} clips from {low:.4g} to {high:.4g} {unit}")
        for count, low, high in zip(counts.tolist(), edges, edges[1:], strict=False)
    ]
    return {"caption": caption, "bars": bars, "tallest": max(1, int(counts.max()))}


def _section(
    title: str, found: Sequence[Any], heads: tuple[str, ...], cells: Callable[[Any], tuple[Any, ...]]
) -> dict[str, Any]:
    """A section with a row for each thing that was found; those of clips end with columns that all clips have."""
    of_clips = heads[0] == "clip"
    rows = [
        (*cells(one), *((_short(one.text), _short(one.read), one.clip, one.id) if of_clips else ()))
        for one in found[:_SHOWN]
    ]
    more = _LAST_COLUMNS if of_clips else ()
    sound = len(heads) + _LAST_COLUMNS.index("sound") if of_clips else -1
    return {"title": title, "count": len(found), "heads": heads + more, "rows": rows, "sound": sound}


def _short(text: str) -> str:
    """Of a damaged table's endless text the beginning."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"
