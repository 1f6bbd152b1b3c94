"""HTML elements; text that is not markup already is escaped, so what a user typed can only become text."""

from typing import Any

from markupsafe import Markup, escape


def tag(name: str, *children: object, **attributes: Any) -> Markup:
    """An element.

    Args:
        name: its tag.
        children: `Markup` goes in as it is, everything else as escaped text; None is omitted.
        attributes: escaped; a trailing `_` is dropped (class_), other `_` become `-` (aria_label); None is omitted.
    """
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    shown = "".join(f' {key}="{escape(value)}"' for key, value in given.items())
    return Markup(f"<{name}{shown}>{join(*children)}</{name}>")


def join(*children: object) -> Markup:
    """Several pieces one after another; escapes as `tag` does."""
    return Markup("").join(escape(piece) for piece in children if piece is not None)


def lines(value: object) -> Markup:
    """Escaped text that keeps its line breaks."""
    return escape(value).replace("\n", Markup("<br>"))
