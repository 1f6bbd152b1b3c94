"""Tab 1, sentences read aloud: show one, check its recording, add it to the uploads, show the next."""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from utils.dataset.read_aloud.store import ENOUGH_S, RecordingSession
from utils.text.languages import plain_code
from webui import forms, text
from webui.change import Change, Updates, Values
from webui.handlers import data
from webui.markup import join
from webui.studio import Studio
from webui.views import parts

PROJECT, WORDS, SOUND, SAID = "project.project", "data.read_words", "data.read_sound", "data.read_said"
SENTENCE = "data.read_sentence"
"""What was shown to be read; the words may be changed."""
INPUTS = (PROJECT, "project.language", SENTENCE, WORDS, SOUND, f"{data.FORM}transcriber")
OUTPUTS = (SENTENCE, WORDS, SOUND, SAID, "data.read_keep", "data.read_body", *data.UPLOADS)


def show(studio: Studio, values: Values, *, is_next: bool = False) -> Updates:
    """Show the first sentence that was not read yet, or the next one after the one that is shown."""
    if studio.project_or_none(values) is None:
        return {SAID: parts.empty(text.NO_PROJECT_YET)}
    reading = _reading(studio, values)
    sentence = reading.following(values[SENTENCE] if is_next else "")
    return {SENTENCE: sentence, WORDS: Change(value=sentence, interactive=True), SOUND: None} | _said(
        reading, "hint", text.READ_START
    )


def load(studio: Studio, values: Values) -> Updates:
    """Start the process that checks recordings, which takes seconds."""
    list(studio.checker.ask({"do": "load"}, device="cpu"))
    return {}


def check(studio: Studio, values: Values, *, is_kept: bool = False) -> Updates:
    """Check the recording of a sentence, and add it to the uploads where nothing is wrong with it."""
    reading = _reading(studio, values)
    words = forms.required(values[WORDS], what=text.READ_NO_WORDS, where=text.READ_ALOUD, fix=text.READ_OWN)
    asked = {"do": "check", "recording": str(values[SOUND]), "text": words, "language": reading.language}
    with TemporaryDirectory() as folder:
        asked |= {"folder": folder, "transcriber": values[f"{data.FORM}transcriber"] or ""}
        (found,) = studio.checker.ask(asked, device="cpu")
        problems, wav = found["problems"], next(Path(folder).glob("*.wav"), None)
        if is_saved := wav is not None and (is_kept or not problems):
            sentence, room = values[SENTENCE] or "", studio.quota_bytes
            reading.keep(words, wav, quota_bytes=room, sentence=sentence, is_clean=not problems)
    recognized = [text.READ_HEARD.format(words=found["recognized"])] if found["recognized"] else []
    if is_saved:
        shown = _said(reading, "good", text.READ_SAVED.format(seconds=found["seconds"]), *recognized)
        # What is changed from now on would not be in the transcript.
        shown[WORDS] = Change(value=words, interactive=False)
    else:
        shown = _said(reading, "warning", *(text.READ_ADVICE[name] for name in problems), *recognized)
        shown["data.read_keep"] = Change(visible=wav is not None)
    return data.uploads_shown(reading.project) | shown


keep, go_on = partial(check, is_kept=True), partial(show, is_next=True)


def _reading(studio: Studio, values: Values) -> RecordingSession:
    return RecordingSession(studio.project(values), plain_code(str(values["project.language"] or "")))


def _said(reading: RecordingSession, kind: str, *words: str) -> Updates:
    """How far the reading is, and what to do; it ends where enough was read without faults."""
    seconds = min(reading.clean_s, ENOUGH_S)
    is_over, caption = seconds == ENOUGH_S, f"{parts.duration(seconds)} / {parts.duration(ENOUGH_S)}"
    message = parts.message("good", text.READ_DONE) if is_over else parts.message(kind, "\n".join(words))
    return {
        SAID: join(parts.progress_bar(seconds / ENOUGH_S, text.READ_SO_FAR, caption), message),
        "data.read_keep": Change(visible=False),
        "data.read_body": Change(visible=not is_over),
    }
