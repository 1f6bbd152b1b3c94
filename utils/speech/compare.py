"""Compare models by ear: the same text and voice, side by side or blind, with every vote stored on disk.

output/<project>/comparisons/<id>.json names the takes of a comparison; <id>.votes.jsonl has one vote a line.
"""

import itertools
import json
import math
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from utils.errors import UserError, disk_errors
from utils.files import parsed_lines, write_atomic
from utils.options import SpeechSettings
from utils.project.paths import Project, check_name, new_run_id
from utils.speech.models import find_model, own_recording
from utils.speech.take_queue import MAX_WAITING, GenerationQueue, checked_texts
from utils.speech.takes import Take, find_take

FOLDER = "comparisons"
MAX_MODELS = 6

CHOICES = ("a", "b", "same")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One line from two models, in an order that does not reveal which is which."""

    comparison: str
    line: int
    a: str
    """Id of the take that plays as A."""
    b: str

    @property
    def id(self) -> str:
        return f"{self.comparison}/{self.line}/{self.a}/{self.b}"


@dataclass(frozen=True, kw_only=True)
class Tally:
    """All votes on a pair of models."""

    models: tuple[str, str]
    wins: tuple[int, int]
    """How often the first and the second was preferred."""
    same: int

    @property
    def chance(self) -> float:
        """How likely so clear a preference, or a clearer one, is where there is none: the two-sided sign test."""
        total, most = sum(self.wins), max(self.wins)
        tail = sum(math.comb(total, count) for count in range(most, total + 1)) / 2**total
        return min(1.0, 2 * tail)


@disk_errors()
def compare(
    queue: GenerationQueue,
    project: Project,
    models: Sequence[str],
    texts: Sequence[str],
    *,
    settings: SpeechSettings,
    **voice: Any,
) -> str:
    """Ask for the same lines from each model.

    Args:
        queue: who has them spoken.
        project: whose models.
        models: their ids, two or more.
        texts: the lines.
        settings: how they are spoken, by all alike.
        voice: reference and reference_name, see `new_take`. Without, all speak with the recording of the first model
            that has one, a base's only where no other has: with their own, listeners would compare voices.

    Returns:
        The comparison's id.

    Raises:
        UserError: fewer than two models, or anything that `GenerationQueue.submit` refuses.
    """
    chosen = list(dict.fromkeys(models))
    if not 2 <= len(chosen) <= MAX_MODELS:
        raise UserError(what=f"{len(chosen)} models are selected", fix=f"select 2 to {MAX_MODELS} models to compare")
    settings.validate(where="speech settings")
    lines = checked_texts(texts)
    found = [find_model(project, model) for model in chosen]
    if queue.num_waiting + len(chosen) > MAX_WAITING:
        raise UserError(what=f"{queue.num_waiting} takes are already queued", fix="wait until some are finished")
    identity = new_run_id()
    how: dict[str, Any] = {"settings": settings, "comparison": identity, **voice}
    with tempfile.TemporaryDirectory(prefix="comparison-") as scratch:
        if how.get("reference") is None:
            found.sort(key=lambda model: model.kind == "base")
            own = next(filter(None, (own_recording(model, Path(scratch)) for model in found)), None)
            how |= {"reference": own, "reference_name": own.name if own else ""}
        # Each take copies the recording.
        takes = [queue.submit(project, lines, model=model, **how) for model in chosen]
    folder = project.folder / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    content = {"created": time.time(), "takes": [take.id for take in takes]}
    write_atomic(folder / f"{identity}.json", json.dumps(content, indent=1), durable=True)
    return identity


def comparisons(project: Project) -> list[str]:
    """Ids of the comparisons of a project, the newest first."""
    return sorted((path.stem for path in (project.folder / FOLDER).glob("*.json")), reverse=True)


def takes_of(project: Project, comparison: str) -> list[Take]:
    """The takes of a comparison, in the order in which their models were chosen.

    Raises:
        UserError: there is no such comparison.
    """
    path = _file(project, comparison, ".json")
    try:
        ids = [str(name) for name in json.loads(path.read_text(encoding="utf-8"))["takes"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            what=f"there is no comparison {comparison!r}", where=str(path.parent), fix="create a new one"
        ) from error
    return [find_take(project, name) for name in ids]


def trials(project: Project, comparison: str) -> list[Trial]:
    """The trials of a blind test: each line that two models have spoken, for each pair, in an order fixed by chance.

    Raises:
        UserError: there is no such comparison.
    """
    takes = takes_of(project, comparison)
    # Seeded by the id: a page that is loaded again asks the same, and asking twice does not reveal A and B.
    chance = random.Random(comparison)
    found = []
    for line, (first, second) in itertools.product(range(len(takes[0].lines)), itertools.combinations(takes, 2)):
        a, b = chance.sample([first, second], 2)
        # What was stopped half-way has a recording, too, and cannot be compared.
        if a.lines[line].state == b.lines[line].state == "finished":
            found.append(Trial(comparison=comparison, line=line + 1, a=a.id, b=b.id))
    chance.shuffle(found)
    return found


def next_trial(project: Project, comparison: str) -> Trial | None:
    """The first trial that is not rated yet.

    Raises:
        UserError: there is no such comparison.
    """
    rated = {(record["line"], record["take_a"], record["take_b"]) for record in _records(project, comparison)}
    waiting = (t for t in trials(project, comparison) if (t.line, t.a, t.b) not in rated)
    return next(waiting, None)


@disk_errors()
def vote(project: Project, trial_id: str, choice: str) -> dict[str, Any]:
    """Save a listener's answer.

    Args:
        project: whose comparison.
        trial_id: `Trial.id`.
        choice: a, b or same.

    Returns:
        The vote as it is stored: the time, the line and its text, and now the models that played as a and b.

    Raises:
        UserError: there is no such trial, or no such choice.
    """
    trial = next((t for t in trials(project, trial_id.partition("/")[0]) if t.id == trial_id), None)
    if trial is None or choice not in CHOICES:
        raise UserError(what="there is no pair to rate", where=trial_id[:80], fix="compare two or more models first")
    first, second = find_take(project, trial.a), find_take(project, trial.b)
    record = {
        "time": time.time(),
        "line": trial.line,
        "text": first.lines[trial.line - 1].text,
        "a": name_of(first),
        "b": name_of(second),
        "choice": choice,
        "take_a": trial.a,
        "take_b": trial.b,
    }
    with _file(project, trial.comparison, ".votes.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return record


def tallies(project: Project) -> list[Tally]:
    """All votes of a project, by pair of models."""
    counts: dict[tuple[str, str], list[int]] = {}
    for comparison in comparisons(project):
        for record in _records(project, comparison):
            first, second = sorted((record["a"], record["b"]))
            wins = counts.setdefault((first, second), [0, 0, 0])
            preferred = {"a": record["a"], "b": record["b"]}.get(record["choice"])
            wins[2 if preferred is None else (first, second).index(preferred)] += 1
    return [Tally(models=pair, wins=(won[0], won[1]), same=won[2]) for pair, won in sorted(counts.items())]


def name_of(take: Take) -> str:
    """The model of a take, with its checkpoint: a run's best is another one after more training."""
    return f"{take.model} ({take.checkpoint})" if take.checkpoint else take.model


def _records(project: Project, comparison: str) -> list[dict[str, Any]]:
    """The votes of a comparison; a line that a killed process tore is skipped."""
    path = _file(project, comparison, ".votes.jsonl")
    names = ("a", "b", "choice", "take_a", "take_b", "line")
    return list(parsed_lines(path, lambda record: {name: record[name] for name in names}))


def _file(project: Project, comparison: str, ending: str) -> Path:
    return project.folder / FOLDER / (check_name(comparison, kind="comparison") + ending)
