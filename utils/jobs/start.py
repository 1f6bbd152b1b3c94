"""Begin a job in a child process that outlives this one."""

import dataclasses
import itertools
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from pathlib import Path

from utils.errors import UserError, disk_errors
from utils.hardware.environment import child_environment
from utils.jobs.device import CPU, Claim, refuse_second, require_usable, wanted_device
from utils.project.paths import NO_PROJECT, Project, check_name, new_run_id, open_project
from utils.runs.layout import find_resume
from utils.runs.log import EventWriter
from utils.runs.process import spawn
from utils.runs.record import (
    EVENTS_FILE,
    Job,
    identify,
    jobs_folder,
    log_file,
    new_record,
    read_record,
    require_stopped,
    status,
    update_record,
    write_record,
)
from utils.settings import Config

log = logging.getLogger(__name__)

Command = Callable[[Path], Sequence[str]]
"""Gives the program and arguments of the child, from the job's folder."""


def start(
    kind: str, config: Config, *, command: Command | None = None, before: Callable[[], object] | None = None
) -> Job:
    """Begin a job in a child process that continues when this one ends.

    Args:
        kind: the command to run: train, prepare, export, synthesize, ...; see `utils.cli.job`.
        config: its settings. With `resume`, training continues in the folder of that run.
        command: another child than `utils.cli.job`.
        before: called once nothing stands in the way any more, to free what the job needs.

    Returns:
        The job; its folder is the name for everything else.

    Raises:
        UserError: a setting is not usable, another job has the device, the run is still running, the disk is
            full, or no process could be started.
    """
    check_name(kind, kind="job")
    config.validate(where=f"{kind} settings")
    name: str | None = getattr(config, "project", None)
    output: Path = getattr(config, "output", Path("output"))
    # Jobs of no project share a hidden one.
    project = open_project(name, output) if name else Project(name=NO_PROJECT, output=output)
    device = _device(kind, config)
    claim = Claim(device, project.output) if device else None
    with claim.lock() if claim else nullcontext():
        if claim:
            refuse_second(claim)
        folder, settings_file, settings = _make_folder(kind, config, project)
        with disk_errors():
            settings.save(folder / settings_file)
        if before:
            before()
        absolute = folder.absolute()
        words = command(absolute) if command else [sys.executable, "-m", "utils.cli.job", "--folder", str(absolute)]
        facts = {"state": "starting", "command": tuple(words), "config": settings_file, "device": device}
        write_record(folder, new_record(kind, folder, **facts))
        if claim:
            claim.give(folder)
        _begin(folder)
    return status(folder)


def _device(kind: str, config: Config) -> str | None:
    """The device that the job must have for itself: the GPU always, the CPU only to train."""
    requested = getattr(config, "device", None)
    require_usable(requested or CPU)
    if kind == "evaluate" or (kind == "export" and not getattr(config, "tune_decoder", None)):
        return None  # they take a GPU themselves where it is free
    if requested is None and getattr(config, "transcriber", None) is not None:
        # Of a preparation only Whisper computes there, where it is asked for.
        requested = getattr(config, "transcriber_device", None)
    device = wanted_device(requested) if requested is not None else None
    return device if device != CPU or kind == "train" else None


def _make_folder(kind: str, config: Config, project: Project) -> tuple[Path, str, Config]:
    """The job's folder, the file for its settings there, and the settings with the run's name filled in.

    Raises:
        UserError: the run to resume is missing or still running, a new one exists, or its folder cannot be made.
    """
    resumed = getattr(config, "resume", None)
    if resumed is None:
        folder = _new_folder(kind, getattr(config, "run_id", None), project)
        # A queued run has its name; `replace` would lose its retired settings.
        if kind == "train" and getattr(config, "run_id", folder.name) != folder.name:
            config = dataclasses.replace(config, run_id=folder.name)  # type: ignore[type-var]
        return folder, "config.yaml", config
    folder = find_resume(Path(resumed), project).run
    require_stopped(folder)
    # The run's own config.yaml says how it began, and stays.
    return folder, "resume.yaml", config


@disk_errors()
def _new_folder(kind: str, given: str | None, project: Project) -> Path:
    """A folder that no job had before; `given` is the name of a run."""
    if kind == "train":
        parent, name = project.runs, check_name(given, kind="run") if given is not None else new_run_id()
    else:
        parent, name, given = jobs_folder(project), f"{kind}-{new_run_id()}", None
    parent.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        folder = parent / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            if given is None:
                continue
            fix = "choose another run_id, or resume it"
            raise UserError(what=f"there is a run {name!r} already", where=str(folder), fix=fix) from None
        return folder
    raise AssertionError("unreachable")


def _begin(folder: Path) -> None:
    """Start the process of a job's record and write down who it is.

    Raises:
        UserError: no process could be started.
    """
    record = read_record(folder)
    assert record is not None
    try:
        child = spawn(record.command, log=log_file(folder, record.kind), env=child_environment())
    except OSError as error:
        refusal = UserError(what=f"the process could not be started: {error}", where=" ".join(record.command))
        with closing(EventWriter(folder / EVENTS_FILE)) as events:
            events.write("failed", error=str(refusal))
        raise refusal from error
    identify(folder, child.pid)
    threading.Thread(target=_see_the_end, args=(folder, child), name=f"wait {folder.name}", daemon=True).start()


def _see_the_end(folder: Path, child: subprocess.Popen[bytes]) -> None:
    """Wait for the child, so that it does not stay as a zombie, and note its exit status for people."""
    code = child.wait()
    try:
        record = read_record(folder)
        if record is not None and record.pid == child.pid:
            update_record(folder, exit_code=code, state=status(folder).state)
    except (UserError, OSError) as error:
        log.warning("the exit status of %s could not be noted: %s", folder.name, error)
