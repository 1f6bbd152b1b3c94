"""Tab 4: machine, versions, bases, jobs, disk usage and file locations."""

import importlib.metadata
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from utils.bases.catalog import BaseEntry
from utils.hardware.machine import Machine
from utils.hardware.resources import size_of
from utils.hardware.wheel import torch_build
from utils.jobs import Job
from utils.project.paths import BASES_VARIABLE, Project, bases_folder
from utils.project.uploads import UPLOADS_FOLDER
from utils.speech.takes import TAKES_FOLDER
from webui import text
from webui.markup import Markup, tag
from webui.text.catalog import engine_text
from webui.views.parts import empty, framed, gigabytes, memory_size, message, small, state_badge, table

if TYPE_CHECKING:
    from webui.security import Access

PACKAGES = ("gradio", "torch", "torchaudio", "coqui-tts", "transformers", "accelerate", "numpy", "pandas")


def machine(found: Machine) -> Markup:
    """Processor, memory, GPU, and what keeps PyTorch from using it."""
    rows = [
        (text.PROCESSOR, text.CPUS.format(model=found.cpu.model, count=found.cpu.usable_cpus)),
        (
            text.MEMORY,
            text.MEMORY_FREE.format(
                total=memory_size(found.memory.total_bytes), free=memory_size(found.memory.available_bytes)
            ),
        ),
        (text.GPU, _gpu(found)),
        (text.SYSTEM, platform.platform()),
        (text.COMPILER, found.compiler or text.NONE),
    ]
    problems = [message("warning", problem) for problem in found.gpu_problems]
    title = tag("div", text.VERSIONS, class_="panel-title")
    versions = table((), _versions(), label=text.VERSIONS)
    return framed(text.MACHINE, table((), rows, label=text.MACHINE), *problems, title, versions)


def _gpu(found: Machine) -> str:
    if found.gpu is None:
        return engine_text(found.gpu_reason) if found.gpu_reason else text.NONE
    facts = [
        found.gpu.name,
        found.gpu.architecture,
        memory_size(found.gpu.total_bytes),
        text.DRIVER.format(version=found.gpu.driver),
    ]
    return ", ".join(fact for fact in facts if fact)


def _versions() -> list[tuple[str, str]]:
    rows = [("Python", platform.python_version())]
    for name in PACKAGES:
        try:
            rows.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            rows.append((name, text.NONE))
    cuda = torch_build().cuda
    return [*rows, (text.CUDA_OF_PYTORCH, ".".join(map(str, cuda)) if cuda else text.NONE)]


def bases(found: Sequence[BaseEntry]) -> Markup:
    """Every base: where it lies, and its license."""
    rows = [(text.base_name(entry.name), _where(entry), entry.license) for entry in found]
    return framed(text.BASES, table(text.BASE_COLUMNS, rows, label=text.BASES))


def _where(entry: BaseEntry) -> str:
    if not entry.is_here:
        return text.NOT_DOWNLOADED
    return str(entry.folder) if entry.folder else text.MADE_WHEN_USED


def jobs_table(found: Sequence[Job]) -> Markup:
    """Jobs of all projects."""
    if not found:
        return framed(text.JOBS, empty(text.NO_JOBS))
    rows = [
        (
            job.folder.parent.parent.name,
            text.run_title(job.kind, job.name),
            state_badge(job.state),
            time.strftime("%Y-%m-%d %H:%M", time.localtime(job.started)) if job.started else "",
            job.device,
        )
        for job in found
    ]
    return framed(text.JOBS, table(text.JOB_COLUMNS, rows, label=text.JOBS))


def disk(projects: Sequence[Project], free: int) -> Markup:
    """What each project takes."""
    rows = [(project.name, *map(gigabytes, _sizes(project))) for project in projects]
    shown = table(text.DISK_COLUMNS, rows, label=text.DISK) if rows else empty(text.NO_PROJECTS)
    return framed(text.DISK, shown, small(text.DISK_FREE.format(free=gigabytes(free))))


def _sizes(project: Project) -> list[int]:
    """Bytes of each part, of everything else in the project's folder, and of all of it."""
    parts = (
        project.dataset,
        project.runs,
        project.ready,
        project.folder / UPLOADS_FOLDER,
        project.folder / TAKES_FOLDER,
    )
    sizes, total = [size_of(part) for part in parts], size_of(project.folder)
    # What two parts share on disk counts once in the total.
    return [*sizes, max(0, total - sum(sizes)), total]


def settings(access: "Access | None", output: Path, roots: Sequence[Path], quota_bytes: int) -> Markup:
    """What the app was started with, and the flag that changes it."""
    rows: list[tuple[object, ...]] = []
    if access is not None:
        rows = [
            (text.LISTENS, text.listens(access.host, access.port, here_only=access.here_only), "--host, --port"),
            (text.LOGIN, text.login(len(access.auth)) if access.auth else text.NO_LOGIN, "--auth"),
            (text.SHARE, text.SHARED if access.share else text.NOT_SHARED, "--share"),
            (text.HOSTS, ", ".join(access.trusted_hosts) or text.NONE, "--trusted-host"),
            (text.UPLOAD_LIMIT, gigabytes(access.max_upload_bytes), "--max-upload-gb"),
        ]
    rows += [
        (text.QUOTA, gigabytes(quota_bytes), "--project-quota-gb"),
        (text.PROJECTS_FOLDER, output, "--output"),
        (text.BASES_FOLDER, bases_folder(), f"${BASES_VARIABLE}"),
        (text.INPUT_ROOTS, ", ".join(map(str, roots)) or text.NONE, "--input-root"),
    ]
    return framed(text.SETTINGS_PANEL, table(text.SETTINGS_COLUMNS, rows, label=text.SETTINGS_PANEL))
