"""Texts of tab 4, System."""

from webui.text.catalog import _, ngettext

MACHINE = _("This machine")
VERSIONS = _("Versions")
DISK = _("Disk usage by project")
DISK_COLUMNS = (
    _("Project"),
    _("Dataset"),
    _("Runs"),
    _("Exported model"),
    _("Uploads"),
    _("Takes"),
    _("Everything else"),
    _("Total"),
)
JOBS = _("Jobs: running, then most recent")
JOB_COLUMNS = (_("Project"), _("Job"), _("State"), _("Started"), _("Device"))
BASES = _("Base models")
BASE_COLUMNS = (_("Base"), _("Location"), _("License"))
MADE_WHEN_USED = _("created on first use")
PROJECTS_FOLDER, BASES_FOLDER, INPUT_ROOTS = _("Projects"), _("Base models"), _("Allowed input folders")
REFRESH = _("Refresh")
LICENSE_WORDS = _(
    "The XTTS v2 weights belong to Coqui and are licensed under the Coqui Public Model License "
    "(https://coqui.ai/cpml), which permits only non-commercial use of the model and its output. It does not apply to "
    "the starter and tiny bases."
)
DOWNLOAD_BASE = _("Base to download")
ACCEPT_LICENSE = _("I accept the Coqui Public Model License (non-commercial use)")
DOWNLOAD = _("Download (2 GB)")
DOWNLOAD_STARTED = _("Download started. An interrupted download resumes where it stopped.")
NOT_ACCEPTED = _("the license of the weights was not accepted")
NOT_ACCEPTED_FIX = _("read it at https://coqui.ai/cpml, then select the checkbox")
DOWNLOADING = _("a base is already being downloaded")
DOWNLOADING_FIX = _("wait until it is finished")
PROCESSOR, GPU, SYSTEM, COMPILER, NONE = _("Processor"), _("GPU"), _("System"), _("C++ compiler"), _("none")
CUDA_OF_PYTORCH = _("CUDA version of PyTorch")
NOT_DOWNLOADED = _("not downloaded")
NO_JOBS = _("No jobs yet.")
NO_PROJECTS = _("No projects yet.")
SETTINGS_PANEL = _("App settings")
SETTINGS_COLUMNS = (_("Setting"), _("Value"), _("Flag of app.py"))
LISTENS, LOGIN, SHARE = _("Address"), _("Login"), _("Public address (gradio.live)")
HOSTS = _("Other trusted host names")
UPLOAD_LIMIT, QUOTA = _("Maximum upload size"), _("Maximum size of a project's uploads")
NO_LOGIN = _("off: everyone who can reach the page can use it")
SHARED, NOT_SHARED = _("on"), _("off")


def listens(host: str, port: int, *, here_only: bool) -> str:
    """Where the page can be reached."""
    address = _("{host}, port {port}", host=host, port=port)
    return _("{address}, this computer only", address=address) if here_only else address


def login(num_names: int) -> str:
    """Who must log in."""
    return ngettext("on: {count} name", "on: {count} names", num_names)


CPUS = _("{model}, {count} usable CPUs")
MEMORY_FREE = _("{total}, {free} free")
DISK_FREE = _("{free} free on this disk")
DRIVER = _("driver {version}")
