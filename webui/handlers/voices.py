"""Tab 3, the library of voices: make one from clips or a recording, rename, delete."""

from pathlib import Path

from utils.errors import UserError
from utils.speech.voice_library import VoiceLibrary
from webui import forms, text
from webui.change import TOAST, Change, Updates, Values
from webui.handlers.speech_form import chosen_name, dataset_clip
from webui.studio import Studio

LIST = "inference.library_voice"
OUTPUTS = (LIST, "inference.voice_name")


def make(studio: Studio, values: Values) -> Updates:
    """Make a voice: of the chosen clips of the dataset, else of the uploaded recording."""
    project = studio.project(values)
    clips, given = values["inference.voice_clips"], values["inference.recording"]
    recordings = [dataset_clip(project, clip) for clip in clips] if isinstance(clips, list) else []
    if not recordings and isinstance(given, str) and given:
        recordings = [Path(given)]
    if not recordings:
        raise UserError(what=text.NOTHING_FOR_VOICE, where=text.LIBRARY_TITLE, fix=text.NOTHING_FOR_VOICE_FIX)
    made = VoiceLibrary(studio.output).make(_name(values["inference.voice_name"]), recordings)
    return _after(studio, made.name, text.VOICE_MADE.format(name=made.name))


def rename(studio: Studio, values: Values) -> Updates:
    """Give the chosen voice another name."""
    chosen = chosen_name(values["inference.kept_voice"])
    renamed = VoiceLibrary(studio.output).rename(chosen, _name(values["inference.voice_name"]))
    return _after(studio, renamed.name, text.VOICE_RENAMED.format(name=chosen, new_name=renamed.name))


def delete(studio: Studio, values: Values) -> Updates:
    """Delete the chosen voice. Takes that spoke with it keep their copy."""
    library = VoiceLibrary(studio.output)
    found = library.get(chosen_name(values["inference.kept_voice"]))
    library.remove(found.name)
    return _after(studio, None, text.VOICE_DELETED.format(name=found.name))


def listed(studio: Studio) -> Updates:
    """The list of voices; what is chosen stays."""
    names = [voice.name for voice in VoiceLibrary(studio.output).all()]
    return {LIST: Change(choices=names)}


def _after(studio: Studio, chosen: str | None, said: str) -> Updates:
    names = [voice.name for voice in VoiceLibrary(studio.output).all()]
    return {LIST: Change(choices=names, value=chosen), "inference.voice_name": "", TOAST: said}


def _name(value: object) -> str:
    return forms.required(value, what=text.NO_VOICE_NAME, where=text.VOICE_NAME, fix=text.NO_VOICE_NAME_FIX)
