"""The page's poll: what it costs does not grow with the log of the run that is shown."""

import dataclasses
import json
import os
import time
from pathlib import Path
from unittest import mock

import pytest

from tests.webui.small_project import add_checkpoint
from utils.jobs import Job
from utils.project.paths import NO_PROJECT
from utils.project.projects import ProjectSettings, create_project
from utils.runs import follow
from utils.runs.process import ProcessId, host_name
from utils.runs.record import JobRecord, write_record
from webui import text
from webui.change import Change
from webui.handlers import live, status
from webui.studio import Studio
from webui.views.project import activity

VALUES = {"project.project": "maria", "project.base": "tiny", "train.run": ""}
POLLS = 20


def studio_with_run(output: Path, num_steps: int) -> tuple[Studio, Path]:
    """An app with a run that began with what polls look for, and then only made steps."""
    run = create_project("maria", output, ProjectSettings(language="en", base="tiny")).runs / "20260101-000000-1-000"
    run.mkdir(parents=True)
    first = [{"time": 1.0, "kind": "started", "total_steps": num_steps}]
    first += [{"time": 1.0, "kind": "progress", "what": "encoding clips", "done": 1, "total": 1}]
    first += [{"time": 1.0, "kind": "optimizations", "switches": {"sdpa": {"state": "on", "observed": "efficient"}}}]
    with (run / "events.jsonl").open("w", encoding="utf-8") as log:
        log.writelines(json.dumps(event) + "\n" for event in first)
        log.writelines(step(number) for number in range(1, num_steps + 1))
    return Studio(output=output), run / "events.jsonl"


def step(number: int) -> str:
    values = f'"step": {number}, "epoch": 0, "loss": 2.5, "step_s": 1.0, "audio_s": 9.0'
    return f'{{"time": {number}.5, "kind": "step", {values}}}\n'


def cost_of_polls(studio: Studio, log: Path, num_steps: int) -> float:
    """Processor seconds of some polls, a step being written between each two."""
    spent = 0.0
    for number in range(num_steps + 1, num_steps + POLLS + 1):
        with log.open("a", encoding="utf-8") as file:
            file.write(step(number))
        begun = time.process_time()
        updates = live.poll(studio, VALUES)
        spent += time.process_time() - begun
        assert f"step {number:,} of" in updates["train.progress"]
        assert text.ON in updates["train.badge_sdpa"] and "efficient" in updates["train.proofs"]
    return spent


@pytest.mark.parametrize(("num_steps", "most"), [(20_000, 2), pytest.param(1_000_000, 4, marks=pytest.mark.slow)])
def test_a_poll_costs_about_the_same_however_long_the_log(tmp_path, num_steps, most):
    costs = []
    # A shorter run has fewer points than are drawn.
    for name, length in (("short", 5_000), ("long", num_steps)):
        studio, log = studio_with_run(tmp_path / name, length)
        with mock.patch.object(follow, "parse_event", wraps=follow.parse_event) as parsed:
            live.poll(studio, VALUES)
        assert parsed.call_count == length + 3, "the first poll reads each line once"
        costs.append(cost_of_polls(studio, log, length))
    assert costs[1] < most * costs[0]


FLASH = {"sdpa": {"asked": True, "state": "on", "observed": "flash kernel in 30 blocks"}}
OFF = {"sdpa": {"asked": False, "state": "off", "reason": "it was not asked for"}}


def event(kind: str, **fields: object) -> str:
    return json.dumps({"time": 1.0, "kind": kind, **fields}) + "\n"


def start_of_process(precision: str, device: str, source: str) -> str:
    config = {"learning_rate": 5e-6, "num_epochs": 3}
    sources = {"learning_rate": source, "num_epochs": source}
    return event("started", config=config, sources=sources, precision=precision, device=device, total_steps=20)


