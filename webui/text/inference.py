"""Words of tab 3, Inference."""

MODEL = "Model"
MODEL_HELP = "Any checkpoint of this project, its exported model, or a base. Checkpoints can be heard while they train."
REFRESH_MODELS = "Read the list again"
VOICE = "Voice"
VOICE_HELP = "Whose voice speaks. Six seconds or more of clean speech of one person."
VOICES = [
    ("the model's own", "own"),
    ("upload or record", "recording"),
    ("a clip of the dataset", "clip"),
    ("a voice that came with the model", "speaker"),
]
RECORDING = "Reference recording"
VOICE_CLIP = "Clip of the dataset"
CLIP_HELP = "Clips of the prepared dataset, the longest first."
SPEAKER = "Voice of the model"
SPEAKER_HELP = "Known once the model was loaded: speak with it once, or type the name."
SPEAK_TEXT = "Text"
SPEAK_TEXT_HELP = "Any length: it is spoken sentence by sentence, and playing starts with the first."
SPEAK_TEXT_EXAMPLE = "Type what is to be said."
TEXT_FILE = "Text file (UTF-8), instead of the text above"
BY_LINES = "Each line is a recording of its own"
BY_LINES_HELP = "For many lines: one wav a line. It goes on when the page is closed; lines that fail are listed."
SPEAK_LANGUAGE = "Language of the text"
SAMPLING = "Sampling, speed, seed"
RESET = "Back to the defaults"
RANDOM_SEED = "A new take each time"
RANDOM_SEED_HELP = "Draws another seed whenever you speak; the take remembers which."
SPEAK = "Speak"
STOP_SPEAKING = "Stop"
NOTHING_SPOKEN = "Nothing spoken yet. Choose a model, type a text, then press Speak."
NO_MODEL_YET = "no model is chosen"
NO_MODEL_YET_FIX = "choose one in the list; a base is always there"
NO_VOICE_CLIP = "no clip is chosen"
NO_VOICE_CLIP_FIX = "choose one, or another voice"
NO_RECORDING = "there is no recording"
NO_RECORDING_FIX = "upload or record one, or choose another voice"
BAD_TEXT_FILE = "the text file is not UTF-8 text"
BAD_TEXT_FILE_FIX = "save it as UTF-8, then choose it again"
NOW_PLAYING = "Sentences as they come"
WHOLE_TAKE = "The whole recording"
TAKES = "Takes"
TAKES_HELP = "Every take is kept in output/<project>/takes with its settings."
NO_TAKES = "No takes yet: what you speak is listed here, with its settings."
TAKE = "Take"
SHOW_TAKE = "Show"
CONTINUE_TAKE = "Continue"
REUSE_TAKE = "Use its settings"
PACK_TAKE = "Pack as zip"
ZIP = "Zip to download"
READY_TITLE = "Take the model with you"
PACK_READY = "Pack the exported model as zip"
COMPARE_TITLE = "Compare models"
COMPARE_HELP = (
    "The text and the voice chosen above, from two or more models: heard side by side, or blind. With "
    "“the model's own” voice, the first model's recording is used for all."
)
COMPARE_MODELS = "Models to compare"
COMPARE = "Speak with each"
COMPARE_LINE = "Line"
COMPARISON = "Comparison"
SIDE_BY_SIDE = "Side by side"
BLIND = "Blind: which is better?"
HEARD_A, HEARD_B = "A", "B"
A_BETTER = "A is better"
B_BETTER = "B is better"
NO_DIFFERENCE = "no difference"
NO_COMPARISON = "No comparison yet."
ALL_JUDGED = "Everything in this comparison is judged."
NOTHING_TO_JUDGE = "there is nothing to judge here"
NOTHING_TO_JUDGE_FIX = "speak with two or more models first"
NO_VOTES = "No votes yet."
VOTES = "Votes so far"
MEASURE_TITLE = "Measure models"
MEASURE_HELP = (
    "Has the models speak sentences that were held out, and compares them with your recordings: words, voice, defects. "
    "It takes some minutes; ears have the last word."
)
MEASURE_MODELS = "Models to measure"
MEASURE_CHOICES = [
    ("the base", "base"),
    ("best checkpoint", "best"),
    ("last checkpoint", "last"),
    ("the exported model", "ready"),
]
MEASURE_SENTENCES = "Sentences"
MEASURE_SENTENCES_HELP = "At most so many, of the clips held out."
MEASURE, MEASURE_STOP = "Measure", "Stop measuring"
MEASURING_STARTED = "The models are being measured."
MEASURING_STOPPED = "Measuring is stopped."
NO_MODELS_TO_MEASURE = "no model is chosen"
NO_MODELS_TO_MEASURE_FIX = "tick one or more"
TRAINING_NOW = "a training is running"
TRAINING_NOW_FIX = "wait until it is done, or stop it"
NOTHING_MEASURED = "Nothing measured yet: tick the models to compare, then press Measure."
UNREADABLE_MEASURES = "The last measurement cannot be read; measure again."
MEASURES = {
    "retrieval": ("Right sentence among all", "{:.0%}", "more"),
    "near_miss": ("Right sentence among near misses", "{:.0%}", "more"),
    "cer": ("Wrong characters, heard by Whisper", "{:.1%}", "less"),
    "mcd_db": ("Distance of the sound (mel-cepstral, dB)", "{:.2f}", "less"),
    "cosine": ("Likeness of the voice (cosine)", "{:.3f}", "more"),
    "pitch": ("Pitch off by (semitones)", "{:.2f}", "less"),
    "pitch_range": ("Range of pitch off by (semitones)", "{:.2f}", "less"),
    "spectrum": ("Colour of the sound off by (dB)", "{:.2f}", "less"),
    "duration_ratio": ("Length over the recording's", "{:.2f}", "near 1"),
    "silent": ("Silent, or with long pauses", "{:.0%}", "less"),
    "run_on": ("Talks on after the end", "{:.0%}", "less"),
    "early_stop": ("Stops early", "{:.0%}", "less"),
    "loop": ("Loops", "{:.0%}", "less"),
    "real_time": ("Seconds of work a second of speech", "{:.2f}", "less"),
}
"""Measures of utils.evaluation: their name, how they are written, and which way is better."""
BETTER = "better"
NOT_MEASURED = "Not measured:"
MEASURES_PICTURE = "The measures of each model as bars"
MEASURES_FOLDER = "Figures, pictures and recordings"
NO_TAKE = "no take is chosen"
NO_TAKE_FIX = "speak something first, or choose a take"
TAKE_FAILED_FIX = "mend what it names, or choose another model or voice, and press “Speak” again"
NOTHING_SPEAKS_FIX = "type a text and press “Speak” first"
RELEASED = "The speaking model was unloaded to make room; takes that were being spoken can be continued."
RELEASE_REASON = "stopped to make room for training or measuring; continue it when you like"
TAKE_STATES = {
    "waiting": "waiting for its turn",
    "speaking": "speaking",
    "finished": "finished",
    "stopped": "stopped",
    "failed": "failed",
    "cut": "cut off",
}
WORKER_STATES = {
    "off": "No model is loaded.",
    "starting": "The model is being loaded.",
    "ready": "A model is loaded",
    "busy": "Speaking",
}
CUT_SENTENCE = "cut off: the model did not end by itself"


