"""The latest evaluation of a project's models: one column a model, one row a metric, and its plot."""

import json
from pathlib import Path
from typing import Any

from utils.evaluation.settings import RESULT_FILE
from utils.project.paths import Project
from webui import text
from webui.markup import Markup, join, tag
from webui.views.parts import empty, file_address, table

PICTURE = "summary.png"


def newest(project: Project) -> Path | None:
    """The folder of the last measurement that came to its end; None when there is none."""
    done = [path.parent for path in (project.folder / "evaluation").glob(f"*/{RESULT_FILE}")]
    return max(done, key=lambda folder: folder.name, default=None)


def found(project: Project) -> Markup:
    """The last measurement; what to do where there is none."""
    folder = newest(project)
    if folder is None:
        return empty(text.NOTHING_MEASURED)
    try:
        return _shown(json.loads((folder / RESULT_FILE).read_text(encoding="utf-8")), folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return empty(text.UNREADABLE_MEASURES)


def _shown(values: dict[str, Any], folder: Path) -> Markup:
    models = values["models"]
    columns = ("", *(text.model_title(str(model["name"])) for model in models), text.BETTER)
    rows = [
        (words, *(_cell(model["summary"].get(name), form) for model in models), better)
        for name, (words, form, better) in text.MEASURES.items()
    ]
    missing = [
        tag("li", f"{text.MEASURES[name][0]}: {reason}")
        for name, reason in values["missing"].items()
        if name in text.MEASURES
    ]
    picture = folder / PICTURE
    image = tag("img", src=file_address(picture), alt=text.MEASURES_PICTURE, class_="picture")
    title = text.measured_title(int(values["num_sentences"]), str(values["made"])[:16].replace("T", " "))
    return tag(
        "div",
        tag("div", title, class_="panel-title"),
        table(columns, rows, label=title),
        join(tag("div", text.NOT_MEASURED, class_="small"), tag("ul", *missing)) if missing else None,
        image if picture.is_file() else None,
        tag("div", f"{text.MEASURES_FOLDER}: {folder}", class_="small"),
        class_="panel",
    )


def _cell(value: Any, form: str) -> str:
    return form.format(value) if type(value) in (int, float) else "-"