def test_a_resumed_run_shows_what_its_present_process_observed(tmp_path):
    """A badge, a device or a number of the process before the resume would be a lie."""
    run = create_project("maria", tmp_path, ProjectSettings(language="en", base="tiny")).runs / "20260101-000000-1-000"
    run.mkdir(parents=True)
    log = run / "events.jsonl"
    log.write_text(
        start_of_process("bf16", "cuda:0", "base tiny")
        + event("optimizations", switches=FLASH)
        + event("memory", allocated_bytes=8 * 10**9)
        + event("stopped"),
        encoding="utf-8",
    )
    offset = log.stat().st_size
    record = JobRecord(
        kind="train",
        state="running",
        host=host_name(),
        command=(),
        cwd="",
        config="",
        started=time.time(),
        events_offset=offset,
        **dataclasses.asdict(ProcessId.of(os.getpid())),
    )
    write_record(run, record)
    studio = Studio(output=tmp_path)

    def shown() -> tuple[str, str, str, dict]:
        updates = live.poll(studio, VALUES)
        facts = status.status(studio, "maria")["jobs"][0]
        return updates["train.badge_sdpa"], updates["train.speed_plot"], updates["train.gpu"], facts

    def append(*lines: str) -> None:
        with log.open("a", encoding="utf-8") as file:
            file.writelines(lines)

    badge, details, memory, facts = shown()
    assert text.NOT_KNOWN in badge, "between the press and the first event nothing is known"
    assert "bf16" not in details and "<b>8.0 GB</b>" not in memory
    assert facts["optimizations"] is None and facts["memory"] is None
    append(start_of_process("fp32", "cpu", "you"))
    badge, details, memory, facts = shown()
    assert text.NOT_KNOWN in badge and "<b>8.0 GB</b>" not in memory
    assert "fp32" in details and "cpu" in details and "cuda" not in details
    assert "base tiny" in details, "who chose the settings is what the first start said"
    append(event("optimizations", switches=OFF), event("memory", rss_bytes=3 * 10**9))
    badge, _, memory, facts = shown()
    assert text.NOT_REQUESTED in badge and text.ON not in badge
    assert facts["optimizations"] == OFF and facts["memory"]["rss_bytes"] == 3 * 10**9


def test_a_second_tab_learns_of_projects_base_and_language_that_another_chose(tmp_path):
    project = create_project("maria", tmp_path, ProjectSettings(language="en", base="tiny"))
    studio = Studio(output=tmp_path)
    before = live.poll(studio, VALUES)
    assert before["project.base"]["value"] == "tiny"
    ProjectSettings(language="de", base="starter").save(project)
    create_project("anna", tmp_path, ProjectSettings())
    after = live.poll(studio, VALUES)
    assert after["project.base"]["value"] == "starter"
    assert after["project.language"]["value"] == "de"
    assert after["project.project"] == {"choices": [("anna", "anna"), ("maria", "maria")]}
    choices = [one for value in after.values() if isinstance(value, Change) for one in value.get("choices", ())]
    assert len(choices) > 5 and {len(pair) for pair in choices} == {2}, "the browser takes nothing else"
    assert live.poll(studio, VALUES | {"project.project": ""})["project.project"] == after["project.project"]


def test_a_run_of_another_project_is_no_longer_chosen(tmp_path):
    studio, _ = studio_with_run(tmp_path, 3)
    shown = live.poll(studio, VALUES | {"train.run": "20250101-000000-1-000"})
    assert shown["train.run"]["value"] == ""
    mine = live.poll(studio, VALUES | {"train.run": "20260101-000000-1-000"})
    assert "value" not in mine["train.run"]


def test_what_can_be_exported_shows_how_well_it_speaks(tmp_path):
    studio, log = studio_with_run(tmp_path, 3)
    for name in ("best-00000002", "step-00000003"):
        add_checkpoint(log.parent, name)

    def offered() -> list[tuple[str, str]]:
        return live.poll(studio, VALUES)["train.checkpoint"]["choices"]

    assert offered() == [(text.BEST, "best"), (text.LAST, "last")]
    with log.open("a", encoding="utf-8") as file:
        file.write(event("speech_scores", scores=[{"step": 2, "score": 2.5}, {"step": 3, "score": 2.25}], best=2))
    assert offered() == [("best (speech score 2.50 of 3)", "best"), ("last (speech score 2.25 of 3)", "last")]


def test_values_of_a_wrong_type_in_a_log_do_not_freeze_the_page(tmp_path):
    studio, log = studio_with_run(tmp_path, 3)
    with log.open("a", encoding="utf-8") as file:
        file.write(
            event("sample", step=None, path="a.wav", text="hi") + event("eval", step=3, loss="low", is_best=True)
        )
        file.write(
            event("memory", rss_bytes="much", reserved_bytes=[1]) + event("step", step=4, epoch="first", loss={})
        )
        file.write(event("speech_scores", scores=[1, {"step": "x", "score": None}]) + event("speech_scores", scores=3))
        file.write(event("progress", what="encoding", done="some", total="all") + event("started", total_steps="many"))
        file.write(step(5))
    updates = live.poll(studio, VALUES)
    assert not studio.faults
    assert "step 5" in updates["train.progress"] and text.NOT_READ not in updates["project.activity"]
    assert status.status(studio, "maria")["jobs"][0]["done"] == 5