def model_name(kind: str, source: str, which: str, step: int | None) -> str:
    """A model in the list.

    Args:
        kind: ready, run or base.
        source: the run's or base's name.
        which: best or last, of a run.
        step: optimizer steps of the checkpoint.
    """
    if kind == "ready":
        return "exported model"
    if kind == "base":
        return f"base {source}"
    steps = f", step {step}" if step is not None else ""
    return f"run {source}: {which}{steps}"


def take_facts(*, sounds_s: float, first_s: float | None, device: str) -> str:
    """Numbers of a take."""
    first = f" · first sound after {first_s:.1f} s" if first_s is not None else ""
    where = f" · on {device}" if device else ""
    return f"{sounds_s:.1f} s of speech{first}{where}"


def lines_done(done: int, failed: int, total: int) -> str:
    """Progress of a take of many lines."""
    lost = f", {failed} failed" if failed else ""
    return f"{done} of {total} lines{lost}"


def waiting_takes(count: int) -> str:
    """How many takes wait."""
    return "" if count == 0 else f"; {count} waiting"


def voted(a: str, b: str, choice: str) -> str:
    """Which was which, told after the vote."""
    heard = {"a": a, "b": b}.get(choice)
    said = f"You preferred {heard}." if heard else "You heard no difference."
    return f"{said} A was {a}, B was {b}."


def tally(first: str, second: str, wins: tuple[int, int], same: int, chance: float) -> str:
    """Votes on a pair of models."""
    likely = f"by chance alone with probability {chance:.2f}" if sum(wins) else "nothing to tell yet"
    return f"{first}: {wins[0]} · {second}: {wins[1]} · no difference: {same} · so clear {likely}"


def take_started(count: int) -> str:
    """After many lines were asked for."""
    return f"{count} lines are being spoken; the list of takes shows how far they are."


def measured_title(sentences: int, made: str) -> str:
    """What was measured, and when."""
    return f"{sentences} sentences, {made}"


def no_line(number: object) -> str:
    """A line that no take of a comparison has."""
    return f"there is no line {number}"


def use_up_to(most: int) -> str:
    """Which lines there are."""
    return f"use 1 to {most}"
