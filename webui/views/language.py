"""How a base reads a language, from the latest check: before and after an extension."""

import json
from pathlib import Path
from typing import Any

from utils.project.paths import Project
from utils.text.language_settings import READING_FILE
from webui import text
from webui.markup import Markup, join, tag
from webui.views.parts import empty, framed, message, small, table


def found(project: Project) -> Markup:
    """The last look at the project's language; nothing when there was none."""
    try:
        values = json.loads((project.folder / READING_FILE).read_text(encoding="utf-8"))
        return _shown(values)
    except FileNotFoundError:
        return join()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # A file that was spoiled is as good as none: looking again makes it again.
        return empty(text.NO_READING)


def _shown(values: dict[str, Any]) -> Markup:
    before, after = values["before"], values["after"]
    readings = [_cells(reading) for reading in (before, after) if reading]
    rows = [(words, *(cells[name] for cells in readings)) for name, words in text.READING_ROWS.items()]
    columns = text.READING_COLUMNS if after else text.READING_COLUMN
    title = text.READING_TITLE.format(
        language=values["language"], base=text.base_name(values["base"]), source=Path(values["source"]).name
    )
    newest = after or before
    cut = [
        tag("div", *(tag("span", token, class_="token") for token in tokens), class_="tokens")
        for tokens in newest["samples"]
    ]
    return framed(
        title,
        table(columns, rows, label=title),
        tag("div", small(text.SEGMENTATION), *cut),
        _notes(newest["notes"]),
        message("good", f"{text.MADE_BASE}: {Path(values['made']).name}") if values["made"] else None,
        message("hint", f"{text.ADVICE}: {values['advice']}") if values.get("advice") else None,
    )


def _cells(reading: dict[str, Any]) -> dict[str, str]:
    rate = reading["tokens_per_second"]
    letters = ", ".join(f"{char} ({count:,})" for char, count in reading["unknown"])
    return {
        "texts": f"{reading['num_texts']:,}",
        "tokens_per_word": f"{reading['tokens_per_word']:.2f}",
        "tokens_per_second": text.NO_SOUND if rate is None else f"{rate:.1f}",
        "over_limit": text.share_over(reading["over_limit"], reading["num_texts"], reading["limit"]),
        "unknown": text.unknown_letters(letters, reading["num_unknown"] - len(reading["unknown"])) or text.NO_UNKNOWN,
    }


def _notes(notes: list[tuple[str, int]]) -> Markup | None:
    if not notes:
        return None
    items = [tag("li", f"{note} ({count:,})") for note, count in notes]
    return tag("div", small(text.READ_LITERALLY), tag("ul", *items))
