"""Tab 4: show the machine and the files, download a base."""

from utils import jobs
from utils.bases.catalog import DOWNLOADED, DownloadConfig, known_bases
from utils.errors import UserError
from utils.hardware.machine import this_machine
from utils.hardware.resources import disk_free
from utils.project.projects import list_projects
from webui import text
from webui.change import TOAST, Change, Updates, Values
from webui.handlers.project import base_choices
from webui.studio import Studio
from webui.views import system as view

NUM_JOBS = 20


def show(studio: Studio, values: Values) -> Updates:
    """Return the machine, the bases, the settings, all jobs and the disk usage."""
    projects = list_projects(studio.output)
    found = [job for project in projects for job in jobs.list(project)]
    found += jobs.list(studio.no_project)
    return {
        "system.machine": view.machine(this_machine()),
        "system.bases": view.bases(known_bases()),
        "system.settings": view.settings(studio.access, studio.output, studio.input_roots, studio.quota_bytes),
        "system.jobs": view.jobs_table(live_first(found)),
        "system.disk": view.disk(projects, disk_free(studio.output)),
        "project.base": Change(choices=base_choices(studio.project_or_none(values))),
    }


def live_first(found: list[jobs.Job]) -> list[jobs.Job]:
    """Running jobs, then the newest of the others: edits of clips make many jobs, which must not hide a training."""
    newest = sorted(found, key=lambda job: (not job.alive, -(job.started or 0.0)))
    return [job for number, job in enumerate(newest) if job.alive or number < NUM_JOBS]


def download(studio: Studio, values: Values) -> Updates:
    """Start a job that downloads a base of XTTS v2. The license must be accepted."""
    version = values["system.version"]
    if version not in DOWNLOADED:
        raise UserError(what=text.NO_BASE.format(name=str(version)), where=text.BASES, fix=text.use_one_of(DOWNLOADED))
    if values["system.accept_license"] is not True:
        raise UserError(what=text.NOT_ACCEPTED, where=text.BASES, fix=text.NOT_ACCEPTED_FIX)
    if any(job.alive and job.kind == "download" for job in jobs.list(studio.no_project)):
        raise UserError(what=text.DOWNLOADING, where=text.BASES, fix=text.DOWNLOADING_FIX)
    config = DownloadConfig(version=version, accept_license=True, output=studio.output)
    jobs.start("download", config)
    return {TOAST: text.DOWNLOAD_STARTED}
