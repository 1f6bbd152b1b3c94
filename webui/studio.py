"""The app's state for handlers: where projects are stored, and whom to notify before training starts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from utils import jobs
from utils.errors import UserError
from utils.jobs import Job
from utils.project.paths import NO_PROJECT, Project
from utils.project.projects import find_project
from utils.project.uploads import DEFAULT_QUOTA_BYTES
from utils.runs.follow import EventLog
from utils.runs.list import ReadJob, job_reader
from utils.runs.log import Event
from utils.server.child import ServerChild
from utils.settings import Config
from utils.speech.take_queue import GenerationQueue
from utils.speech.worker_client import SpeechWorker
from webui import text
from webui.change import Values
from webui.monitor import Monitor
from webui.pages import OpenPages
from webui.takes import TakeWatch
from webui.text.catalog import SOURCE

if TYPE_CHECKING:
    from webui.security import Access


MAX_LOGS = 64
"""Logs of jobs that are kept; one that was let go is read again."""


@dataclass(kw_only=True)
class Studio:
    """One app; what it knows of projects and runs is read from disk each time."""

    output: Path
    """The folder that holds all projects."""
    quota_bytes: int = DEFAULT_QUOTA_BYTES
    """All uploads of one project together may take so much, see `utils.project.uploads`."""
    input_roots: tuple[Path, ...] = ()
    """Folders of the server, besides `output`, that recordings may be taken from."""
    access: "Access | None" = None
    """Who may use the page, and how much it takes; None where it is not asked, as in tests."""
    before_training: list[Callable[[], str]] = field(default_factory=list)
    """Called before a training starts, to free what it needs; each says what it did, or nothing."""
    monitor: Monitor = field(default_factory=Monitor)
    log_of: Callable[[Path], EventLog] = field(default_factory=lambda: lru_cache(MAX_LOGS)(EventLog))
    """The log of a job by its path, kept between polls so that each reads only new events."""
    read_job: ReadJob = field(default_factory=job_reader)
    """Reads jobs for what is asked of `utils.jobs` every few seconds."""
    shown: dict[Path, tuple[Job, dict[str, Any]]] = field(default_factory=dict)
    """What `/status` said of jobs that have ended, by folder."""
    faults: set[str] = field(default_factory=set)
    """Errors of polls, each logged once."""
    takes: TakeWatch = field(default_factory=TakeWatch)
    pages: OpenPages = field(default_factory=OpenPages)
    no_project: Project = field(init=False)
    """For jobs that belong to none."""
    generations: GenerationQueue = field(init=False)
    """Has texts spoken, in a process of its own; nothing is loaded before the first."""

    checker: SpeechWorker = field(init=False)
    """Checks sentences that are read aloud, likewise."""

    server: ServerChild = field(init=False)
    """The speech server, where the page started one."""

    def __post_init__(self) -> None:
        self.no_project = Project(name=NO_PROJECT, output=self.output)
        self.generations = GenerationQueue(self.output)
        self.checker = SpeechWorker(self.output, module="utils.dataset.read_aloud.check", log="read-aloud.log")
        self.server = ServerChild(self.output)
        self.before_training.append(self._release_speech)

    def project(self, values: Values) -> Project:
        """The project that the bar names.

        Raises:
            UserError: none was chosen, its name is not usable, or it does not exist.
        """
        name = values.get("project.project")
        if not isinstance(name, str) or not name:
            raise UserError(what=text.NO_PROJECT, where=text.PROJECT, fix=text.NO_PROJECT_FIX)
        return find_project(name, self.output)

    def project_or_none(self, values: Values) -> Project | None:
        """As `project`, for what is asked every few seconds and must not complain."""
        try:
            return self.project(values)
        except UserError:
            return None

    def since_start(self, job: Job, kind: str) -> Event:
        """The last event of a kind that the present or last process of a job wrote; empty while there is none.

        What an earlier process of a resumed run wrote is not true of the present one.
        """
        return self.log_of(job.events).last(kind, start=job.events_offset, after="started")

    def start_alone(self, kind: str, config: Config) -> str:
        """Start a job that needs the machine for itself; what had to give way is freed only when it really starts.

        Returns:
            What was freed, in words for people; empty for nothing.

        Raises:
            UserError: as `utils.jobs.start`.
        """
        freed: list[str] = []
        jobs.start(kind, config, before=lambda: freed.extend(free() for free in self.before_training))
        return "\n".join(filter(None, freed))

    def _release_speech(self) -> str:
        """Training and speaking do not share a GPU, nor the memory of a small computer."""
        # Takes keep the reason on disk, for readers of any language: the page translates it where it shows the take.
        reason = text.TEXTS[SOURCE]["RELEASE_REASON"]
        return text.RELEASED if self.generations.release(reason) else ""
