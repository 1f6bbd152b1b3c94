"""The state of jobs for pages that poll: a finished job is read once, until its files change."""

from pathlib import Path

from utils.jobs.job import Job, job_folders, newest_first, status_or_none
from utils.jobs.record import EVENTS_FILE, JOB_FILE
from utils.project.paths import Project

MAX_KEPT = 10_000
"""Ended jobs that are remembered; with more, all are read anew."""

Print = tuple[tuple[int, int], ...]
"""Size and time of the files that say how a job is doing."""


class JobWatch:
    """The same answers as `jobs.list` and `jobs.running`."""

    def __init__(self) -> None:
        self._ended: dict[Path, tuple[Print, Job]] = {}

    def jobs_of(self, project: Project, *, kind: str | None = None) -> list[Job]:
        """The jobs of a project, the newest first; see `jobs.list`."""
        found = (self._status(folder) for folder in job_folders(project))
        return newest_first(job for job in found if job is not None and kind in (None, job.kind))

    def running(self, output: Path) -> list[Job]:
        """The jobs that have not ended, of all projects below `output`; see `jobs.running`."""
        folders = sorted(output.iterdir()) if output.is_dir() else []
        projects = [Project(name=folder.name, output=output) for folder in folders if folder.is_dir()]
        return [job for project in projects for job in self.jobs_of(project) if job.alive]

    def _status(self, folder: Path) -> Job | None:
        now = _print(folder)
        known = self._ended.get(folder)
        if known is not None and known[0] == now:
            return known[1]
        job = status_or_none(folder)
        # A lost job may be one of another computer that has only been silent for a while.
        if job is not None and not job.alive and not job.process_alive and job.state != "lost":
            if len(self._ended) >= MAX_KEPT:
                self._ended.clear()
            self._ended[folder] = now, job
        return job


def _print(folder: Path) -> Print:
    found = []
    for name in (JOB_FILE, EVENTS_FILE):
        try:
            file = (folder / name).stat()
        except OSError:
            found.append((-1, 0))
        else:
            found.append((file.st_size, file.st_mtime_ns))
    return tuple(found)
