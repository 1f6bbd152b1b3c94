"""What a run says it sees follows from its events, and a healthy run says nothing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from utils import jobs
from utils.cli import runs
from utils.project.paths import Project
from utils.runs.narration import Narration
from utils.runs.progress import MAX_WARNINGS, MIN_TIMED, observe


def seen(folder: Path, events: list[dict], *, alive: bool = True, events_offset: int = 0) -> list[str]:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"time": float(number), **event}) for number, event in enumerate(events)]
    (folder / "events.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    job = replace(jobs.status(folder), state="running" if alive else "finished", events_offset=events_offset)
    assert job.alive == alive
    return [observation.sentence for observation in observe(job)]


def step(number: int, loss: float = 2.0, **values: float) -> dict:
    return {"kind": "step", "step": number, "loss": loss, "step_s": 0.88, "data_s": 0.0, **values}


def epochs(training: list[float], evaluation: list[float], each: int = 5) -> list[dict]:
    """A run of epochs of this many steps, each with an evaluation at its end."""
    events = []
    for number, (loss, evaluated) in enumerate(zip(training, evaluation, strict=True)):
        events += [step(number * each + one + 1, loss) for one in range(each)]
        events.append({"kind": "eval", "step": (number + 1) * each, "loss": evaluated})
    return events


def warning(source: str, **facts: object) -> dict:
    return {"kind": "warning", "message": "as the run wrote it", "source": source, **facts}


def test_a_healthy_run_says_nothing(tmp_path):
    assert seen(tmp_path / "run", []) == []
    assert seen(tmp_path / "run", epochs([3, 2.5, 2.2, 2.1], [3, 2.6, 2.7, 2.5])) == []
    assert seen(tmp_path / "run", epochs([3, 2.5, 2.4], [2.5, 2.6, 2.6])) == [], "two evaluations are noise"


def test_no_gain_names_the_best_step_and_asks_only_while_it_trains(tmp_path):
    events = epochs([3, 2.5, 2.5, 2.5, 2.5], [3, 2.5, 2.6, 2.55, 2.52])
    assert seen(tmp_path / "run", events) == ["No gain since step 10: stop here and export the best checkpoint?"]
    assert seen(tmp_path / "run", events, alive=False) == ["No gain since step 10. Fewer epochs are enough."]


@pytest.mark.parametrize(
    ("training", "evaluation", "says"),
    [
        ([3, 2.5, 2.0, 1.5], [3, 2.5, 2.6, 2.8], True),
        ([3, 2.5, 2.6, 2.7], [3, 2.5, 2.6, 2.8], False),
        ([3, 2.5, 2.0, 1.5], [3, 2.5, 2.504, 2.508], False),
        ([3, 2.5, 2.0, 1.5], [3, 2.5, 2.9, 2.8], False),
    ],
    ids=["learned by heart", "training rises, too", "within noise", "falls again"],
)
def test_clips_are_learned_by_heart_where_the_losses_part(tmp_path, training, evaluation, says):
    reported = seen(tmp_path / "run", epochs(training, evaluation))
    assert ["learned by heart since step 10" in sentence for sentence in reported] == [True] * says


def test_loading_counts_from_a_tenth_of_the_time_and_without_the_first_step(tmp_path):
    slow = [step(number, data_s=0.12) for number in range(1, MIN_TIMED + 2)]
    assert seen(tmp_path / "run", slow) == ["Loading takes 12 % of a step. More workers may help: --num-workers."]
    assert seen(tmp_path / "run", slow[:MIN_TIMED]) == [], "too few steps"
    begun = [step(1, data_s=60.0), *(step(number, data_s=0.01) for number in range(2, 20))]
    assert seen(tmp_path / "run", begun) == []


def test_memory_and_numbers_are_counted_in_the_present_process_alone(tmp_path):
    first = warning("memory", micro_batch=4)
    events = [first, warning("memory", micro_batch=2), warning("memory", eval_batch=1)]
    events += [warning("numbers", step=number, clips=["a.wav"]) for number in (7, 8)]
    reported = seen(tmp_path / "run", events)
    assert [sentence.split(".")[0] for sentence in reported] == [
        "Out of memory: micro-batches have at most 2 clips now",
        "Out of memory during evaluation",
        "Skipped steps: 2, the last was step 8",
    ]
    offset = len(json.dumps({"time": 0.0, **first})) + 1
    assert len(seen(tmp_path / "run", events, events_offset=offset)) == 3
    assert seen(tmp_path / "run", events[:1], events_offset=offset) == []
    forced = [*events[:2], warning("memory", micro_batch=1, gradient_checkpointing=True)]
    assert ["--gradient-checkpointing is on now" in one for one in seen(tmp_path / "run", forced)] == [True]
    many = [warning("numbers", step=number, clips=[]) for number in range(MAX_WARNINGS + 5)]
    assert seen(tmp_path / "run", many)[0].startswith("Skipped steps: 64 or more")


def test_what_a_foreign_log_holds_breaks_nothing(tmp_path):
    odd = [warning("memory", micro_batch="two"), warning("numbers", step=None, clips=None)]
    odd += [{"kind": "eval", "step": 1, "loss": None}, {"kind": "step", "step": "one", "data_s": "long"}]
    assert len(seen(tmp_path / "run", odd)) == 1


def test_the_command_that_shows_a_run_says_it(tmp_path, capsys):
    project = Project(name="maria", output=tmp_path)
    project.runs.mkdir(parents=True)
    seen(project.runs / "one", epochs([3, 2.5, 2.0, 1.5], [3, 2.5, 2.6, 2.8]))
    runs.main(["show", "one", "--project", "maria", "--output", str(tmp_path)])
    assert "warning   Evaluation loss rises while training loss falls" in capsys.readouterr().out


def test_an_evaluation_says_which_step_is_best_and_when_the_loss_rises():
    lines: list[str] = []
    narration = Narration(lines.append)
    for step, loss in ((10, 3.0), (20, 2.5), (30, 2.6), (40, 2.8)):
        narration.event("eval", {"step": step, "loss": loss, "is_best": step <= 20})
    assert lines[1:] == [
        "evaluation after step 20: loss 2.500, the best so far",
        "evaluation after step 30: loss 2.600, best at step 20",
        "evaluation after step 40: loss 2.800, best at step 20; rising for 2 evaluations: stop, or export the best",
    ]
