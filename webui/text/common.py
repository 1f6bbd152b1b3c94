"""Words of the whole page: title, tabs, project bar, jobs."""

from collections.abc import Iterable

TITLE = "XTTS Fine-tuning Studio"
INTRO = "Your recordings in, your voice out: prepare a dataset, train, listen."
YES, NO, ON, OFF = "yes", "no", "on", "off"
FOLDER = "Folder"
DATA_TAB = "1 Data processing"
TRAIN_TAB = "2 Fine-tuning"
INFERENCE_TAB = "3 Inference"
SYSTEM_TAB = "4 System"

PROJECT = "Project"
PROJECT_HELP = "One project is one voice."
NEW_PROJECT = "New project"
NEW_PROJECT_HELP = "Letters, digits, - and _."
NEW_PROJECT_EXAMPLE = "maria"
CREATE_PROJECT = "Create"
NO_PROJECT = "no project is chosen"
NOT_READ = "A file holds something that was not expected, and a part of the page stands still: see the log of the app."
NO_PROJECT_FIX = "create one at the top of the page, or choose one"
NO_NAME = "the new project has no name"
NO_NAME_FIX = "type a name such as maria, then create it"
LANGUAGE = "Language"
LANGUAGE_HELP = "Of the recordings."
LANGUAGE_FIXED = "The dataset's own."
BASE = "Base model"
BASE_HELP = "What training starts from."
BASE_NAMES = {
    "tiny": "tiny (for trying; speaks noise)",
    "starter": "starter (small, ships with the app)",
    "v2.0.2": "XTTS v2.0.2",
    "v2.0.3": "XTTS v2.0.3",
    "main": "XTTS v2, newest revision",
}
NOT_HERE = "to be downloaded: see System"
LANGUAGES = [
    ("English (en)", "en"),
    ("Amharic (amh)", "amh"),
    ("Arabic (ar)", "ar"),
    ("Chinese (zh)", "zh"),
    ("Czech (cs)", "cs"),
    ("Dutch (nl)", "nl"),
    ("French (fr)", "fr"),
    ("German (de)", "de"),
    ("Hindi (hi)", "hi"),
    ("Hungarian (hu)", "hu"),
    ("Italian (it)", "it"),
    ("Japanese (ja)", "ja"),
    ("Korean (ko)", "ko"),
    ("Polish (pl)", "pl"),
    ("Portuguese (pt)", "pt"),
    ("Russian (ru)", "ru"),
    ("Spanish (es)", "es"),
    ("Turkish (tr)", "tr"),
]

FIRST_STEPS = "Start here: type a name under New project and create it. Then: 1 add recordings, 2 train, 3 listen."
NOTHING_RUNNING = "Nothing is running."
PROJECT_GONE = "This project is not there any more. Choose or create another at the top of the page."
NO_PROJECT_YET = "Create a project at the top of the page first."
STATES = {
    "starting": "starting",
    "running": "running",
    "stopping": "stopping",
    "finished": "finished",
    "stopped": "stopped",
    "failed": "failed",
    "lost": "lost",
}
KINDS = {
    "train": "training",
    "prepare": "dataset",
    "export": "export",
    "preflight": "preflight",
    "fix": "clip",
    "language": "language",
    "evaluate": "measuring",
    "synthesize": "speaking",
    "download": "download",
}


def project_created(name: str) -> str:
    """After a project was made."""
    return f"Project {name} is ready. Next: add recordings in tab 1."


def base_name(name: str) -> str:
    """A base for people; one that was made for a project is named by its folder."""
    return BASE_NAMES.get(name, name.replace("\\", "/").rsplit("/", 1)[-1])


def base_choice(name: str, *, is_here: bool) -> str:
    """A base in the list of bases."""
    return base_name(name) if is_here else f"{base_name(name)} ({NOT_HERE})"


def run_title(kind: str, name: str) -> str:
    """A job by its kind; a run also by its name, as there are many of them."""
    return f"{KINDS.get(kind, kind)} {name}" if kind == "train" else KINDS.get(kind, kind)


def job_line(kind: str, project: str) -> str:
    """A job that runs now; some belong to no project."""
    return f"{KINDS.get(kind, kind)} of {project}" if project else KINDS.get(kind, kind)


def count_of(done: int, total: int | None) -> str:
    """How much of something is done."""
    return f"{done:,} of {total:,}" if total else f"{done:,}"


def time_left(duration: str) -> str:
    """How long it will still take."""
    return f"{duration} left"


def phase(what: str) -> str:
    """What a job does now."""
    return what[:1].upper() + what[1:]


def sentences(*said: str) -> str:
    """What is told at once, a line each; nothing is said of what is empty."""
    return "\n".join(filter(None, said))


def no_base(name: object) -> str:
    """A base that is not offered."""
    return f"there is no base {str(name)!r}"


def use_one_of(names: Iterable[str]) -> str:
    """What is offered."""
    return f"use one of {', '.join(names)}"
