"""The state of a project as plain values, for scripts that use the page's API."""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from utils import jobs
from utils.dataset.edits.edit import FileState, state_of
from utils.jobs import Job
from utils.project.paths import Project
from utils.project.projects import project_language
from utils.runs.progress import progress_of
from webui.studio import Studio


def status(studio: Studio, name: str) -> dict[str, Any]:
    """Return what a project contains and the progress of its jobs, the newest first.

    Raises:
        UserError: there is no such project.
    """
    project = studio.project({"project.project": name})
    return {
        "project": project.name,
        "language": project_language(project),
        "dataset": _dataset(project),
        "jobs": [_job(studio, job) for job in jobs.list(project, read=studio.read_job)],
        "ready": str(project.ready) if (project.ready / "model.pth").is_file() else None,
    }


def _dataset(project: Project) -> dict[str, Any] | None:
    """The totals of the dataset's report; None when there is none that can be read."""
    try:
        totals = _totals(project.report, state_of(project.report))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return totals if isinstance(totals, dict) else None


@lru_cache(maxsize=64)
def _totals(report: Path, state: FileState) -> Any:
    """What a report says of the whole dataset; scripts ask for it every few seconds."""
    del state
    return json.loads(report.read_text(encoding="utf-8"))["totals"]


def _job(studio: Studio, job: Job) -> dict[str, Any]:
    known = studio.shown.get(job.folder)
    # The watch gives the very same job until its files change.
    if known is not None and known[0] is job:
        return known[1]
    values = _values(studio, job)
    if not job.alive:
        studio.shown[job.folder] = job, values
    return values


def _values(studio: Studio, job: Job) -> dict[str, Any]:
    done = progress_of(job, studio.log_of(job.events))
    values: dict[str, Any] = {
        "kind": job.kind,
        "name": job.name,
        "state": job.state,
        "message": job.message,
        "what": done.what if done else None,
        "done": done.done if done else None,
        "total": done.total if done else None,
        "seconds_left": done.seconds_left if done else None,
    }
    if job.kind == "train":
        values["optimizations"] = studio.since_start(job, "optimizations").get("switches")
        values["memory"] = studio.since_start(job, "memory") or None
    return values
