"""An export says how it speaks beside its base, and warns where it is worse; nothing of that fails the export."""

import json
import logging
import shutil
import sys
from functools import partial

import pytest

from tests.configs import tiny_run
from tests.sounds import make_project
from utils.bases.base import Base
from utils.config import ExportConfig
from utils.inference import comparison, export
from utils.inference.comparison import compare_with_base, is_worse, new_texts
from utils.inference.export import COMPARISON, export_model
from utils.project.paths import Project
from utils.training.train import fine_tune

HEAD = """
import json, sys, time
request = json.loads(sys.stdin.readline())
def tell(kind, **fields):
    print(json.dumps({"kind": kind, **fields}), flush=True)
"""
COMPARED = """
words, flawless = json.loads(sys.argv[1])
tell("progress", done=4, total=8)
tell("measured", texts=len(request["texts"]), base={"words": 1.0, "flawless": 0.95},
     model={"words": words, "flawless": flawless})
"""


def shares(texts: int, base: tuple[float, float], model: tuple[float, float]) -> dict:
    names = ("words", "flawless")
    return {"texts": texts, "base": dict(zip(names, base, strict=True)), "model": dict(zip(names, model, strict=True))}


@pytest.mark.parametrize(
    ("texts", "base", "model", "worse"),
    [
        (20, (1.0, 0.95), (1.0, 0.95), False),
        (20, (1.0, 0.95), (1.0, 0.80), False),  # p(3 more of 20 fail by chance) is 15 %
        (20, (1.0, 0.95), (1.0, 0.60), True),
        (20, (1.0, 0.95), (0.7, 0.95), True),
        (8, (1.0, 1.0), (0.75, 0.75), False),
        (8, (1.0, 1.0), (0.5, 1.0), True),
        (20, (0.1, 0.1), (0.0, 0.0), False),  # a base that does not know the language
        (20, (0.3, 0.3), (1.0, 1.0), False),
    ],
)
def test_worse_is_what_chance_does_not_explain(texts, base, model, worse):
    assert is_worse(shares(texts, base, model)) is worse


def test_new_texts_are_held_out_or_put_together_and_never_trained_on():
    trained = [
        f"The {animal} sleeps until {hour} every day." for hour, animal in enumerate(("cat", "dog", "hen", "owl"))
    ]
    texts = new_texts(trained, ["Held out.", trained[0]])
    assert texts[0] == "Held out." and len(texts) == 5 and not set(texts) & set(trained)
    for text in texts[1:]:
        assert any(text.startswith(one[:14]) for one in trained) and any(text.endswith(one[-19:]) for one in trained)
    assert texts == new_texts(trained, ["Held out.", trained[0]]), "the same each time"
    assert len(new_texts([f"{n} bottles of {n} beers" for n in range(500)], [])) == comparison.MOST_TEXTS
    assert sorted(new_texts(["今日は良い天気", "明日は雨でしょう"], [])) == ["今日はでしょう", "明日は雨良い天気"]
    assert new_texts(["A cat that sleeps.", "A dog that sleeps."], []) == [], "put together they are the trained ones"
    assert new_texts(["one"], []) == [] and new_texts([], ["A.", "B."]) == ["A.", "B."]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Project:
    project = make_project(tmp_path_factory.mktemp("compared"), num_eval=8)
    fine_tune(tiny_run(project, num_epochs=1))
    return project


@pytest.fixture
def project(made, tmp_path, monkeypatch) -> Project:
    """A trained project whose base is said to speak, with fewer texts than a comparison takes."""
    monkeypatch.setattr(comparison, "LEAST_TEXTS", 8)
    monkeypatch.setattr(Base, "can_speak", True)
    shutil.copytree(made.folder, tmp_path / made.name)
    return Project(name=made.name, output=tmp_path)


def config_of(project: Project, **settings) -> ExportConfig:
    return ExportConfig(project=project.name, output=project.output, tune_decoder=False, **settings)


def command(body: str, *arguments: str) -> list[str]:
    """A program of the test's own that compares."""
    return [sys.executable, "-S", "-c", HEAD + body, *arguments]


def compared(project: Project, body: str, *arguments: str, **settings) -> dict:
    run, how = next(project.runs.iterdir()), command(body, *arguments)
    return compare_with_base(run, project.ready, project, config_of(project, **settings), lambda *_: None, command=how)


def test_a_worse_model_is_exported_with_a_warning_and_a_good_one_without(project, monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="utils")
    found = compared(project, COMPARED, "[1.0, 0.875]")
    assert found["is_worse"] is False and found["recognizer"] is None
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    assert "the right words in 8 of 8 texts (base 8), no defect in 7 of 8 texts (base 8)" in caplog.text
    worse = partial(compare_with_base, command=command(COMPARED, "[0.375, 0.25]"))
    monkeypatch.setattr(export, "compare_with_base", worse)
    about = json.loads((export_model(config_of(project)) / "about.json").read_text(encoding="utf-8"))
    found = about[COMPARISON]
    assert found["is_worse"] is True and found["model"] == {"words": 0.375, "flawless": 0.25}
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith("this model speaks clearly worse than its base: the right words in 3 of 8 texts")


@pytest.mark.parametrize(
    ("body", "reason", "level"),
    [
        ('tell("failed", reason="no memory")', "no memory", "WARNING"),
        ('tell("skipped", reason="the time is too short")', "the time is too short", "INFO"),
        ('print("Traceback: oh no", file=sys.stderr); sys.exit(3)', "status 3", "WARNING"),
        ("time.sleep(60)", "longer than 1 s", "WARNING"),
    ],
    ids=["fails", "skips", "dies", "hangs"],
)
def test_what_was_not_compared_is_said(project, monkeypatch, caplog, body, reason, level):
    caplog.set_level(logging.INFO, logger="utils")
    monkeypatch.setattr(comparison, "LONGEST_S", 0.6 if "sleep" in body else 30.0)
    found = compared(project, body)
    assert found["texts"] == 0 and reason in found["reason"]
    assert any(record.levelname == level and reason in record.getMessage() for record in caplog.records)


def test_reasons_not_to_compare(project, monkeypatch):
    asked = 'tell("failed", reason="it was asked")'
    assert compared(project, asked, compare=False)["reason"] == "it was switched off"
    monkeypatch.setattr(comparison, "LEAST_TEXTS", 21)
    assert "texts are too few, it takes 21" in compared(project, asked)["reason"]
    project.train_csv.unlink()
    assert "the dataset cannot be read" in compared(project, asked)["reason"]
    monkeypatch.setattr(Base, "can_speak", False)
    assert compared(project, asked)["reason"] == "the base does not speak"
