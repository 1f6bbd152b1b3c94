"""Comparing a model's speech with its base's: the base itself is no worse, a damaged one is."""

import io
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.sounds import make_project
from utils.config import ExportConfig, TrainConfig
from utils.evaluation import by_ear
from utils.evaluation.by_ear import Examiner, TimeTooShort, answer
from utils.evaluation.measure import Said
from utils.inference.comparison import is_worse
from utils.inference.export import export_model
from utils.jobs.replies import Replies
from utils.model.weights import write_pickle
from utils.training.train import fine_tune

TEXTS = (
    "Good morning.",
    "The kettle is on.",
    "Where is my hat?",
    "Rain fell all night.",
    "She likes green tea.",
    "Two birds sang.",
    "Close the old door.",
    "Come back soon.",
)


@pytest.fixture(scope="module")
def request_of(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the export of a starter that has learned nothing would ask."""
    project = make_project(tmp_path_factory.mktemp("exported"))
    run = fine_tune(
        TrainConfig(
            base="starter", project=project.name, output=project.output, num_epochs=1, learning_rate=1e-9,
            best_by="loss", sample_text="",
        )
    ).folder  # fmt: skip
    ready = export_model(ExportConfig(project=project.name, output=project.output, tune_decoder=False, compare=False))
    return {
        "run": str(run), "model": str(ready), "texts": list(TEXTS), "language": "en", "device": "cpu",
        "least_texts": 8, "seconds": 600,
    }  # fmt: skip


def said(request: dict[str, Any], begun: float) -> list[dict[str, Any]]:
    """All that the process would say."""
    pipe = io.StringIO()
    answer(request, begun, Replies(pipe))
    return [json.loads(line) for line in pipe.getvalue().splitlines() if line]


def test_a_model_like_its_base_is_no_worse_and_a_damaged_one_is(request_of: dict[str, Any], tmp_path: Path) -> None:
    # Both speak the texts as they are, whatever the project's table says.
    table = Path(request_of["model"]).parent / "pronunciations.csv"
    table.write_text("word,say,language\nthe,a very large number of words,\n", encoding="utf-8")
    *progress, found = said(request_of, time.monotonic())
    assert found["kind"] == "measured" and found["texts"] == 8 and not is_worse(found)
    assert found["base"] == found["model"], "the same weights, seed and voice"
    assert found["base"]["words"] == 1.0
    assert [(one["done"], one["total"]) for one in progress] == [(done, 24) for done in range(1, 25)]
    damaged = shutil.copytree(request_of["model"], tmp_path / "damaged")
    state = torch.load(damaged / "model.pth", weights_only=True)["model"]
    name = "gpt.text_embedding.weight"
    state[name] = state[name][torch.randperm(len(state[name]), generator=torch.Generator().manual_seed(0))]
    write_pickle(damaged / "model.pth", {"model": state})
    *_, found = said(request_of | {"model": str(damaged)}, time.monotonic())
    assert found["model"]["words"] < 0.5 and is_worse(found)


def test_short_time_and_unreadable_texts_are_reasons(request_of: dict[str, Any]) -> None:
    (found,) = said(request_of | {"seconds": 0.001}, time.monotonic())
    assert found["kind"] == "skipped" and "the time is too short" in found["reason"]
    (found,) = said(request_of | {"texts": ["漢字", *TEXTS[1:]]}, time.monotonic())
    assert found == {"kind": "failed", "reason": "the base reads 7 of 8 texts"}
    *_, found = said(request_of | {"model": request_of["run"] + "-gone"}, time.monotonic())
    assert found["kind"] == "failed"


@pytest.mark.parametrize(("deadline", "texts"), [(64.0, 16), (43.0, 10), (36.0, 8), (35.0, None)])
def test_texts_are_left_out_where_time_is_short(
    request_of: dict[str, Any], monkeypatch: pytest.MonkeyPatch, deadline: float, texts: int | None
) -> None:
    now = [0.0]
    monkeypatch.setattr(by_ear.time, "monotonic", lambda: now[0])

    def speak(synthesizer: Any, pieces: list[Any], **_: Any) -> Iterator[Said]:
        for _ in pieces:
            now[0] += 1.0
            yield Said(wav=torch.randn(1, 24_000), finished=True)

    monkeypatch.setattr(by_ear, "speak_texts", speak)
    request = request_of | {"texts": [f"{text} {n}" for n in range(2) for text in TEXTS]}
    examiner = Examiner(request, deadline, Replies(io.StringIO()))
    if texts is None:
        with pytest.raises(TimeTooShort):
            examiner.figures()
    else:
        assert examiner.figures()["texts"] == texts
