"""HTML that escapes text by default."""

import html
from typing import Any


class Markup(str):
    """HTML made by this module, safe to show as it is."""

    __slots__ = ()


def tag(name: str, *children: object, **attributes: Any) -> Markup:
    """An element.

    Args:
        name: its tag.
        children: `Markup` goes in as it is, everything else as escaped text; None is left out.
        attributes: escaped; a trailing `_` is dropped (class_), other `_` become `-` (aria_label); None is left out.
    """
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    shown = "".join(f' {key}="{html.escape(str(value))}"' for key, value in given.items())
    return Markup(f"<{name}{shown}>{join(*children)}</{name}>")


def join(*children: object) -> Markup:
    """Several pieces after one another; escapes as `tag` does."""
    return Markup(
        "".join(piece if isinstance(piece, Markup) else escape(piece) for piece in children if piece is not None)
    )


def escape(value: object) -> Markup:
    """Text that stays text."""
    return Markup(html.escape(str(value)))


def lines(value: object) -> Markup:
    """Escaped text that keeps its line breaks."""
    return Markup(escape(value).replace("\n", "<br>"))
