"""A run whose files were edited or damaged is still listed and shown, and never hides the others."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from utils import jobs
from utils.cli.runs import list_all, show
from utils.config import TrainConfig
from utils.errors import UserError
from utils.project.paths import Project
from utils.runs.checkpoints import Checkpoints, load_checkpoint, verify
from utils.runs.layout import MODEL_FILE, strays_of
from utils.runs.list import list_runs
from utils.runs.process import host_name
from utils.runs.progress import observe, progress_of
from utils.runs.record import JOB_FILE, read_record

RECORD = {
    "kind": "train",
    "state": "running",
    "host": host_name(),
    "command": ["python"],
    "cwd": "/",
    "config": "config.yaml",
    "started": 1.0,
    "events_offset": 0,
    "pid": 2**30,
    "create_time": 1.0,
    "boot_time": 1.0,
}
EVENTS: list[dict[str, Any]] = [
    {"kind": "started", "total_steps": 20, "config": {"num_epochs": 2}},
    {"kind": "optimizations", "step": 1, "switches": {"sdpa": {"state": "on", "asked": True}}},
    *({"kind": "step", "step": step, "epoch": 0, "loss": 2.0, "step_s": 1.0, "data_s": 0.0} for step in range(1, 11)),
    {"kind": "eval", "step": 10, "loss": 1.5, "is_best": True},
    {"kind": "warning", "message": "x", "source": "memory", "micro_batch": 1},
    {"kind": "ranks", "ranks": [{"rank": 0, "data_share": 0.1}]},
    {"kind": "speech_scores", "scores": [{"step": 10, "score": 2.5}]},
    {"kind": "progress", "what": "reading", "done": 1, "total": 2},
]
ODD: tuple[Any, ...] = (None, True, -1, 1e300, 10**400, float("nan"), "x", [], [1], {}, {"a": 1})


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Two runs: the older one, `whole`, stays as it is."""
    project = Project(name="voice", output=tmp_path)
    for name in ("20260101-120000-1", "20260102-120000-1"):
        folder = project.runs / name
        folder.mkdir(parents=True)
        # Only what was set: reading all settings again and again would take most of the time here.
        (folder / "config.yaml").write_text(f"project: voice\noutput: {tmp_path}\nrun_id: {name}\n")
        (folder / JOB_FILE).write_text(json.dumps(RECORD))
        write_events(folder, EVENTS)
        Checkpoints(folder).write_last(10, {MODEL_FILE: {"w": torch.zeros(2)}}, {})
    return project


def write_events(folder: Path, events: list[dict[str, Any]]) -> None:
    lines = [json.dumps({"time": 1e9 + number, **event}) + "\n" for number, event in enumerate(events)]
    (folder / "events.jsonl").write_text("".join(lines))


def shown(project: Project, capsys: pytest.CaptureFixture[str]) -> str:
    """What list and show print of the damaged run; the whole one is listed in any case."""
    list_all("voice", project.output)
    listed = capsys.readouterr().out
    assert "20260101-120000-1" in listed and "20260102-120000-1" in listed
    show("20260102-120000-1", "voice", project.output)
    job = jobs.status(project.runs / "20260102-120000-1")
    progress_of(job), observe(job)
    return capsys.readouterr().out


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_a_record_with_another_value_is_a_run_whose_process_is_not_known(project, value):
    folder = project.runs / "20260102-120000-1"
    for name in RECORD:
        (folder / JOB_FILE).write_text(json.dumps({**RECORD, name: value}))
        record = read_record(folder)
        assert record is None or json.loads(json.dumps(record.plain()))[name] == value
        assert jobs.status(folder).state in ("lost", "running", "stopped")
        assert [job.name for job in jobs.list(project)].count("20260101-120000-1") == 1
        assert len(list_runs(project)) == 2


def test_a_record_with_pid_minus_one_names_no_process(project, capsys):
    folder = project.runs / "20260102-120000-1"
    (folder / JOB_FILE).write_text(json.dumps({**RECORD, "pid": -1}))
    assert not jobs.status(folder).process_alive
    assert "which process does this is not known" in shown(project, capsys)
    with pytest.raises(UserError, match="which process does this job is not known"):
        jobs.stop(folder)


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_events_with_values_of_other_types_are_shown_without_them(project, capsys, value):
    for changed in {event["kind"]: event for event in EVENTS}.values():
        # The last event of a kind is what is shown; one field at a time, and all at once.
        names = [name for name in ("time", *changed) if name != "kind"]
        for change in [*([name] for name in names), names]:
            events = [event | dict.fromkeys(change, value) if event is changed else event for event in EVENTS]
            write_events(project.runs / "20260102-120000-1", events)
            assert "20260102-120000-1" in shown(project, capsys)


def pipe(folder: Path) -> None:
    (folder / "events.jsonl").unlink()
    os.mkfifo(folder / "events.jsonl")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "the log is a named pipe": pipe,
    "job.json nested a thousand deep": lambda run: (run / JOB_FILE).write_text("[" * 100_000 + "]" * 100_000),
    "config.yaml of other types": lambda run: (run / "config.yaml").write_text("num_epochs: [1]\nproject: {a: 1}\n"),
    "marks without files": lambda run: (run / "checkpoints/step-00000010/complete.json").write_text("{}"),
    "marks of other types": lambda run: (run / "checkpoints/step-00000010/complete.json").write_text('{"a": 1}'),
    "marks nested deep": lambda run: (run / "checkpoints/step-00000010/complete.json").write_text("[" * 100_000),
    "a file for a folder": lambda run: (run / "checkpoints/step-00000011").write_text("x"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_run_is_listed_and_shown_at_once(project, capsys, damage):
    damage(project.runs / "20260102-120000-1")
    begun = time.monotonic()
    assert "20260102-120000-1" in shown(project, capsys)
    assert time.monotonic() - begun < 20


def test_settings_that_cannot_be_read_are_named_and_the_rest_is_shown(project, capsys):
    (project.runs / "20260102-120000-1" / "config.yaml").write_text("[" * 1_000 + "]" * 1_000)
    said = shown(project, capsys)
    assert "the settings cannot be read" in said and "step-00000010" in said
    with pytest.raises(UserError, match="cannot be read"):
        TrainConfig.load(project.runs / "20260102-120000-1" / "config.yaml")


@pytest.mark.parametrize("marks", ["{}", '{"state.json": {"size": 12}}'])
def test_marks_without_the_weights_are_no_checkpoint(project, marks):
    folder = project.runs / "20260102-120000-1" / "checkpoints" / "step-00000010"
    (folder / "complete.json").write_text(marks)
    for read in (load_checkpoint, verify):
        with pytest.raises(UserError, match=r"not a complete checkpoint|damaged"):
            read(folder)


def test_strays_among_checkpoints_are_named_and_stay(project, capsys, caplog):
    run = project.runs / "20260102-120000-1"
    ours = [
        "best-00000010",
        "left-step-00000012",
        "left-step-00000012-2",
        ".writing-step-00000011",
        ".removing-best-00000009",
    ]
    for name in [*ours, "backup of step-00000010", "step-final"]:
        (run / "checkpoints" / name).mkdir()
    (run / "checkpoints" / "notes.txt").write_text("keep")
    strays = ["backup of step-00000010", "notes.txt", "step-final"]
    assert [path.name for path in strays_of(run)] == strays
    Checkpoints(run).tidy()
    said = shown(project, capsys)
    for name in strays:
        assert f"{name} among the checkpoints is none" in said and name in caplog.text
        assert (run / "checkpoints" / name).exists()
