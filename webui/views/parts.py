"""Elements that several views share: bars, badges, tables, messages, and formatted numbers."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from utils.hardware.resources import GIB
from webui import text
from webui.markup import Markup, join, lines, tag


def gigabytes(num_bytes: float) -> str:
    """Bytes as GB with one digit, MB below one, and KB below that."""
    if num_bytes < 1e6:
        return f"{num_bytes / 1e3:.0f} KB"
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.0f} MB"


def memory_size(num_bytes: float) -> str:
    """Bytes of memory as it is sold: a GB is 2^30 bytes, and a card of 12 GB reads 12.0 GB."""
    return f"{num_bytes / GIB:.1f} GB" if num_bytes >= GIB else f"{num_bytes / 2**20:.0f} MB"


def duration(seconds: float) -> str:
    """Seconds as 40 s, 3 min 20 s or 2 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def bar(label: str, pieces: Sequence[tuple[str, float, str]], caption: str) -> Markup:
    """A bar of colored shares, which a screen reader reads as one sentence.

    Args:
        label: what is measured.
        pieces: (class of the color, share between 0 and 1, what it is).
        caption: the numbers in words.
    """
    filled = [
        tag("span", class_=f"piece {kind}", style=f"width:{100 * max(0.0, min(1.0, share)):.2f}%", title=what)
        for kind, share, what in pieces
        if share > 0
    ]
    heading = tag("div", tag("span", label), tag("span", caption, class_="numbers"), class_="bar-text")
    track = tag("div", *filled, class_="track", role="img", aria_label=f"{label}: {caption}")
    return tag("div", heading, track, class_="bar")


def progress_bar(share: float | None, label: str, caption: str) -> Markup:
    """A bar from 0 to 1; without a share it shows that something is going on."""
    kind = "done" if share is not None else "busy"
    return bar(label, [(kind, 1.0 if share is None else share, label)], caption)


def badge(state: str, words: str) -> Markup:
    """A small mark: on, off, unknown, good, bad or live."""
    return tag("span", words, class_=f"badge {state}")


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, label: str) -> Markup:
    """A plain table; wide ones scroll in their own box."""
    head = tag("thead", tag("tr", *(tag("th", header, scope="col") for header in headers))) if headers else None
    body = join(*(tag("tr", *(tag("td", cell) for cell in row)) for row in rows))
    inner = tag("table", head, tag("tbody", body), aria_label=label)
    return tag("div", inner, class_="table", tabindex="0", role="region", aria_label=label)


def message(kind: str, words: object) -> Markup:
    """A framed message: hint, warning or error."""
    return tag(
        "div",
        words if isinstance(words, Markup) else lines(text.on_page(words)),
        class_=f"message {kind}",
        role="status",
    )


def framed(title: object, *content: object) -> Markup:
    """A framed part of the page under its title; None is omitted."""
    return tag("div", tag("div", title, class_="panel-title"), *content, class_="panel")


def fact_row(named: Iterable[Sequence[object]]) -> Markup:
    """Pieces of text side by side."""
    return tag("div", *(tag("span", *pieces, class_="fact") for pieces in named), class_="facts")


def small(*words: object) -> Markup:
    """A note in small letters."""
    return tag("div", *words, class_="small")


def empty(words: str) -> Markup:
    """What to do next, where there is nothing to show yet."""
    return tag("div", words, class_="empty")


def reason(why: str) -> Markup:
    """Why a button beside it cannot be pressed; nothing where it can."""
    return tag("div", why, class_="small", role="status") if why else join()


def state_badge(state: str) -> Markup:
    """A job's state."""
    kind = {"finished": "good", "failed": "bad", "lost": "bad", "stopped": "off"}.get(state, "live")
    return badge(kind, text.STATES.get(state, state))


def player(path: Path, words: str) -> Markup:
    """A recording of the output folder, to be played."""
    return tag("audio", controls="", preload="none", src=file_address(path), aria_label=words)


def recording(words: str, path: Path) -> Markup:
    """A player under its name."""
    return tag("div", tag("div", words, class_="step"), player(path, words), class_="player")


def file_address(path: Path) -> str:
    """Where the page finds a file of the output folder; relative, so that it also works behind a proxy's path."""
    return "gradio_api/file=" + quote(str(path.absolute()))
