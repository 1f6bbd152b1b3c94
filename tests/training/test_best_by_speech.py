"""The best checkpoint is the one that speaks best; where that is not measured, the one of the lowest loss stays."""

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.run_logs import events_of
from tests.saving import same
from tests.sounds import make_project
from tests.training.test_run import config_of
from utils.bases.base import Base
from utils.model.weights import read_weights
from utils.project.paths import Project
from utils.runs.checkpoints import Checkpoints, NotSaved, verify
from utils.runs.log import EventWriter
from utils.runs.narration import Narration
from utils.training import best_by_speech
from utils.training import train as train_module
from utils.training.best_by_speech import choose_best
from utils.training.checkpointing import Services
from utils.training.recovery import Recovery
from utils.training.train import TrainResult, fine_tune
from utils.training.trainer import Losses

HEAD = """
import json, os, signal, sys, time
request = json.loads(sys.stdin.readline())
steps = [int(path.rsplit("-", 1)[1]) for path in request["checkpoints"]]
def tell(kind, **fields):
    print(json.dumps({"kind": kind, **fields}), flush=True)
"""
SCORES = """
points = json.loads(sys.argv[1])
tell("measured", scores=[{"step": step, "score": points.get(str(step), 0.0)} for step in steps], texts=4)
"""
FAILS = 'tell("failed", reason="no memory")'
DIES = 'print("Traceback: oh no", file=sys.stderr); sys.exit(3)'
KILLED = "os.kill(os.getpid(), signal.SIGKILL)"
HANGS = "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
STOPPED = """
open(sys.argv[1], "w").write(str(os.getpid()))
os.kill(os.getppid(), signal.SIGTERM)
time.sleep(60)
"""

Train = Callable[..., TrainResult]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("made"), num_eval=4)


@pytest.fixture
def train(made: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Train:
    """Trains a base that is said to speak, with evaluation losses and a measuring program of the test's own."""
    project = Project(name=made.name, output=tmp_path)
    shutil.copytree(made.folder, project.folder)
    monkeypatch.setattr(Base, "can_speak", True)
    # It only seems to speak 17 languages: no warning about them.
    monkeypatch.setattr(train_module, "other_languages", lambda *_: "")
    monkeypatch.setattr(best_by_speech, "SHARE", 1e9)
    monkeypatch.setattr(best_by_speech, "LONGEST_S", 30.0)

    def trained(losses: Sequence[float], body: str, *arguments: str, **settings) -> TrainResult:
        remaining = iter(losses)
        monkeypatch.setattr(Recovery, "evaluate", lambda self, batches: Losses(text=0.0, codes=next(remaining)))
        command = [sys.executable, "-S", "-c", HEAD + body, *arguments]
        monkeypatch.setattr(train_module, "choose_best", partial(choose_best, command=command))
        values = {"num_epochs": len(losses), "sample_text": "", "device": "cpu"} | settings
        return fine_tune(config_of(project, **values))

    return trained


Measure = Callable[..., Path]


@pytest.fixture(scope="module")
def two(made: Project, tmp_path_factory: pytest.TempPathFactory) -> Services:
    """A run of two evaluations, the first with the lower loss, as it is before its checkpoints are measured."""
    project = Project(name=made.name, output=tmp_path_factory.mktemp("two"))
    shutil.copytree(made.folder, project.folder)
    losses, seen = iter([1.0, 2.0]), list[Services]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recovery, "evaluate", lambda self, batches: Losses(text=0.0, codes=next(losses)))
        patch.setattr(train_module, "choose_best", lambda services, **_: seen.append(services))
        fine_tune(config_of(project, sample_text="", device="cpu"))
    return seen[0]


