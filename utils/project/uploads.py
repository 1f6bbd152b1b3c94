"""Limit uploads: a quota for each project, and free space kept on the disk."""

from utils.errors import UserError
from utils.hardware.resources import GIB, KEPT_FREE_BYTES, disk_free, size_of
from utils.project.paths import Project

UPLOADS_FOLDER = "uploads"
DEFAULT_QUOTA_BYTES = 50 * GIB
"""All uploads of one project together."""


def uploaded_bytes(project: Project) -> int:
    """Size of all uploads of a project."""
    return size_of(project.folder / UPLOADS_FOLDER)


def check_room(project: Project, wanted: int, quota_bytes: int) -> None:
    """Do nothing when this many more bytes may be stored in a project.

    Raises:
        UserError: its quota or the disk has no room for them.
    """
    taken = uploaded_bytes(project)
    if taken + wanted > quota_bytes:
        raise UserError(
            what=f"the upload of {wanted / 1e6:.1f} MB does not fit: the project has {taken / 1e6:.1f} MB of uploads "
            f"and may have {quota_bytes / 1e6:.1f} MB",
            where=str(project.folder / UPLOADS_FOLDER),
            fix="remove uploads that were prepared already, or start the app with a larger --project-quota-gb",
        )
    # The output folder comes with the first project.
    free = disk_free(project.output)
    if wanted + KEPT_FREE_BYTES > free:
        raise UserError(
            what=f"the disk has {free / 1e9:.1f} GB free; the upload takes {wanted / 1e9:.1f} GB and 1 GB stays free",
            where=str(project.folder),
            fix="free some space",
        )
