"""Create a zip to download: a take's wavs with their texts, or the project's exported model."""

import csv
import io
import zipfile
from collections.abc import Iterable
from pathlib import Path

from utils.errors import UserError, disk_errors
from utils.files import replacing
from utils.project.paths import Project
from utils.runs.layout import VOICE_FILE
from utils.speech.takes import TAKE_FILE, Take

TAKE_ZIP = "take.zip"


@disk_errors()
def pack_take(take: Take) -> Path:
    """The take's complete lines, its settings, and a table of what each file says.

    Raises:
        UserError: no line is complete yet.
    """
    if not take.wavs:
        raise UserError(what="no line of this take is complete yet", where=take.id, fix="wait, or resume the take")
    table = io.StringIO()
    writer = csv.writer(table, delimiter="|", lineterminator="\n")
    writer.writerow(["audio_file", "text", "state", "error"])
    for line in take.lines:
        writer.writerow([line.file, line.text, line.state, line.error])
    return _pack(take.folder / TAKE_ZIP, [*take.wavs, take.folder / TAKE_FILE], extra={"lines.csv": table.getvalue()})


@disk_errors()
def pack_ready(project: Project) -> Path:
    """The exported model, of which a zip that is newer is used again; the file of a LoRA voice where that is all.

    Raises:
        UserError: nothing was exported yet.
    """
    files = sorted(path for path in project.ready.glob("*") if path.is_file())
    if files == [project.ready / VOICE_FILE]:
        return files[0]
    if not (project.ready / "model.pth").is_file():
        raise UserError(
            what=f"project {project.name!r} has no exported model yet",
            where=str(project.ready),
            fix="export one first: Step 2.5 in tab 2",
        )
    target = project.folder / f"{project.name}-ready.zip"
    if target.is_file() and target.stat().st_mtime > max(path.stat().st_mtime for path in files):
        return target
    return _pack(target, files)


def _pack(target: Path, files: Iterable[Path], *, extra: dict[str, str] | None = None) -> Path:
    """Write a zip beside its place and rename it; wavs and weights are stored as they are, they do not shrink."""
    with replacing(target) as aside, zipfile.ZipFile(aside, "w", zipfile.ZIP_STORED) as packed:
        for path in files:
            packed.write(path, path.name)
        for name, content in (extra or {}).items():
            packed.writestr(name, content)
    return target
