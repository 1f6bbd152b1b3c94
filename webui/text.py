"""Every word the page shows, in one place, ready for translation."""

TITLE = "XTTS Fine-tuning Studio"
INTRO = "Your recordings in, your voice out: prepare a dataset, train, listen."
COMING = "This tab is being built."

# Project bar
PROJECT = "Project"
PROJECT_HELP = "One project is one voice: its dataset, its training runs and its model."
NEW_PROJECT = "New project"
NEW_PROJECT_HELP = "Letters, digits, - and _, without spaces."
NEW_PROJECT_EXAMPLE = "maria"
CREATE_PROJECT = "Create project"
NO_PROJECT = "no project is chosen"
NO_PROJECT_FIX = "create one at the top of the page, or choose one"
NO_NAME = "the new project has no name"
NO_NAME_FIX = "type a name such as maria, then create it"
LANGUAGE = "Language"
LANGUAGE_HELP = "What is spoken in the recordings."
LANGUAGE_FIXED = "The dataset's own; a dataset has one language."
BASE = "Base model"
BASE_HELP = "What training starts from."
BASE_NAMES = {
    "tiny": "tiny - tries the whole path in minutes; speaks noise",
    "starter": "starter - small, ships with the app",
    "v2.0.2": "XTTS v2.0.2",
    "v2.0.3": "XTTS v2.0.3",
    "main": "XTTS v2, newest revision",
}
NOT_HERE = "to be downloaded: see System"
LANGUAGES = [
    ("English (en)", "en"),
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

# Tabs
DATA_TAB = "1 Data processing"
TRAIN_TAB = "2 Fine-tuning"
INFERENCE_TAB = "3 Inference"
SYSTEM_TAB = "4 System"


def project_created(name: str) -> str:
    """After a project was made."""
    return f"Project {name} is ready. Next: add recordings in tab 1."


def base_choice(name: str, *, is_here: bool) -> str:
    """A base in the list of bases."""
    known = BASE_NAMES.get(name, name)
    return known if is_here else f"{known} ({NOT_HERE})"
