"""Tab 3: compare several models on the same text, side by side and blind."""

from collections.abc import Iterator
from functools import partial

from utils.errors import UserError
from utils.project.paths import Project
from utils.speech.compare import MAX_MODELS, compare, name_of, next_trial, takes_of, tallies, vote
from utils.speech.takes import Take, find_take
from webui import text
from webui.change import Change, Updates, Values
from webui.handlers.inference import comparison_choices
from webui.handlers.speech_form import chosen_voice, read_settings, read_text
from webui.studio import Studio
from webui.views import inference as view

SIDES = tuple(f"inference.side_{number}" for number in range(MAX_MODELS))
SHOWN = (
    "inference.compared",
    "inference.compare_status",
    "inference.comparison",
    *SIDES,
    "inference.trial",
    "inference.a",
    "inference.b",
    "inference.votes",
)


def start(studio: Studio, values: Values) -> Iterator[Updates]:
    """Speak a text with two or more models and one voice, then return the recordings and a blind test of them."""
    project = studio.project(values)
    reference, name, _ = chosen_voice(project, values)
    models = values["inference.models"]
    identity = compare(
        studio.generations,
        project,
        [str(model) for model in models] if isinstance(models, list) else [],
        read_text(values),
        settings=read_settings(project, values),
        reference=reference,
        reference_name=name,
    )
    takes = takes_of(project, identity)
    choices = Change(choices=comparison_choices(project), value=identity)
    yield {"inference.compare_status": _status(takes), "inference.comparison": choices}
    shown = ""
    for number, take in enumerate(takes):
        for newest in studio.generations.follow(take):
            takes[number] = newest
            if (status := _status(takes)) != shown:
                shown = status
                yield {"inference.compare_status": status}
    yield _comparison(project, identity, line=1)


def show(studio: Studio, values: Values) -> Updates:
    """Show one line of a comparison as each model speaks it, and the next pair of the blind test."""
    project = studio.project(values)
    if not values["inference.comparison"]:
        return {}
    line = values["inference.line"]
    return _comparison(project, str(values["inference.comparison"]), line=1 if line is None else line)


def cast_vote(choice: str, studio: Studio, values: Values) -> Updates:
    """Save a vote of the blind test, show which models A and B are, and return the next pair."""
    project = studio.project(values)
    trial = str(values["inference.trial"] or "")
    if not trial:
        raise UserError(what=text.NOTHING_TO_RATE, where=text.BLIND, fix=text.NOTHING_TO_RATE_FIX)
    cast = vote(project, trial, choice)
    note = view.tag(
        "div", text.voted(text.model_title(cast["a"]), text.model_title(cast["b"]), cast["choice"]), role="status"
    )
    return {"inference.voted": note} | _blind(project, trial.partition("/")[0])


prefer_a, prefer_b, prefer_same = (partial(cast_vote, choice) for choice in ("a", "b", "same"))


def _comparison(project: Project, identity: str, *, line: int) -> Updates:
    takes = takes_of(project, identity)
    if not 1 <= line <= len(takes[0].lines):
        raise UserError(
            what=text.NO_LINE.format(number=line),
            where=text.COMPARE_LINE,
            fix=text.USE_UP_TO.format(most=len(takes[0].lines)),
        )
    sides: Updates = {side: Change(visible=False, value=None) for side in SIDES}
    for side, take in zip(SIDES, takes, strict=False):
        file = take.lines[line - 1].file
        sides[side] = Change(
            visible=True, label=text.model_title(name_of(take)), value=str(take.folder / file) if file else None
        )
    shown = {"inference.compared": Change(visible=True), "inference.compare_status": _status(takes)}
    return shown | sides | _blind(project, identity)


def _blind(project: Project, comparison: str) -> Updates:
    votes = view.votes(tallies(project))
    trial = next_trial(project, comparison)
    if trial is None:
        done = view.join(votes, view.tag("div", text.ALL_RATED))
        return {"inference.trial": "", "inference.a": None, "inference.b": None, "inference.votes": done}
    pair = [find_take(project, identity) for identity in (trial.a, trial.b)]
    a, b = (str(take.folder / take.lines[trial.line - 1].file) for take in pair)
    return {"inference.trial": trial.id, "inference.a": a, "inference.b": b, "inference.votes": votes}


def _status(takes: list[Take]) -> str:
    return view.join(*(view.take(take) for take in takes))
