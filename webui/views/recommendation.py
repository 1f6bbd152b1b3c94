"""What set the form: the recommended settings for this machine with reasons, or a settings file."""

from collections.abc import Mapping, Sequence

from utils.hardware.recommendations import Recommendation
from webui import text
from webui.markup import Markup, tag
from webui.views.parts import framed, message, table


def recommendation(found: Recommendation, *, planned_for: str, changes: Sequence[tuple[str, str, str]]) -> Markup:
    """Whom it is planned for, what it changed in the form (setting, before, after), why, and what hinders it."""
    reasons = tag("ul", *(tag("li", reason) for reason in (planned_for, *found.reasons)))
    problems = [message("warning", problem) for problem in found.problems]
    return framed(text.RECOMMENDED, _changed(changes), reasons, *problems)


def settings_loaded(name: str, changes: Sequence[tuple[str, str, str]], retired: Mapping[str, object]) -> Markup:
    """What a settings file changed in the form (setting, before, after), and which of its settings have left."""
    notes = [message("warning", text.settings_left(sorted(retired)))] if retired else []
    return framed(text.SETTINGS_FROM.format(name=name), _changed(changes), *notes)


def _changed(changes: Sequence[tuple[str, str, str]]) -> Markup:
    return table(text.CHANGE_COLUMNS, changes, label=text.CHANGED) if changes else tag("p", text.NOTHING_CHANGED)
