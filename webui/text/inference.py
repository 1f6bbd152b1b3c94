"""Texts of tab 3, Inference."""

from webui.text.catalog import _, engine_text, ngettext

MODEL = _("Model")
VOICE = _("Voice")
VOICES = [
    (_("the model's default"), "own"),
    (_("upload or record"), "recording"),
    (_("a clip of the dataset"), "clip"),
    (_("a speaker of the model"), "speaker"),
    (_("my voices"), "library"),
]
RECORDING = _("Reference audio")
VOICE_CLIP = _("Clip of the dataset")
CLIP_HELP = _("Clips of the dataset, longest first.")
SPEAKER = _("Speaker of the model")
SPEAKER_HELP = _("Listed after the model is loaded for the first time. You can also enter a name.")
LIBRARY_VOICE = _("Voice of the library")
NO_LIBRARY_VOICE = _("no voice of the library is selected")
NO_LIBRARY_VOICE_FIX = _("select one, or make one first")
LIBRARY_TITLE = _("My voices")
VOICE_NAME, VOICE_NAME_HELP = _("Name of the voice"), _("Letters, digits, '_' and '-'.")
NO_VOICE_NAME, NO_VOICE_NAME_FIX = _("the voice has no name"), _("enter one")
VOICE_CLIPS = _("Clips of one speaker")
VOICE_CLIPS_HELP = _("Of the dataset; without any, the audio given under “upload or record”.")
MAKE_VOICE = _("Make a voice")
NOTHING_FOR_VOICE = _("there is no recording to make a voice of")
NOTHING_FOR_VOICE_FIX = _("select clips of the dataset, or upload or record reference audio")
RENAME_VOICE, DELETE_VOICE = _("Rename to this name"), _("Delete this voice")
SPEAK_TEXT = _("Text")
SPEAK_TEXT_EXAMPLE = _("Enter the text to speak.")
TEXT_FILE = _("Text file (UTF-8); replaces the text above")
BY_LINES = _("One recording per line")
SPEAK_LANGUAGE = _("Language of the text")
SPEAK_OPTIONS = _("Text file, language, speed, sampling")
DOWNLOAD_TAKE = _("Download")
EDIT_TAKE = _("Rename, download or delete a take")
RANDOM_SEED = _("Random seed")
SPEAK = _("Speak")
STOP_SPEAKING = _("Stop")
NOTHING_SPOKEN = _("No recording yet. Select a model, enter a text, then select Speak.")
NO_MODEL_YET = _("no model is selected")
NO_MODEL_YET_FIX = _("select one in the list; the base models are always available")
NO_VOICE_CLIP = _("no clip is selected")
NO_VOICE_CLIP_FIX = _("select one, or use another voice")
NO_RECORDING = _("the reference audio is missing")
NO_RECORDING_FIX = _("upload or record one, or use another voice")
BAD_TEXT_FILE = _("the text file is not encoded in UTF-8")
BAD_TEXT_FILE_FIX = _("save it as UTF-8, then select it again")
NOW_PLAYING = _("Live playback")
PAUSE = _("Pause")
PLAY_ON = _("Play")
WHOLE_TAKE = _("Result")
TAKES = _("Takes")
TAKES_HELP = _("All takes are saved with their settings in output/<project>/takes.")
NO_TAKES = _("No takes yet. Your recordings are listed here with their settings.")
TAKE = _("Take")
CONTINUE_TAKE = _("Resume")
REUSE_TAKE = _("Use these settings")
ZIP = _("Zip file")
PACK_READY = _("Create a zip of the exported model")
PRONUNCIATIONS = _("Pronunciations")
PRONUNCIATIONS_HELP = _("One word a line, what is said instead, and the language (empty: any): word,say,language.")
PRONUNCIATIONS_SAVE = _("Save pronunciations")
PRONUNCIATIONS_SAVED = _("The pronunciations are saved.")
COMPARE_TITLE = _("Compare models")
COMPARE_HELP = _(
    "Speaks the text above with the selected voice and two or more models, and plays the results side by side or as a "
    "blind test. With “the model's default”, all models use the reference audio of the first one."
)
COMPARE_MODELS = _("Models to compare")
COMPARE = _("Generate comparison")
COMPARE_LINE = _("Line")
COMPARISON = _("Comparison")
SIDE_BY_SIDE = _("Side by side")
BLIND = _("Blind test")
SIDE_A, SIDE_B = "A", "B"
A_BETTER = _("A is better")
B_BETTER = _("B is better")
NO_DIFFERENCE = _("no difference")
NO_COMPARISON = _("No comparison yet.")
ALL_RATED = _("You have rated every pair of this comparison.")
NOTHING_TO_RATE = _("there is no pair to rate")
NOTHING_TO_RATE_FIX = _("compare two or more models first")
NO_VOTES = _("No votes yet.")
VOTES = _("Votes")
SERVER_TITLE = _("Use it elsewhere: download, speech API")
SERVER_HELP = _(
    "Other programs can speak with your models through a server with the routes of OpenAI and of SillyTavern's XTTS "
    "extension. It stops with this app."
)
SERVER_PORT = _("Port")
SERVER_START = _("Start server")
SERVER_STOP = _("Stop server")
SERVER_CURL = _("Try it in a terminal")
SERVER_STATES = {
    "off": _("The server is not running."),
    "starting": _("The server is starting ..."),
    "on": _("The server is running at"),
    "ended": _("The server ended unexpectedly."),
}
SERVER_KEY = _("API key")
NO_SERVER = _("the speech server is not running")
TRAINING_NOW = _("a training run is in progress")
TRAINING_NOW_FIX = _("wait until it is finished, or stop it")
TAKE_FORMAT, TAKE_FILE = _("Format"), _("Create one file")
TAKE_NAME, DELETE_TAKE = _("Name of the recording"), _("Delete")
TAKE_NAME_HELP = _("Enter renames it.")
NO_TAKE_NAME = _("a name is text")
TAKE_DELETED = _("Recording deleted.")
NO_TAKE = _("no take is selected")
NO_TAKE_FIX = _("generate a recording first, or select a take")
TAKE_FAILED_FIX = _("fix what the message names, or select another model or voice, then select “Speak” again")
STILL_SPEAKING = _("Still speaking the text before. Select “Stop” first, or wait until it has ended.")
NOTHING_SPEAKS_FIX = _("enter a text and select “Speak” first")
RELEASED = _("The model in tab 3 was unloaded to free memory. You can resume interrupted takes.")
RELEASE_REASON = _("stopped to free memory for training or evaluation; you can resume it")
LOADING_MODEL = _("loading the model")
TAKE_STATES = {
    "waiting": _("queued"),
    "speaking": _("generating"),
    "finished": _("finished"),
    "stopped": _("stopped"),
    "failed": _("failed"),
    "cut": _("interrupted"),
}
WORKER_STATES = {
    "off": _("No model loaded"),
    "starting": _("Loading the model"),
    "ready": _("Model loaded"),
    "busy": _("Generating"),
}
CUT_SENTENCE = _("truncated: the model did not stop by itself")
FAULTS = {
    "loop": _("repeats itself"),
    "too short": _("shorter than its text"),
    "too long": _("longer than its text"),
    "late stop": _("may run on at its end"),
}


