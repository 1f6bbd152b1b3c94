"""Words of tab 4, System."""

MACHINE = "This machine"
VERSIONS = "Versions"
DISK = "Disk, by project"
DISK_COLUMNS = ("Project", "Dataset", "Runs", "Exported model", "Uploads")
JOBS = "Jobs, newest first"
JOB_COLUMNS = ("Project", "Job", "State", "Started", "Device")
BASES = "Base models"
BASE_COLUMNS = ("Base", "Where", "Licence")
MADE_WHEN_USED = "made when first used"
PLACES = "Where files are"
PLACES_COLUMNS = ("What", "Folder")
PROJECTS_FOLDER, BASES_FOLDER, INPUT_ROOTS = "Projects", "Base models", "Recordings may be read from"
REFRESH = "Read again"
LICENSE_TITLE = "Licence of XTTS v2"
LICENSE_WORDS = (
    "The XTTS v2 weights are Coqui's, under the Coqui Public Model License (https://coqui.ai/cpml): non-commercial use "
    "of the model and of what it speaks. The tiny base is free of it."
)
DOWNLOAD_BASE = "Base to download"
ACCEPT_LICENSE = "I accept the Coqui Public Model License (non-commercial use)"
DOWNLOAD = "Download (2 GB)"
DOWNLOAD_STARTED = "The download has started; a download that is cut goes on where it stopped."
NOT_ACCEPTED = "the licence of the weights was not accepted"
NOT_ACCEPTED_FIX = "read it at https://coqui.ai/cpml, then tick the box"
DOWNLOADING = "a base is being downloaded already"
DOWNLOADING_FIX = "wait until it is done"
PROCESSOR, GPU, SYSTEM, COMPILER, NONE = "Processor", "GPU", "System", "C++ compiler", "none"
NOT_DOWNLOADED = "not downloaded yet"
NO_JOBS = "Nothing was done yet."
NO_PROJECTS = "No project yet."


def processor(model: str, usable: int) -> str:
    """The processor."""
    return f"{model}, {usable} CPUs usable"


def memory_free(total: str, free: str) -> str:
    """The machine's memory."""
    return f"{total}, {free} free"


def disk_free(free: str) -> str:
    """Room on the disk."""
    return f"{free} free on this disk"