@pytest.fixture
def measure(two: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """Measures the checkpoints of that run, which ends as it would, with a program of the test's own."""
    folder = Path(shutil.copytree(two.folder, tmp_path / "run"))
    monkeypatch.setattr(Base, "can_speak", True)
    monkeypatch.setattr(best_by_speech, "LONGEST_S", 30.0)

    def measured(body: str, *arguments: str, **settings) -> Path:
        plan = replace(two.plan, config=replace(two.plan.config, **settings))
        with closing(EventWriter(folder / "events.jsonl")) as log:
            services = replace(two, plan=plan, folder=folder, checkpoints=Checkpoints(folder), log=log)
            command = [sys.executable, "-S", "-c", HEAD + body, *arguments]
            choose_best(services, trained_s=1e9, command=command)
        return folder

    return measured


def scores_of(**points: float) -> str:
    return json.dumps({name.removeprefix("step"): score for name, score in points.items()})


def best_of(run: TrainResult | Path) -> str:
    folder = run if isinstance(run, Path) else run.folder
    (best,) = (folder / "checkpoints").glob("best-*")
    verify(best)
    assert isinstance(run, Path) or run.checkpoint.parent == best
    return best.name


@pytest.mark.slow
def test_the_last_one_wins_over_the_lowest_loss(train):
    result = train([1.0, 2.0], SCORES, scores_of(step3=2.0, step6=2.5))
    assert best_of(result) == "best-00000006" and result.best_loss == 1.0
    last = result.folder / "checkpoints" / "step-00000006" / "model.safetensors"
    assert same(read_weights(result.checkpoint), read_weights(last))
    (event,) = events_of(result.folder, "speech_scores")
    assert {one["step"]: one["score"] for one in event["scores"]} == {3: 2.0, 6: 2.5}
    assert (event["best"], event["texts"], event["reason"]) == (6, 4, None)
    assert events_of(result.folder)[-1]["kind"] == "finished"
    assert 0 < event["seconds"] < event["budget_s"] == 30.0
    lines: list[str] = []
    Narration(lines.append).event("speech_scores", event)
    assert lines == ["best checkpoint: step 6, it speaks best (step 3 2.00, step 6 2.50 of 3; 4 texts)"]


@pytest.mark.slow
def test_older_checkpoints_that_were_kept_may_win_and_the_loss_decides_between_equal_scores(train):
    points = scores_of(step3=1.0, step6=1.5, step9=1.5, step12=1.5)
    result = train([1.0, 3.0, 2.0, 4.0], SCORES, points, keep_checkpoints=9)
    assert best_of(result) == "best-00000009"
    (event,) = events_of(result.folder, "speech_scores")
    assert [one["step"] for one in event["scores"]] == [3, 12, 9, 6], "the best by loss, then the newest"
    assert best_of(train([1.0, 2.0], SCORES, "{}")) == "best-00000003"


@pytest.mark.parametrize(
    ("body", "reason"),
    [(FAILS, "no memory"), (DIES, "status 3"), (KILLED, "status -9"), (HANGS, "longer than 0 s")],
    ids=["fails", "dies", "killed", "hangs"],
)
def test_a_measuring_that_fails_leaves_the_lowest_loss_the_best(measure, monkeypatch, body, reason):
    if body == HANGS:
        monkeypatch.setattr(best_by_speech, "LONGEST_S", 0.5)
        monkeypatch.setattr(best_by_speech, "SHORTEST_S", 0.0)
    run = measure(body)
    assert best_of(run) == "best-00000003"
    (warning,), (event,) = events_of(run, "warning"), events_of(run, "speech_scores")
    assert warning["source"] == "speech" and reason in warning["message"] and reason in event["reason"]
    assert event["seconds"] < event["budget_s"] + 5 and event["best"] is None
    # Other tests of this process may have left servers of their own.
    assert not [child for child in psutil.Process().children() if HEAD in " ".join(child.cmdline())]


def test_a_program_that_cannot_be_started_is_a_warning(measure, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    run = measure(SCORES)
    assert best_of(run) == "best-00000003" and len(events_of(run, "warning")) == 1


def test_a_full_disk_leaves_the_lowest_loss_the_best(measure, monkeypatch):
    link = Checkpoints.link_best

    def full(self, last: Path, *, loss_to_beat: float | None = None) -> Path:
        if loss_to_beat is not None:
            raise NotSaved(what="the disk is full")
        return link(self, last)

    monkeypatch.setattr(Checkpoints, "link_best", full)
    run = measure(SCORES, scores_of(step6=3.0))
    assert best_of(run) == "best-00000003"
    assert "the disk is full" in events_of(run, "warning")[0]["message"]


@pytest.mark.parametrize(
    ("place", "name", "value", "reason"),
    [
        (best_by_speech, "LEAST_TEXTS", 5, "4 evaluation texts are too few, it takes 5"),
        (best_by_speech, "SHARE", 0.0, "a tenth of the training time is 0 s, it takes 20 s or more"),
        (Base, "can_speak", False, "the base does not speak"),
    ],
)
def test_what_is_not_measured_is_logged_with_the_reason(measure, monkeypatch, place, name, value, reason):
    monkeypatch.setattr(place, name, value)
    run = measure(FAILS)
    assert best_of(run) == "best-00000003"
    (event,) = events_of(run, "speech_scores")
    assert (event["reason"], event["scores"]) == (reason, []) and not events_of(run, "warning")
    lines: list[str] = []
    Narration(lines.append).event("speech_scores", event)
    assert reason in lines[0]


def test_best_by_loss_measures_nothing(measure):
    run = measure(FAILS, best_by="loss")
    assert best_of(run) == "best-00000003" and not events_of(run, "speech_scores")


def test_a_stop_while_measuring_ends_it_at_once(train, tmp_path):
    result = train([1.0, 2.0], STOPPED, str(tmp_path / "pid"))
    assert (best_of(result), result.ended, result.stop_signal) == ("best-00000003", "epochs", None)
    (event,) = events_of(result.folder, "speech_scores")
    assert event["reason"] == "a stop was requested" and event["seconds"] < 10
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text())) and events_of(result.folder, "finished")


def test_a_time_limit_that_ends_a_run_is_no_stop_by_a_signal(train):
    result = train([1.0, 2.0], SCORES, max_hours=1e-9, keep_checkpoints=1)
    assert result.ended == "hours"
    assert events_of(result.folder, "speech_scores")[0]["reason"] == "there is one checkpoint only"


@pytest.mark.slow
def test_a_run_whose_best_was_chosen_by_speech_goes_on_and_chooses_again(train):
    points = scores_of(step3=1.0, step6=2.0, step9=1.0, step12=1.0, step15=3.0)
    first = train([1.0, 2.0], SCORES, points)
    assert best_of(first) == "best-00000006"
    # Below the loss of step 6, but above that of step 3, whose place it took.
    higher = train([1.5], SCORES, points, num_epochs=3, resume=first.folder)
    assert best_of(higher) == "best-00000006" and len(events_of(higher.folder, "speech_scores")) == 2
    lower = train([0.5], SCORES, points, num_epochs=4, resume=first.folder)
    assert best_of(lower) == "best-00000012" and lower.best_loss == 0.5
    assert best_of(train([0.7], SCORES, points, num_epochs=5, resume=first.folder)) == "best-00000015"
    # From the best itself, which is a checkpoint to resume from as any other.
    again = train([0.9], SCORES, points, num_epochs=6, resume=Path("best"))
    assert again.num_steps == 18 and best_of(again) == "best-00000015"