def take_message(message: str) -> str:
    """What a take says of itself on disk, in the language of the page where the page knows the sentence.

    Args:
        message: in English, or as the engine made it.
    """
    return engine_text(message) if message else ""


def model_name(kind: str, source: str, which: str, step: int | None) -> str:
    """A model in the list.

    Args:
        kind: ready, voice, run or base.
        source: the run's or base's name.
        which: best or last, of a run.
        step: optimizer steps of the checkpoint.
    """
    if kind == "ready":
        return _("exported model")
    if kind == "voice":
        return _("LoRA voice")
    if kind == "base":
        return _("base {name}", name=source)
    if step is None:
        return _("run {name}: {checkpoint}", name=source, checkpoint=which)
    return _("run {name}: {checkpoint}, step {step}", name=source, checkpoint=which, step=step)


def model_title(name: str) -> str:
    """A model as takes, comparisons and evaluations name it."""
    kind, space, checkpoint = name.partition(" ")
    return model_name(kind, "", "", None) + space + checkpoint if kind in ("ready", "voice") else name


def take_facts(*, sounds_s: float, first_s: float | None, device: str) -> str:
    """Numbers of a take."""
    facts = [_("{seconds:.1f} s of speech", seconds=sounds_s)]
    facts += [_("first audio after {seconds:.1f} s", seconds=first_s)] if first_s is not None else []
    facts += [_("on {device}", device=device)] if device else []
    return " · ".join(facts)


def lines_done(done: int, failed: int, total: int) -> str:
    """Progress of a take of many lines."""
    words = _("{done} of {total} lines, {failed} failed") if failed else _("{done} of {total} lines")
    return words.format(done=done, total=total, failed=failed)


def waiting_takes(count: int) -> str:
    """How many takes wait."""
    return "" if count == 0 else "; " + ngettext("{count} queued", "{count} queued", count)


def voted(a: str, b: str, choice: str) -> str:
    """Which was which, shown after the vote."""
    preferred = {"a": a, "b": b}.get(choice)
    if preferred is None:
        return _("No difference. A was {a}, B was {b}.", a=a, b=b)
    return _("You preferred {preferred}. A was {a}, B was {b}.", preferred=preferred, a=a, b=b)


def tally(first: str, second: str, wins: tuple[int, int], same: int, chance: float) -> str:
    """Votes on a pair of models."""
    likely = _("p = {chance:.2f} (sign test)", chance=chance) if sum(wins) else _("no preference yet")
    return _(
        "{first}: {wins} · {second}: {others} · no difference: {same} · {likely}",
        first=first,
        wins=wins[0],
        second=second,
        others=wins[1],
        same=same,
        likely=likely,
    )


def take_started(count: int) -> str:
    """After many lines were requested."""
    return ngettext(
        "Generating {count} line. The list of takes shows the progress.",
        "Generating {count} lines. The list of takes shows the progress.",
        count,
    )


NO_LINE = _("there is no line {number}")
USE_UP_TO = _("use 1 to {most}")
VOICE_MADE = _("Voice {name} made.")
VOICE_RENAMED = _("Voice {name} is now {new_name}.")
VOICE_DELETED = _("Voice {name} deleted.")
