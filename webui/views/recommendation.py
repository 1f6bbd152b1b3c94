"""What set the form: the recommended settings for this machine with reasons, or a preset."""

from collections.abc import Sequence

from utils.hardware import Recommendation
from utils.project.presets import Preset
from webui import text
from webui.markup import Markup, tag
from webui.views.parts import message, table


def recommendation(found: Recommendation, *, planned_for: str, changes: Sequence[tuple[str, str, str]]) -> Markup:
    """Whom it is planned for, what it changed in the form (setting, before, after), why, and what hinders it."""
    reasons = tag("ul", *(tag("li", reason) for reason in (planned_for, *found.reasons)))
    problems = [message("warning", problem) for problem in found.problems]
    title = tag("div", text.RECOMMENDED, class_="panel-title")
    return tag("div", title, _changed(changes), reasons, *problems, class_="panel")


def measured_applied(name: str, changes: Sequence[tuple[str, str, str]]) -> Markup:
    """What the row that preflight recommends changed in the form (setting, before, after)."""
    title = tag("div", text.measured_title_of(name), class_="panel-title")
    return tag("div", title, _changed(changes), class_="panel")


def preset_applied(preset: Preset, changes: Sequence[tuple[str, str, str]]) -> Markup:
    """What a preset changed in the form (setting, before, after), and which settings it could not set."""
    notes = [message("warning", text.preset_unknown(preset.unknown))] if preset.unknown else []
    notes += [message("hint", text.preset_missing(preset.missing))] if preset.missing else []
    title = tag("div", text.preset_title(preset.name), class_="panel-title")
    return tag("div", title, _changed(changes), *notes, class_="panel")


def _changed(changes: Sequence[tuple[str, str, str]]) -> Markup:
    return table(text.CHANGE_COLUMNS, changes, label=text.CHANGED) if changes else tag("p", text.NOTHING_CHANGED)
