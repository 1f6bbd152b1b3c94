"""Texts of the whole page: title, tabs, project bar, jobs."""

from collections.abc import Iterable

from webui.text.catalog import _

TITLE = "XTTS Fine-tuning Studio"
INTRO = _("Turn recordings into a voice: prepare a dataset, train, listen.")
YES, NO, ON, OFF = _("yes"), _("no"), _("on"), _("off")
FOLDER = _("Folder")
DATA_TAB = _("1 Data processing")
TRAIN_TAB = _("2 Fine-tuning")
INFERENCE_TAB = _("3 Inference")
SYSTEM_TAB = _("4 System")

PROJECT = _("Project")
NEW_PROJECT = _("New project")
NEW_PROJECT_EXAMPLE = "maria"
CREATE_PROJECT = _("Create")
MANAGE_PROJECT = _("New or manage")
NEW_PROJECT_HELP = _("Also the new name, or of a copy; to delete, enter the project's own name.")
OFFLINE = _(
    "The app does not answer. What you see is the last state; the page continues by itself when it answers again."
)
LISTEN = _("Listen")
STEPS_TITLE = _("Steps to a voice")
STEPS = {"data": _("Data"), "train": _("Training"), "export": _("Export"), "listen": _("Listening")}
STEP_STATES = {"done": _("done"), "now": _("next"), "later": _("later")}
STEP_NEEDS = {
    "data": _("Next: upload recordings and create the dataset in tab 1."),
    "train": _("Next: start the training in tab 2."),
    "export": _("Next: export the best checkpoint with Step 2.5 in tab 2."),
    "listen": _("Next: let the voice speak in tab 3."),
}
RENAME, DUPLICATE, DELETE_PROJECT = _("Rename"), _("Duplicate"), _("Delete project")
RUNS, EXPORTED_MODEL = _("runs"), _("exported model")
NOT_CONFIRMED = _("the project was not deleted")
NO_PROJECT = _("no project is selected")
NOT_READ = _("Part of the page cannot be updated because a file has unexpected content. See the log of the app.")
NO_PROJECT_FIX = _("create one at the top of the page, or select one")
NO_NAME = _("the new project has no name")
NO_NAME_FIX = _("enter a name such as maria, then create it")
LANGUAGE = _("Language")
BASE = _("Base model")
BASE_NAMES = {
    "tiny": _("tiny (for testing; speaks noise)"),
    "starter": _("starter (for practice, included)"),
    "v2.0.2": "XTTS v2.0.2",
    "v2.0.3": "XTTS v2.0.3",
    "main": _("XTTS v2, latest revision"),
}
NOT_HERE = _("not downloaded: see System")
LANGUAGES = [
    (_("English (en)"), "en"),
    (_("Amharic (amh)"), "amh"),
    (_("Arabic (ar)"), "ar"),
    (_("Chinese (zh)"), "zh"),
    (_("Czech (cs)"), "cs"),
    (_("Dutch (nl)"), "nl"),
    (_("French (fr)"), "fr"),
    (_("German (de)"), "de"),
    (_("Hindi (hi)"), "hi"),
    (_("Hungarian (hu)"), "hu"),
    (_("Italian (it)"), "it"),
    (_("Japanese (ja)"), "ja"),
    (_("Korean (ko)"), "ko"),
    (_("Polish (pl)"), "pl"),
    (_("Portuguese (pt)"), "pt"),
    (_("Russian (ru)"), "ru"),
    (_("Spanish (es)"), "es"),
    (_("Turkish (tr)"), "tr"),
]

FIRST_STEPS = _(
    "Enter a name under New project and create it. Then: 1 upload recordings, 2 train, 3 listen to the result."
)
TRY_SAMPLE = _("Try with the sample voice")
SAMPLE_HELP = _("One click, about four minutes: dataset, training, export and two recordings to compare.")
SAMPLE_STARTED = _("The sample voice is being made: dataset, training, export, speech.")
SAMPLE_DONE = _("The sample voice is ready")
REAL_VOICE = _("the recorded voice")
SPOKEN_BEFORE, SPOKEN_AFTER = _("before: the base"), _("after: the trained voice")
SAMPLE_NEXT = _("Tab 2 shows its training, tab 3 speaks with it. For your own voice, create a project above.")
PROJECT_GONE = _("This project no longer exists. Select or create another one at the top of the page.")
NO_PROJECT_YET = _("Create a project at the top of the page first.")
STATES = {
    "starting": _("starting"),
    "running": _("running"),
    "stopping": _("stopping"),
    "finished": _("finished"),
    "stopped": _("stopped"),
    "failed": _("failed"),
    "lost": _("lost"),
}
KINDS = {
    "train": _("training"),
    "prepare": _("dataset"),
    "export": _("export"),
    "preflight": _("preflight"),
    "fix": _("clip update"),
    "language": _("language"),
    "evaluate": _("evaluation"),
    "synthesize": _("speech generation"),
    "download": _("download"),
    "demo": _("sample voice"),
}
PROJECT_CREATED = _("Project {name} created. Next: upload recordings in tab 1.")
PROJECT_RENAMED = _("The project is called {name} now.")
PROJECT_DUPLICATED = _("Project {name} has a copy of the uploads and the dataset.")
PROJECT_DELETED = _("Project {name} was deleted: {freed} are free.")
CONFIRM_WITH = _("enter the name {name} to delete the project with all that it holds")


def export_takes(duration: str) -> str:
    """How long the next export takes, as far as the last one shows."""
    if not duration:
        return _("It takes some minutes and can be stopped.")
    return _("The last export took {duration}; it can be stopped.", duration=duration)


FREES = _("Deleting the project frees {size}. Recordings made in tab 3 are part of it.")


def base_name(name: str) -> str:
    """A base for people; one that was made for a project is named by its folder."""
    return BASE_NAMES.get(name, name.replace("\\", "/").rsplit("/", 1)[-1])


def run_title(kind: str, name: str) -> str:
    """A job by its kind; a run also by its name, as there are many of them."""
    return f"{KINDS.get(kind, kind)} {name}" if kind == "train" else KINDS.get(kind, kind)


def job_line(kind: str, project: str) -> str:
    """A job that runs now; some belong to no project."""
    title = KINDS.get(kind, kind)
    return _("{job} ({project})", job=title, project=project) if project else title


def count_of(done: int, total: int | None) -> str:
    """How much of something is done."""
    return _("{done:,} of {total:,}", done=done, total=total) if total else f"{done:,}"


TIME_LEFT, TIME_PASSED = _("{duration} left"), _("{duration} elapsed")
WORK = {
    "training": _("Training"),
    "training steps": _("Training steps"),
    "training the DVAE": _("Training the DVAE"),
    "reading clips": _("Reading clips"),
    "preparing clips": _("Preparing clips"),
    "measuring clips": _("Measuring clips"),
    "encoding clips": _("Encoding clips"),
    "listening to clips": _("Listening to clips"),
    "fitting the decoder": _("Fitting the decoder"),
    "writing the model": _("Writing the model"),
    "comparing with the base": _("Comparing with the base"),
    "speaking": _("Speaking"),
}
"""What jobs report, in the words of the page."""


def phase(what: str) -> str:
    """What a job does now."""
    return WORK.get(what, what[:1].upper() + what[1:])


def sentences(*said: str) -> str:
    """Several messages, a line each; empty ones are skipped."""
    return "\n".join(filter(None, said))


NO_BASE = _("there is no base {name!r}")


def use_one_of(names: Iterable[str]) -> str:
    """What is offered."""
    return _("use one of {names}", names=", ".join(names))
