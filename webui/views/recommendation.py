"""What set the form, the recommended settings or a settings file, and whether a training with it fits in memory."""

from collections.abc import Mapping, Sequence

from utils.hardware.recommendations import MemoryFit, Recommendation
from webui import text
from webui.markup import Markup, tag
from webui.views.parts import bar, framed, memory_size, message, small, table


def recommendation(found: Recommendation, *, planned_for: str, changes: Sequence[tuple[str, str, str]]) -> Markup:
    """Whom it is planned for, what it changed in the form (setting, before, after), why, and what hinders it."""
    reasons = tag("ul", *(tag("li", reason) for reason in (planned_for, *found.reasons)))
    problems = [message("warning", problem) for problem in found.problems]
    return framed(text.RECOMMENDED, _changed(changes), reasons, *problems)


def settings_loaded(name: str, changes: Sequence[tuple[str, str, str]], retired: Mapping[str, object]) -> Markup:
    """What a settings file changed in the form (setting, before, after), and which of its settings have left."""
    notes = [message("warning", text.SETTINGS_LEFT.format(names=", ".join(sorted(retired))))] if retired else []
    return framed(text.SETTINGS_FROM.format(name=name), _changed(changes), *notes)


def fit(found: MemoryFit) -> Markup:
    """A bar of what others hold and what the run would need, with the limit, and the answer in words."""
    needed = found.needed.total
    pieces = [
        ("others", found.used_bytes / found.total_bytes, text.USED_BY_OTHERS),
        ("own", min(needed, found.total_bytes - found.used_bytes) / found.total_bytes, text.NEEDED_BY_RUN),
    ]
    caption = text.NEEDED_OF.format(
        needed=memory_size(needed), budget=memory_size(found.budget_bytes), total=memory_size(found.total_bytes)
    )
    said = message("good", text.FITS) if found.fits else message("warning", text.fits_not(found.device))
    host = None
    if found.needed.host:
        amounts = {"needed": memory_size(found.needed.host), "budget": memory_size(found.host_budget_bytes)}
        host = small(text.NEEDED_OF_HOST.format(**amounts))
    about = small(str(found.needed))
    return framed(text.FIT_TITLE, bar(text.device_memory(found.device), pieces, caption), host, said, about)


def _changed(changes: Sequence[tuple[str, str, str]]) -> Markup:
    return table(text.CHANGE_COLUMNS, changes, label=text.CHANGED) if changes else tag("p", text.NOTHING_CHANGED)
