"""Do a saved job, as the page and `utils.jobs` start it: python -m utils.cli.job --folder output/NAME/runs/ID.

The folder holds job.json, which names the command, and that command's settings. What the command does, and how it
ended, is written to events.jsonl there; everything it says goes to this process's output.
"""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro

from utils import jobs
from utils.bases.catalog import DownloadConfig
from utils.callbacks import ProgressFn
from utils.cli.common import run_function
from utils.cli.demo import try_voice
from utils.cli.evaluate import evaluate_and_print
from utils.cli.fix import fix_clip
from utils.cli.language import look
from utils.cli.synthesize import synthesize
from utils.config import DemoConfig, ExportConfig, SynthesizeConfig, TrainConfig
from utils.dataset.edits.edit import FixConfig
from utils.dataset.settings import PrepareConfig
from utils.errors import UserError
from utils.evaluation.settings import EvaluateConfig
from utils.project.paths import bases_folder
from utils.runs.log import FINAL, EventWriter, tail
from utils.runs.record import EVENTS_FILE
from utils.settings import Config
from utils.text.language_settings import LanguageConfig

STOPPED = 143
"""Exit status after a SIGTERM that was not announced in job.json, as shells have it: 128 + SIGTERM."""
PROGRESS_EVERY_S = 0.5


def run_job(folder: Annotated[Path, tyro.conf.arg(metavar="DIR")]) -> None:
    """Do the saved job in a folder.

    Args:
        folder: a run's folder, or another job's.
    """
    record, events = jobs.announce(folder), folder / EVENTS_FILE
    with logged(events, record.events_offset):
        if record.kind not in COMMANDS:
            raise UserError(what=f"there is no job of kind {record.kind!r}", fix=f"use one of {', '.join(COMMANDS)}")
        config_class, work = COMMANDS[record.kind]
        file = folder / record.config
        work(config_class.load(file).validate(where=str(file)), ProgressEvents(events))


@contextmanager
def logged(events: Path, offset: int) -> Iterator[None]:
    """Make the end of the work the last event of its log, unless the work wrote its own end.

    Args:
        events: the job's events.jsonl.
        offset: where this job's events begin, in bytes.
    """

    def leave(number: int, frame: object) -> None:
        # What was begun is tidied up on the way out. Training has a better way of its own.
        sys.exit(0 if jobs.is_stop_wanted(events.parent) else STOPPED)

    signal.signal(signal.SIGTERM, leave)
    if hasattr(signal, "SIGBREAK"):
        signal.signal(signal.SIGBREAK, leave)
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        _log_end(events, offset, "stopped")
        raise
    except UserError as error:
        _log_end(events, offset, "failed", error=str(error))
        raise
    except BaseException as error:
        _log_end(events, offset, "failed", error=f"{type(error).__name__}: {error}")
        raise
    _log_end(events, offset, "finished")


def _log_end(events: Path, offset: int, kind: str, **fields: Any) -> None:
    last = tail(events, 1, start=offset)
    if not last or last[0]["kind"] not in FINAL:
        with closing(EventWriter(events)) as writer:
            writer.write(kind, **fields)


class ProgressEvents:
    """Writes how far the work is, a few times a second at most.

    The log has one writer at a time: this opens it for one event only, and training opens it after these reports.
    """

    def __init__(self, events: Path) -> None:
        self.events = events
        self._what = ""
        self._next = 0.0

    def __call__(self, what: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        if what == self._what and now < self._next and done != total:
            return
        self._what, self._next = what, now + PROGRESS_EVERY_S
        with closing(EventWriter(self.events)) as writer:
            writer.write("progress", what=what, done=done, total=total)


def _prepare(config: PrepareConfig, report: ProgressFn) -> None:
    from utils.bases.download import fetch_base
    from utils.dataset.build import prepare

    fetch_base(config.base, progress=report)
    print(prepare(config, progress=report).table())


def _train(config: TrainConfig, report: ProgressFn) -> None:
    from utils.bases.download import fetch_base
    from utils.training.distributed import launch, num_processes

    fetch_base(config.base, progress=report)
    if (count := num_processes(config)) == 1:
        train_for_job(config, report)
        return
    assert isinstance(report, ProgressEvents)
    if status := launch(config, count, job=report.events.parent):
        raise SystemExit(status)


def train_for_job(config: TrainConfig, report: ProgressFn) -> None:
    """Train in this process, for a job.

    Raises:
        SystemExit: the run was stopped by a signal that was not announced in job.json.
    """
    from utils.callbacks import Progresses
    from utils.jobs.child import exit_status
    from utils.training.train import fine_tune

    result = fine_tune(config, progress=Progresses(data=report))
    print(result.folder)
    if status := exit_status(result.stop_signal, result.folder):
        raise SystemExit(status)


def _export(config: ExportConfig, report: ProgressFn) -> None:
    from utils.inference.export import export_model, export_voice

    print(export_voice(config) if config.adapter else export_model(config, progress=report))


def _one(what: str, work: Callable[[Any], object]) -> Callable[[Any, ProgressFn], None]:
    """Work of a single step."""

    def done(config: Any, report: ProgressFn) -> None:
        report(what, 0, 1)
        work(config)
        report(what, 1, 1)

    return done


def _download(config: DownloadConfig, report: ProgressFn) -> None:
    from utils.bases.download import download_base

    folder = download_base(
        config.version,
        folder=bases_folder() / config.version,
        accept_license=config.accept_license,
        progress=lambda file, done, total: report("downloading (bytes)", done, total),
    )
    print(folder)


def _preflight(config: TrainConfig, report: ProgressFn) -> None:
    from utils.bases.download import fetch_base
    from utils.cli.measure_switches import measure_switches

    fetch_base(config.base, progress=report)
    measure_switches(config, report)


COMMANDS: dict[str, tuple[type[Config], Callable[[Any, ProgressFn], object]]] = {
    "download": (DownloadConfig, _download),
    "preflight": (TrainConfig, _preflight),
    "prepare": (PrepareConfig, _prepare),
    "train": (TrainConfig, _train),
    "export": (ExportConfig, _export),
    "demo": (DemoConfig, try_voice),
    "fix": (FixConfig, _one("updating the clip", fix_clip)),
    "language": (LanguageConfig, _one("reading the texts", look)),
    "evaluate": (EvaluateConfig, evaluate_and_print),
    "synthesize": (SynthesizeConfig, _one("speaking", synthesize)),
}
"""The settings of each kind of job, and what does it."""

main = partial(run_function, run_job)
"""The command; see `utils.cli.common.error_exits` for its exit statuses; 143 after SIGTERM, 0 after `jobs.stop`."""


if __name__ == "__main__":
    main()
