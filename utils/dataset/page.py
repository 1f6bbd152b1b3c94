"""report.html: the report as one file that any browser shows without a network: totals, histograms, clips to look at.

Nothing in it comes from outside, and what people wrote is escaped: transcripts and file names are not markup.
"""

import html
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from utils.dataset.storage.report import ClipReport, Report

_BINS = 24
_SHOWN = 2_000
"""Rows of a table: more would make the page slow; report.json has them all."""
_LONGEST = 2_000
"""Characters of a text that are shown."""
_LOOK_AT = ("clip", "why", "text", "as the model reads it", "sound", "clip id")
_HISTOGRAMS = (
    ("seconds", "length", "s"),
    ("letters", "characters of text", ""),
    ("rate", "speaking rate", "characters/s"),
    ("loudness", "loudness", "LUFS"),
    ("snr", "signal-to-noise ratio", "dB"),
    ("speech", "speech ratio", ""),
    ("clipping", "clipping ratio", ""),
    ("voice", "speaker similarity", ""),
    ("mos", "DNSMOS", ""),
    ("cer", "character error rate", ""),
)
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --bar: #4a7fd0; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: start; padding: .25rem .6rem; vertical-align: top; border-bottom: 1px solid var(--line); }
td.n { text-align: end; font-variant-numeric: tabular-nums; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-size: .85rem; } svg { width: 100%; height: 5rem; display: block; }
rect { fill: var(--bar); } audio { height: 1.8rem; max-width: 14rem; } code { font-size: .85rem; }
"""


def write_page(path: Path, report: Report, project: str) -> None:
    """Write the page.

    Args:
        path: file to write; its sound players expect it beside wavs/.
        report: what became of every clip.
        project: name of the voice.

    Raises:
        OSError: the disk is full or not writable.
    """
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{_text(project)}: dataset</title>",
        f"<meta name=viewport content='width=device-width'><style>{_STYLE}</style><h1>Dataset of {_text(project)}</h1>",
        _totals(report),
        "<h2>Clips in use</h2><div class=charts>",
        *(_histogram(report.used, *kind) for kind in _HISTOGRAMS),
        "</div>",
        _flagged([clip for clip in report.used if clip.flags and not clip.accepted]),
        _noted([clip for clip in report.used if clip.notes]),
        _unknown(report),
        _dropped(report.dropped),
        _all(report.used),
        _settings(report),
    ]
    path.write_text("\n".join(filter(None, parts)), encoding="utf-8")


def _totals(report: Report) -> str:
    totals = report.totals
    rows: list[tuple[str, object]] = [
        ("given", totals["clips"]),
        ("used", totals["used"]),
        ("minutes in use", f"{totals['seconds'] / 60:.1f}"),
        ("for training", totals["train"]),
        ("for evaluation", totals["eval"]),
        ("to be reviewed", totals["flagged"]),
        ("without a normalization rule", totals["noted"]),
        ("dropped", totals["dropped"]),
        *((f"– {reason}", count) for reason, count in totals["reasons"].items()),
    ]
    return _table((), ((name, str(value)) for name, value in rows))


def _histogram(clips: Sequence[ClipReport], name: str, title: str, unit: str) -> str:
    """One measure of all clips that have it; nothing where none has."""
    values = np.array([value for clip in clips if (value := _value(clip, name)) is not None], dtype=float)
    if not len(values):
        return ""
    counts, edges = np.histogram(values, bins=_BINS)
    tallest, width = max(1, int(counts.max())), 240 / _BINS
    bars = "".join(
        f"<rect x={n * width:.1f} y={80 - height:.1f} width={width - 1:.1f} height={height:.1f}>"
        f"<title>{count} clips from {edges[n]:.4g} to {edges[n + 1]:.4g} {unit}</title></rect>"
        for n, count in enumerate(counts)
        if (height := 78 * count / tallest)
    )
    caption = f"{title}: {values.min():.4g} to {values.max():.4g} {unit}, median {np.median(values):.4g}"
    chart = f"<svg viewBox='0 0 240 80' preserveAspectRatio=none role=img aria-label='{_text(caption)}'>{bars}</svg>"
    return f"<figure>{chart}<figcaption>{_text(caption)}</figcaption></figure>"


def _value(clip: ClipReport, name: str) -> float | None:
    if name == "seconds":
        return clip.seconds
    return float(len(clip.text)) if name == "letters" else clip.measures.get(name)


def _flagged(clips: list[ClipReport]) -> str:
    rows = (
        (clip.name, "; ".join(": ".join(flag) for flag in clip.flags), *_words(clip), clip.clip, clip.id)
        for clip in clips[:_SHOWN]
    )
    return _section("Used, to be reviewed", len(clips), _LOOK_AT, rows, sound=4)


def _noted(clips: list[ClipReport]) -> str:
    rows = ((clip.name, "; ".join(clip.notes), *_words(clip), clip.clip, clip.id) for clip in clips[:_SHOWN])
    return _section("Used, without a normalization rule for all of the text", len(clips), _LOOK_AT, rows, sound=4)


def _dropped(clips: list[ClipReport]) -> str:
    rows = ((clip.name, f"{clip.reason}: {clip.detail}", *_words(clip), clip.clip, clip.id) for clip in clips[:_SHOWN])
    return _section("Dropped", len(clips), _LOOK_AT, rows, sound=4)


def _all(clips: list[ClipReport]) -> str:
    rows = ((c.name, c.split, f"{c.seconds:.2f}", c.speaker, *_words(c), c.clip, c.id) for c in clips[:_SHOWN])
    heads = ("clip", "set", "seconds", "speaker", "text", "as the model reads it", "sound", "clip id")
    return _section("All clips in use", len(clips), heads, rows, sound=6)


def _words(clip: ClipReport) -> tuple[str, str]:
    """The transcript, and what the tokenizer makes of it; of a damaged table's endless text the beginning."""
    return _short(clip.text), _short(clip.read)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"


def _unknown(report: Report) -> str:
    """Characters that the base has no token for."""
    found = report.unknown_characters
    rows = ((u.character, u.name, str(u.count), str(u.clips), u.instead) for u in found[:_SHOWN])
    heads = ("character", "code point", "count", "clips", "fix")
    return _section("Unsupported characters", len(found), heads, rows)


def _section(title: str, count: int, heads: Sequence[str], rows: Iterable[Sequence[str]], *, sound: int = -1) -> str:
    if not count:
        return ""
    more = f"<p>The first {_SHOWN} of {count}; report.json has them all.</p>" if count > _SHOWN else ""
    return f"<h2>{_text(title)} ({count})</h2>{_table(heads, rows, sound=sound)}{more}"


def _settings(report: Report) -> str:
    return "<h2>Settings</h2>" + _table((), ((name, str(value)) for name, value in report.settings.items()))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, sound: int = -1) -> str:
    head = f"<tr>{''.join(f'<th>{_text(name)}</th>' for name in heads)}</tr>" if heads else ""
    body = "".join(
        f"<tr>{''.join(_cell(cell, is_sound=n == sound) for n, cell in enumerate(row))}</tr>" for row in rows
    )
    return f"<table>{head}{body}</table>"


def _cell(value: str, *, is_sound: bool) -> str:
    """A cell; a clip's sound is loaded only when it is played."""
    if not is_sound:
        return f"<td dir=auto>{_text(value)}</td>"
    return f'<td><audio controls preload=none src="{_text(value)}"></audio></td>' if value else "<td></td>"


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)
