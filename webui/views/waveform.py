"""The waveform of a clip within its recording: the part that was cut out, and the silence that was removed from it."""

from utils.dataset.edits.recut import Outline
from webui import text
from webui.markup import Markup, join, tag

_HEIGHT = 100


def waveform(drawn: Outline | None) -> Markup:
    """A clip's sound; grey is the recording around it, amber the silence that was removed from it.

    Args:
        drawn: from `utils.dataset.edits.recut.outline`; None where neither clip nor recording can be read.
    """
    if drawn is None:
        return join()
    facts = text.clip_edges(drawn.start_s, drawn.stop_s, drawn.recording_s)
    before, after = drawn.kept_start_s - drawn.start_s, drawn.stop_s - drawn.kept_stop_s
    removed = text.removed_silence(max(0.0, before), max(0.0, after))
    shown = (at for at in (drawn.start_s, drawn.stop_s) if drawn.begin_s <= at <= drawn.end_s)
    edges = [f"{_x(drawn, at):.2f}" for at in shown]
    parts = [
        tag("path", class_="sound", d=_path(drawn)),
        _veil(drawn, drawn.begin_s, drawn.start_s, "around"),
        _veil(drawn, drawn.start_s, drawn.kept_start_s, "removed"),
        _veil(drawn, drawn.kept_stop_s, drawn.stop_s, "removed"),
        _veil(drawn, drawn.stop_s, drawn.end_s, "around"),
        *(tag("line", class_="edge", x1=x, x2=x, y1="0", y2=_HEIGHT) for x in edges),
    ]
    picture = tag(
        "svg",
        *parts,
        viewBox=f"0 0 {len(drawn.peaks)} {_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{facts} {removed}",
    )
    axis = tag("div", *(tag("span", f"{at:.2f} s") for at in (drawn.begin_s, drawn.end_s)), class_="axes")
    return tag("figure", picture, axis, tag("figcaption", facts, " ", removed), class_="waveform")


def _path(drawn: Outline) -> str:
    """A bar for each peak, mirrored about the middle; the loudest fills the height."""
    middle, loudest = _HEIGHT / 2, max(max(drawn.peaks), 0.01)
    bars = []
    for at, peak in enumerate(drawn.peaks):
        half = max(0.5, middle * peak / loudest)
        bars.append(f"M{at}.5 {middle - half:.1f}V{middle + half:.1f}")
    return "".join(bars)


def _x(drawn: Outline, at_s: float) -> float:
    share = (at_s - drawn.begin_s) / (drawn.end_s - drawn.begin_s)
    return len(drawn.peaks) * min(1.0, max(0.0, share))


def _veil(drawn: Outline, start_s: float, end_s: float, kind: str) -> Markup | None:
    start, end = _x(drawn, start_s), _x(drawn, end_s)
    if end - start < 0.01:
        return None
    return tag("rect", class_=kind, x=f"{start:.2f}", y="0", width=f"{end - start:.2f}", height=_HEIGHT)
