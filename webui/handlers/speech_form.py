"""Tab 3: what its form asks for, checked."""

import secrets
from pathlib import Path

from utils.errors import UserError
from utils.options import SpeechSettings
from utils.project.paths import Project
from utils.project.projects import project_language
from utils.speech.take_queue import MAX_CHARACTERS, checked_texts
from utils.speech.voice_library import VoiceLibrary
from webui import forms, text
from webui.change import Values

FORM = "inference.set_"
"""Ids of components that hold a setting begin so."""


def read_text(values: Values) -> list[str]:
    """The lines to speak: of the file if there is one, else of the text field.

    Raises:
        UserError: no text, too much of it, or a file that is no text.
    """
    words, given = values["inference.text"] or "", values["inference.text_file"]
    if given:
        try:
            with Path(str(given)).open("rb") as file:
                # Four bytes a character at most; one more shows that there is too much.
                words = file.read(4 * MAX_CHARACTERS + 1).decode("utf-8-sig")
        except (OSError, ValueError) as error:
            raise UserError(what=text.BAD_TEXT_FILE, where=text.TEXT_FILE, fix=text.BAD_TEXT_FILE_FIX) from error
    words = str(words)
    return checked_texts(words.splitlines() if values["inference.by_lines"] else [words])


def read_settings(project: Project, values: Values) -> SpeechSettings:
    """The form's settings; the project's language where the form names none.

    Raises:
        UserError: naming every value that is not usable.
    """
    form = forms.by_field(values, FORM)
    is_new = values["inference.random_seed"] or values[f"{FORM}seed"] in (None, "")
    fixed = {"seed": secrets.randbelow(2**31)} if is_new else {}
    form["language"] = form.get("language") or project_language(project)
    return forms.settings(SpeechSettings, form, where=text.INFERENCE_TAB, **fixed)


def chosen_model(values: Values) -> str:
    """Id of the chosen model.

    Raises:
        UserError: none is.
    """
    model = values["inference.model"]
    return forms.required(model, what=text.NO_MODEL_YET, where=text.MODEL, fix=text.NO_MODEL_YET_FIX)


def chosen_voice(project: Project, values: Values) -> tuple[Path | None, str, str]:
    """Recording, what it is called, and name of a model's voice; nothing for the model's own.

    Raises:
        UserError: the chosen kind of voice was not given.
    """
    kind = values["inference.voice"]
    if kind == "recording":
        given = values["inference.recording"]
        path = Path(forms.required(given, what=text.NO_RECORDING, where=text.VOICE, fix=text.NO_RECORDING_FIX))
        return path, path.name, ""
    if kind == "clip":
        path = dataset_clip(project, values["inference.clip"])
        return path, path.name, ""
    if kind == "library":
        found = VoiceLibrary(project.output).get(chosen_name(values.get("inference.library_voice")))
        return found.path, found.name, ""
    return None, "", str(values["inference.speaker"] or "") if kind == "speaker" else ""


def chosen_name(value: object) -> str:
    """Name of a chosen voice of the library.

    Raises:
        UserError: none is.
    """
    return forms.required(value, what=text.NO_LIBRARY_VOICE, where=text.LIBRARY_VOICE, fix=text.NO_LIBRARY_VOICE_FIX)


def dataset_clip(project: Project, value: object) -> Path:
    """A recording of the dataset.

    Raises:
        UserError: none is chosen, or one that lies elsewhere.
    """
    wavs = (project.dataset / "wavs").resolve()
    path = (project.dataset / str(value or "")).resolve() if isinstance(value, str) and "\0" not in value else wavs
    if not path.is_relative_to(wavs) or not path.is_file():
        raise UserError(what=text.NO_VOICE_CLIP, where=text.VOICE_CLIP, fix=text.NO_VOICE_CLIP_FIX)
    return path
