"""Comparing a model's speech with its base's: the base itself is no worse, a damaged one is."""

import io
import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.evaluation.pace import at_its_own_pace
from tests.sounds import make_project
from utils.config import ExportConfig, TrainConfig
from utils.evaluation.by_ear import Examiner, TimeTooShort, answer
from utils.inference.comparison import is_worse
from utils.inference.export import export_model
from utils.jobs.replies import Replies
from utils.model.weights import write_pickle
from utils.training.train import fine_tune

TEXTS = ("Good morning.", "Where is my hat?", "Rain fell all night.", "Close the old door.")


@pytest.fixture(scope="module")
def request_of(tmp_path_factory) -> dict[str, Any]:
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
        "least_texts": 4, "seconds": 600,
    }  # fmt: skip


def said(request: dict[str, Any], begun: float) -> list[dict[str, Any]]:
    """All that the process would say."""
    pipe = io.StringIO()
    answer(request, begun, Replies(pipe))
    return [json.loads(line) for line in pipe.getvalue().splitlines() if line]


@pytest.mark.slow
def test_a_model_like_its_base_is_no_worse_and_a_damaged_one_is(request_of, tmp_path):
    # Both speak the texts as they are, whatever the project's table says.
    table = Path(request_of["model"]).parent / "pronunciations.csv"
    table.write_text("word,say,language\nthe,a very large number of words,\n", encoding="utf-8")
    *progress, found = said(request_of, time.monotonic())
    assert found["kind"] == "measured" and found["texts"] == 4 and not is_worse(found)
    assert found["base"] == found["model"], "the same weights, seed and voice"
    assert found["base"]["words"] == 1.0
    assert [(one["done"], one["total"]) for one in progress] == [(done, 12) for done in range(1, 13)]
    damaged = shutil.copytree(request_of["model"], tmp_path / "damaged")
    state = torch.load(damaged / "model.pth", weights_only=True)["model"]
    name = "gpt.text_embedding.weight"
    state[name] = state[name][torch.randperm(len(state[name]), generator=torch.Generator().manual_seed(0))]
    write_pickle(damaged / "model.pth", {"model": state})
    *_, found = said(request_of | {"model": str(damaged)}, time.monotonic())
    assert found["model"]["words"] < 0.5 and is_worse(found)


@pytest.mark.slow
def test_short_time_and_unreadable_texts_are_reasons(request_of):
    (found,) = said(request_of | {"seconds": 0.001}, time.monotonic())
    assert found["kind"] == "skipped" and "the time is too short" in found["reason"]
    (found,) = said(request_of | {"texts": ["漢字", *TEXTS[1:]]}, time.monotonic())
    assert found == {"kind": "failed", "reason": "the base reads 3 of 4 texts"}


# A second a text: four first, and then as many as fit three and a half times.
@pytest.mark.parametrize(
    ("deadline", "texts"),
    [*(pytest.param(*one, marks=pytest.mark.slow) for one in ((21.5, 5), (18.0, 4))), (17.0, None)],
)
def test_texts_are_left_out_where_time_is_short(request_of, monkeypatch, deadline, texts):
    at_its_own_pace(monkeypatch, lambda now: 1.0)
    request = request_of | {"texts": [f"{text} {n}" for n in range(2) for text in TEXTS]}
    examiner = Examiner(request, deadline, Replies(io.StringIO()))
    if texts is None:
        with pytest.raises(TimeTooShort):
            examiner.figures()
    else:
        assert examiner.figures()["texts"] == texts