def test_a_part_that_cannot_be_told_leaves_the_others(tmp_path, monkeypatch, caplog):
    """Whatever a file may hold: the rest of the page continues, and the log has the traceback once."""
    studio, _ = studio_with_run(tmp_path, 3)
    monkeypatch.setattr(live, "made_base", lambda project: 1 / 0)
    for _ in range(3):
        updates = live.poll(studio, VALUES)
        assert "step 3" in updates["train.progress"] and text.NOT_READ in updates["project.activity"]
    assert caplog.text.count("Traceback") == 1


def test_nothing_of_another_project_stays_where_a_run_cannot_be_told_or_its_project_is_gone(tmp_path, monkeypatch):
    studio, _ = studio_with_run(tmp_path, 3)
    shown = live.poll(studio, VALUES)
    run_parts = {key for key in shown if key.startswith("train.badge_")} | {
        *("train.proofs", "train.progress", "train.loss_plot", "train.speed_plot", "train.samples", "train.log"),
        *("train.stop", "train.resume", "train.export"),
    }
    gone = live.poll(studio, VALUES | {"project.project": "missing"})
    monkeypatch.setattr(live, "_started", lambda *args: 1 / 0)
    not_told = live.poll(studio, VALUES)
    for updates, words in ((gone, text.PROJECT_GONE), (not_told, text.NOT_READ)):
        assert run_parts <= updates.keys() and words in updates["train.progress"]
        assert updates["train.log"] == ""
    assert not gone["train.stop"]["visible"]
    assert gone["data.cancel"] == {"visible": False} and gone["data.revision"] == "none"


def test_a_download_belongs_to_no_project(tmp_path):
    job = Job(
        folder=tmp_path / NO_PROJECT / "jobs" / "download-1",
        kind="download",
        state="running",
        message="",
        host="",
        device=None,
        pid=None,
        process_alive=True,
        started=None,
        ended=None,
    )
    shown = activity(create_project("maria", tmp_path, ProjectSettings()), [], [job], None)
    assert "download" in shown and NO_PROJECT not in shown


def test_the_state_of_jobs_that_have_ended_is_read_once(tmp_path, monkeypatch):
    studio, log = studio_with_run(tmp_path, 3)
    with log.open("a", encoding="utf-8") as file:
        file.write(event("finished"))
    first = status.status(studio, "maria")
    with monkeypatch.context() as patch:
        patch.setattr(status, "progress_of", lambda *_: pytest.fail("it was read again"))
        assert status.status(studio, "maria") == first
    with log.open("a", encoding="utf-8") as file:
        file.write(step(4))
    assert status.status(studio, "maria")["jobs"][0]["done"] == 4, "it continued, and the very next answer says so"


def test_the_totals_of_a_dataset_are_read_once(tmp_path):
    project = create_project("maria", tmp_path, ProjectSettings())
    project.report.parent.mkdir(parents=True)
    project.report.write_text('{"totals": {"used": 3}}', encoding="utf-8")
    studio = Studio(output=tmp_path)
    first = status.status(studio, "maria")["dataset"]
    assert first == {"used": 3} and status.status(studio, "maria")["dataset"] is first
    project.report.write_text('{"totals": {"used": 12}}', encoding="utf-8")
    assert status.status(studio, "maria")["dataset"] == {"used": 12}


def test_stop_stands_where_train_was_and_what_is_disabled_says_why(tmp_path):
    create_project("maria", tmp_path, ProjectSettings(language="en", base="tiny"))
    studio = Studio(output=tmp_path)
    updates = live.poll(studio, VALUES)
    assert updates["train.start"]["visible"] and not updates["train.stop"]["visible"]
    assert text.NO_RESUME_WITHOUT_RUN in updates["train.resume_why"]
    assert text.NO_EXPORT_WITHOUT_RUN in updates["train.export_why"]

    run = tmp_path / "maria" / "runs" / "20260101-000000-1-000"
    run.mkdir(parents=True)
    who = dataclasses.asdict(ProcessId.of(os.getpid()))
    record = JobRecord(
        kind="train", state="running", host=host_name(), command=(), cwd="", config="", started=time.time(), **who
    )
    write_record(run, record)
    updates = live.poll(studio, VALUES)
    assert not updates["train.resume"]["interactive"]
    assert not updates["train.export"]["interactive"]

    (run / "events.jsonl").write_text(event("finished", step=4), encoding="utf-8")
    write_record(run, dataclasses.replace(record, pid=2**22 + 1))
    updates = live.poll(Studio(output=tmp_path), VALUES)
    assert updates["train.start"]["visible"] and text.NO_RESUME_CHECKPOINT in updates["train.resume_why"]
    for name in ("step-00000004", "best-00000004"):
        add_checkpoint(run, name)
    updates = live.poll(studio, VALUES)
    assert updates["train.resume"]["interactive"] and updates["train.export"]["interactive"]
    assert updates["train.resume_why"] == updates["train.export_why"] == ""
