"""Measuring how checkpoints speak: what it finds, and that it keeps to its time."""

import io
import json
import subprocess
from typing import Any

import pytest

from tests.configs import tiny_run
from tests.evaluation.pace import at_its_own_pace
from tests.sounds import make_project
from utils.dataset.storage.manifest import read_manifest
from utils.evaluation import by_ear
from utils.evaluation.by_ear import Examiner, TimeTooShort
from utils.hardware.environment import child_environment
from utils.jobs.json_lines import parse_line
from utils.jobs.measuring import COMMAND
from utils.jobs.replies import Replies
from utils.runs.layout import checkpoints_of
from utils.training.train import fine_tune


@pytest.fixture(scope="module")
def request_of(tmp_path_factory) -> dict[str, Any]:
    """What a run on the tiny base would ask of it."""
    project = make_project(tmp_path_factory.mktemp("measured"), num_eval=5)
    run = fine_tune(tiny_run(project, num_epochs=2, keep_checkpoints=9)).folder
    clips = [{"text": clip.text, "audio": str(clip.audio)} for clip in read_manifest(project.eval_csv)]
    asked = {
        "run": run,
        "checkpoints": [one.path for one in checkpoints_of(run) if not one.is_best],
        "clips": clips,
        "language": "en",
        "device": "cpu",
        "least_texts": 2,
        "seconds": 600,
    }
    return json.loads(json.dumps(asked, default=str))


def examiner(request: dict[str, Any], deadline: float = 1e9) -> Examiner:
    return Examiner(request, deadline, Replies(io.StringIO()))


def test_each_checkpoint_gets_a_score_of_the_same_texts(request_of):
    clips = [clip | {"text": text} for clip, text in zip(request_of["clips"], ("No.", "Go."), strict=False)]
    few = {"checkpoints": request_of["checkpoints"][:2], "clips": clips}
    found = examiner(request_of | few).figures()
    scores = found["scores"]
    assert found["texts"] == 2 and [one["step"] for one in scores] == [2, 4]
    for one in scores:
        assert one["score"] == pytest.approx(one["words"] + one["flawless"] + one["cosine"], abs=0.006)
        assert 0 <= one["words"] <= 1 and 0 <= one["flawless"] <= 1 and -1 <= one["cosine"] <= 1
        assert one["texts"] == 2 and one["seconds"] > 0


# Two seconds a text: two texts first, then as many as fit of each checkpoint.
@pytest.mark.parametrize(
    ("deadline", "slower", "checkpoints", "texts"),
    [
        pytest.param(40, 0, 3, 5, marks=pytest.mark.slow),
        pytest.param(12, 0, 2, 2, marks=pytest.mark.slow),
        (30, 2, 2, 3),
        (14, 2, 0, 0),
        (11, 0, 0, 0),
    ],
)
def test_short_time_leaves_out_texts_and_then_checkpoints(
    request_of,
    monkeypatch,
    deadline,
    slower,
    checkpoints,
    texts,
):
    at_its_own_pace(monkeypatch, lambda now: 2.0 + (slower if now >= 4.0 else 0))
    asked = request_of | {"checkpoints": (2 * request_of["checkpoints"])[:3]}
    if not texts:
        with pytest.raises(TimeTooShort, match="texts"):
            examiner(asked, deadline).figures()
        return
    found = examiner(asked, deadline).figures()
    assert [one["texts"] for one in found["scores"]] == [texts] * checkpoints == [found["texts"]] * checkpoints


def test_clips_without_sound_are_too_few_to_compare_with(request_of):
    with pytest.raises(by_ear.UserError, match="5 of 5 evaluation clips are long enough"):
        examiner(request_of | {"least_texts": 6}).figures()


@pytest.mark.slow
def test_the_process_answers_once(request_of):
    for asked, kind in ((request_of, "measured"), (request_of | {"run": "/nowhere"}, "failed")):
        child = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=child_environment(), text=True
        )
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(json.dumps(asked) + "\n")
        child.stdin.flush()
        (answer,) = [parse_line(line) for line in child.stdout if line.strip()]
        assert answer["kind"] == kind and child.wait() == 0
