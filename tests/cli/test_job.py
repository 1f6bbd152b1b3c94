"""python -m utils.cli.job: the command a job folder names, with its end as the last event, however it ends."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.configs import tiny_run
from tests.dataset.recordings import make_source
from tests.jobs.children import await_exit_code, eventually
from tests.sounds import make_project
from utils import jobs
from utils.callbacks import ProgressFn
from utils.cli import job as job_command
from utils.cli.job import main
from utils.config import Config, ExportConfig
from utils.dataset.settings import PrepareConfig
from utils.errors import UserError
from utils.runs.follow import EventLog
from utils.runs.log import EventWriter, read_events
from utils.runs.record import JobRecord, read_record, update_record, write_record

Work = Callable[[Any, ProgressFn], None]


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A job as `jobs.start` leaves it to the child."""
    return saved(tmp_path / "job", "export", ExportConfig(project="voice", output=tmp_path))


def saved(folder: Path, kind: str, config: Config) -> Path:
    folder.mkdir()
    config.save(folder / "config.yaml")
    record = JobRecord(
        kind=kind,
        state="starting",
        host=os.uname().nodename,
        command=(),
        cwd="",
        config="config.yaml",
        started=time.time(),
    )
    write_record(folder, record)
    return folder


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, work: Work) -> list[dict[str, Any]]:
    """The events of a job that does this, without their times."""
    monkeypatch.setitem(job_command.COMMANDS, "export", (ExportConfig, work))
    try:
        main(["--folder", str(folder)])
    finally:
        events = [event for event in read_events(folder / "events.jsonl") if event.pop("time")]
    return events


def events_of(folder: Path) -> list[dict[str, Any]]:
    return [event for event in read_events(folder / "events.jsonl") if event.pop("time")]


def test_the_work_gets_its_saved_settings_and_ends_as_finished(folder, monkeypatch):
    seen: list[Config] = []
    assert run(folder, monkeypatch, lambda config, _: seen.append(config)) == [{"kind": "finished"}]
    assert seen == [ExportConfig(project="voice", output=folder.parent)]
    record = read_record(folder)
    assert record is not None and (record.pid, record.state) == (os.getpid(), "running")


def test_progress_is_told_a_few_times_a_second_with_both_ends(folder, monkeypatch):
    def work(_: ExportConfig, report: ProgressFn) -> None:
        for done in range(1, 10_001):
            report("counting", done, 10_000)
        report("packing", 0, None)

    *progress, end = run(folder, monkeypatch, work)
    assert [(event["what"], event["done"], event["total"]) for event in (progress[0], *progress[-2:])] == [
        ("counting", 1, 10_000),
        ("counting", 10_000, 10_000),
        ("packing", 0, None),
    ]
    assert len(progress) < 20 and end == {"kind": "finished"}


def _fail(error: BaseException) -> Work:
    def work(*_: object) -> None:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "raised", "kind", "message"),
    [
        (UserError(what="it broke", fix="repair it"), SystemExit, "failed", "it broke\n  fix:   repair it"),
        (ZeroDivisionError("by zero"), ZeroDivisionError, "failed", "ZeroDivisionError: by zero"),
        (KeyboardInterrupt(), SystemExit, "stopped", None),
    ],
)
def test_a_fault_is_the_last_event(
    folder,
    monkeypatch,
    error,
    raised,
    kind,
    message,
):
    with pytest.raises(raised):
        run(folder, monkeypatch, _fail(error))
    (end,) = events_of(folder)
    assert (end["kind"], end.get("error")) == (kind, message)


@pytest.mark.parametrize(("is_announced", "status"), [(False, 143), (True, 0)])
def test_a_request_to_stop_tidies_up_and_exits_with_143_unless_it_was_announced(
    folder, monkeypatch, is_announced, status
):
    tidied: list[bool] = []

    def work(*_: object) -> None:
        try:
            if is_announced:
                update_record(folder, stop_requested=time.time())
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(30)
        finally:
            tidied.append(True)

    with pytest.raises(SystemExit) as caught:
        run(folder, monkeypatch, work)
    assert caught.value.code == status
    assert tidied and events_of(folder) == [{"kind": "stopped"}]


def test_the_end_that_the_work_wrote_itself_is_not_written_again(folder, monkeypatch):
    def work(*_: object) -> None:
        EventWriter(folder / "events.jsonl").write("failed", error="its own words")
        raise ValueError

    with pytest.raises(ValueError):
        run(folder, monkeypatch, work)
    assert events_of(folder) == [{"kind": "failed", "error": "its own words"}]


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("dance", None, "there is no job of kind 'dance'"),
        ("export", "{project: voice, speed: 3}", "unknown settings: speed"),
        ("train", "{project: voice, batch_size: 0}", "batch_size is 0"),
    ],
)
def test_jobs_that_cannot_be_done_say_why(tmp_path, capsys, kind, settings, message):
    folder = saved(tmp_path / "job", kind, ExportConfig(project="voice", output=tmp_path))
    if settings:
        (folder / "config.yaml").write_text(settings)
    with pytest.raises(SystemExit, match="2"):
        main(["--folder", str(folder)])
    assert message in capsys.readouterr().err
    (event,) = read_events(folder / "events.jsonl")
    assert event["kind"] == "failed" and message in event["error"]


def test_a_folder_that_is_no_job_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--folder", str(tmp_path)])
    assert "error: there is no job here" in capsys.readouterr().err


@pytest.mark.slow
def test_a_real_job_from_start_to_end(tmp_path):
    source = make_source(tmp_path / "in", 3)
    config = PrepareConfig(base="tiny", project="voice", output=tmp_path / "out", input=source, language="en")
    job = jobs.start("prepare", config)
    said = job.log.read_text
    assert jobs.wait(job.folder, 120).state == "finished", said()
    events = list(read_events(job.events))
    assert events[-2]["kind"] == "progress" and (events[-2]["done"], events[-2]["total"]) == (3, 3)
    assert (tmp_path / "out" / "voice" / "dataset" / "report.json").is_file()
    assert "given" in said()


@pytest.mark.slow
def test_a_training_that_was_asked_to_stop_saves_and_exits_with_0(tmp_path):
    project = make_project(tmp_path)
    config = tiny_run(project, device="cpu", num_epochs=10_000)
    job = jobs.start("train", config)
    try:
        eventually(lambda: EventLog(job.events).last("step"), timeout_s=120)
    finally:
        jobs.stop(job.folder)
    assert jobs.wait(job.folder, 120).state == "stopped", job.log.read_text()
    assert [path.name for path in project.runs.iterdir()] == [job.name], "in the folder that the start made"
    assert next(iter(read_events(job.events)))["kind"] == "progress"
    step = EventLog(job.events).last("step")
    assert (job.folder / "checkpoints" / f"step-{step['step']:08d}" / "complete.json").is_file()
    await_exit_code(job.folder)
    assert read_record(job.folder).exit_code == 0  # type: ignore[union-attr]
