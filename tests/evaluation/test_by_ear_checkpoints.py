"""Measuring how checkpoints speak: what it finds, and that it keeps to its time."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sounds import make_project
from utils.config import TrainConfig
from utils.dataset.storage.manifest import read_manifest
from utils.evaluation import by_ear
from utils.evaluation.by_ear import CheckpointExaminer, Rendition, TimeTooShort
from utils.hardware.environment import child_environment
from utils.jobs.json_lines import parse_line
from utils.jobs.measuring import COMMAND
from utils.runs.layout import checkpoints_of
from utils.training.train import fine_tune


@pytest.fixture(scope="module")
def request_of(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a run on the tiny base would ask of it."""
    project = make_project(tmp_path_factory.mktemp("measured"), num_eval=5)
    run = fine_tune(
        TrainConfig(base="tiny", project=project.name, output=project.output, num_epochs=2, keep_checkpoints=9)
    ).folder
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


def test_each_checkpoint_gets_a_score_of_the_same_texts(request_of: dict[str, Any]) -> None:
    few = {"checkpoints": request_of["checkpoints"][:2], "clips": request_of["clips"][:2]}
    found = CheckpointExaminer(request_of | few).scores(1e9)
    scores = found["scores"]
    assert found["texts"] == 2 and [one["step"] for one in scores] == [2, 4]
    for one in scores:
        assert one["score"] == pytest.approx(one["words"] + one["flawless"] + one["cosine"], abs=0.006)
        assert 0 <= one["words"] <= 1 and 0 <= one["flawless"] <= 1 and -1 <= one["cosine"] <= 1
        assert one["texts"] == 2 and one["seconds"] > 0


class Clock:
    """Time that only speaking takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, loading: float, speaking: float) -> None:
        self.now, self.spoken = 0.0, list[str]()
        monkeypatch.setattr(by_ear.time, "monotonic", lambda: self.now)

        def load(examiner: CheckpointExaminer, checkpoint: Path) -> None:
            self.now += loading if not self.spoken else 0.0

        def chunks(examiner: CheckpointExaminer, checkpoint: Path, size: int, limit: int) -> Iterator[list[Rendition]]:
            for start in range(0, limit, size):
                self.now += speaking
                self.spoken.append(checkpoint.name)
                yield [examiner] * min(size, limit - start)

        monkeypatch.setattr(CheckpointExaminer, "_with_weights", load)
        monkeypatch.setattr(CheckpointExaminer, "_chunks", chunks)
        monkeypatch.setattr(
            CheckpointExaminer, "_score", lambda self, folder, spoken, seconds: (folder.name, len(spoken))
        )


@pytest.mark.parametrize(
    ("deadline", "checkpoints", "texts"), [(38, 3, 5), (26, 3, 4), (25, 3, 2), (14, 3, 2), (10, 2, 2)]
)
def test_short_time_leaves_out_texts_and_then_checkpoints(
    request_of: dict[str, Any], monkeypatch: pytest.MonkeyPatch, deadline: float, checkpoints: int, texts: int
) -> None:
    clock = Clock(monkeypatch, loading=2.0, speaking=4.0)
    asked = request_of | {"checkpoints": ["step-1", "step-2", "step-3"]}
    found = CheckpointExaminer(asked).scores(deadline)
    scores, number = found["scores"], found["texts"]
    assert (len(scores), number) == (checkpoints, texts) and clock.now <= deadline
    assert [count for _, count in scores] == [texts] * checkpoints


def test_a_machine_that_becomes_slow_leaves_out_the_rest(
    request_of: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, speak = Clock(monkeypatch, loading=2.0, speaking=4.0), CheckpointExaminer._chunks

    def slower(examiner: CheckpointExaminer, checkpoint: Path, size: int, limit: int) -> Iterator[list[Rendition]]:
        clock.now += 3.0 if clock.spoken else 0.0
        return speak(examiner, checkpoint, size, limit)

    monkeypatch.setattr(CheckpointExaminer, "_chunks", slower)
    asked = request_of | {"checkpoints": ["step-1", "step-2", "step-3"]}
    found = CheckpointExaminer(asked).scores(15.0)
    scores, number = found["scores"], found["texts"]
    assert (len(scores), number, clock.now) == (2, 2, 13.0)


def test_too_short_a_time_measures_nothing(request_of: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, loading=2.0, speaking=4.0)
    with pytest.raises(TimeTooShort, match="4 s for 2 texts of one checkpoint"):
        CheckpointExaminer(request_of).scores(9.0)
    assert len(clock.spoken) == 1


def test_clips_without_sound_are_too_few_to_compare_with(request_of: dict[str, Any]) -> None:
    with pytest.raises(by_ear.UserError, match="5 of 5 evaluation clips are long enough"):
        CheckpointExaminer(request_of | {"least_texts": 6})


@pytest.mark.slow
def test_the_process_answers_once(request_of: dict[str, Any]) -> None:
    for asked, kind in ((request_of, "measured"), (request_of | {"run": "/nowhere"}, "failed")):
        child = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=child_environment(), text=True
        )
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(json.dumps(asked) + "\n")
        child.stdin.flush()
        (answer,) = [parse_line(line) for line in child.stdout if line.strip()]
        assert answer["kind"] == kind and child.wait() == 0
