"""Download a missing published base that a command names, once its license is accepted."""

from utils.bases.base import Base
from utils.bases.base_lock import read_lock
from utils.bases.catalog import DOWNLOADED, has_weights
from utils.bases.download import INCOMING, download_base
from utils.bases.find import find_base
from utils.bases.hub import choose_hub
from utils.bases.license import AGREE, LICENSE_LINK, LICENSE_NAME, is_accepted, is_agreed_by_environment
from utils.callbacks import ProgressFn
from utils.errors import UserError
from utils.project.advice import command
from utils.project.paths import bases_folder


def fetch_base(name: str, *, accept_license: bool = False, progress: ProgressFn | None = None) -> None:
    """Have the base of that name on this computer; do nothing for one that is, or that is not downloaded by name.

    Args:
        name: as given for `base`: v2.0.2, starter, a folder, ...
        accept_license: the user agrees to the license of the weights; so do COQUI_TOS_AGREED=1 and an earlier download.
        progress: called with (what is being done, bytes done, bytes in all).

    Raises:
        UserError: nobody agreed to the license; or see `download_base`.
    """
    folder = bases_folder() / name
    if name not in DOWNLOADED:
        return
    # A base that was copied here by hand has no lock; one whose download was cut still has the folder of its parts.
    if read_lock(folder) is not None or (has_weights(folder) and not (folder / INCOMING).is_dir()):
        return
    repository = choose_hub(name).repository
    if not (accept_license or is_agreed_by_environment() or is_accepted(bases_folder(), repository)):
        raise UserError(
            what=f"there is no base {name!r} on this computer, and the license of its weights has not been accepted: "
            f"{LICENSE_NAME}, {LICENSE_LINK}",
            where=str(folder),
            fix=f"read it, then {AGREE}, and it is downloaded first; "
            f"or download it by itself: {command('base', 'download', name)}",
        )

    def received(file: str, done: int, total: int | None) -> None:
        if progress is not None:
            progress(f"downloading {name} (bytes)", done, total)

    download_base(name, folder=folder, accept_license=accept_license, progress=received)


def fetched_base(name: str, *, accept_license: bool = False, progress: ProgressFn | None = None) -> Base:
    """The base of that name or folder, downloaded first where it is missing: see `fetch_base` and `find_base`."""
    fetch_base(name, accept_license=accept_license, progress=progress)
    return find_base(name)
