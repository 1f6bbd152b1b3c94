"""Words of tab 4, System."""

MACHINE = "This machine"
VERSIONS = "Versions"
DISK = "Disk, by project"
DISK_COLUMNS = ("Project", "Dataset", "Runs", "Exported model", "Uploads", "Takes", "Everything else", "Total")
JOBS = "Jobs: what is going on, then the newest"
JOB_COLUMNS = ("Project", "Job", "State", "Started", "Device")
BASES = "Base models"
BASE_COLUMNS = ("Base", "Where", "Licence")
MADE_WHEN_USED = "made when first used"
PLACES = "Where files are"
PLACES_COLUMNS = ("What", "Folder")
PROJECTS_FOLDER, BASES_FOLDER, INPUT_ROOTS = "Projects", "Base models", "Recordings may be read from"
REFRESH = "Read again"
LICENSE_WORDS = (
    "The XTTS v2 weights are Coqui's, under the Coqui Public Model License (https://coqui.ai/cpml): non-commercial use "
    "of the model and of what it speaks. The starter and tiny bases are free of it."
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
CUDA_OF_PYTORCH = "CUDA of PyTorch"
NOT_DOWNLOADED = "not downloaded yet"
NO_JOBS = "Nothing was done yet."
NO_PROJECTS = "No project yet."


SETTINGS_PANEL = "Settings of this app"
SETTINGS_COLUMNS = ("Setting", "Value", "Flag of app.py")
LISTENS, LOGIN, SHARE, HOSTS = "Listens on", "Login", "Public address (gradio.live)", "Also reached as"
UPLOAD_LIMIT, QUOTA = "Largest upload", "Uploads of one project"
NO_LOGIN = "off: whoever reaches the page may use it"
SHARED, NOT_SHARED = "on", "off"


def listens(host: str, port: int, *, here_only: bool) -> str:
    """Where the page can be reached."""
    return f"{host}, port {port}" + (", this computer only" if here_only else "")


def login(num_names: int) -> str:
    """Who must log in."""
    return f"on: {num_names} names" if num_names > 1 else "on: 1 name"


def processor(model: str, usable: int) -> str:
    """The processor."""
    return f"{model}, {usable} CPUs usable"


def memory_free(total: str, free: str) -> str:
    """The machine's memory."""
    return f"{total}, {free} free"


def disk_free(free: str) -> str:
    """Room on the disk."""
    return f"{free} free on this disk"


def driver(version: object) -> str:
    """The GPU's driver."""
    return f"driver {version}"
