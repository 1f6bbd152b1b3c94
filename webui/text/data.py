"""Words of tab 1, Data processing."""

from collections.abc import Iterable, Sequence

UPLOAD = "Recordings and transcripts"
NOTHING_UPLOADED = (
    "Nothing uploaded yet. Give recordings of one speaker with what is said in them: .txt files or subtitles "
    "(.srt, .vtt) of the same name, or tables (metadata.csv; all of them are read); or a zip of these. "
    "Ten to twenty minutes are a good start."
)
CLEAR_UPLOADS = "Remove uploads"
SERVER_FOLDER = "Or a folder on this server"
SERVER_FOLDER_HELP = "Used instead of the uploads when given. It must lie below a folder that the app may read."
OPTIONS = "Options"
STEP_1 = "Step 1 - Create dataset"
CANCEL = "Cancel"
RECORDINGS, TRANSCRIPTS = ("recording", "recordings"), ("transcript", "transcripts")
TABLES, ARCHIVES = ("table", "tables"), ("archive", "archives")
"""Of one, and of several."""
UPLOAD_WAITS = "create one at the top of the page; the files are then added to it"
NO_UPLOADS = "there is nothing to make a dataset from"
NO_UPLOADS_FIX = "upload recordings and transcripts, or name a folder of the server"
PREPARING_STARTED = "The dataset is being made."
PREPARING_NOW = "a dataset is being made for this project already"
PREPARING_NOW_FIX = "wait until it is done, or cancel it"
NOTHING_PREPARES_FIX = "no dataset is being made"
CANCELLED = "Cancelled. The dataset is as it was before."
DATASET = "Dataset"
NO_REPORT_YET = "No dataset yet. Upload recordings on the left, then press Step 1."
CLIPS_USED, CLIPS_DROPPED = "clips used", "clips left out"
CLIPS_FLAGGED = "used, but worth a look"
SPEECH = "of speech"
TRAIN_AND_EVAL = "to train / to evaluate"
DROPPED = "Left out, by reason"
REASON_COLUMNS = ("Left out because", "Clips")
FULL_REPORT = "Full report with every clip (report.html)"
ALL_USED = "Every clip is used."
FEW_MINUTES = (
    "Under two minutes of speech: too little for a good voice, so add recordings. It is enough to try the path: tab 2."
)
LENGTHS = "Clip lengths"
SECONDS, CLIPS = "seconds", "clips"
CLIPS_TABLE = "Every clip, used or not; choose one to listen and edit"
CLIP = "Clip"
TRANSCRIPT = "Transcript"
TRANSCRIPT_HELP = "What is said in the clip; training reads this."
SAVE_CLIP, EXCLUDE_CLIP, RESTORE_CLIP = "Save transcript", "Leave out", "Use again / undo"
ACCEPT_CLIP = "It is fine"
CUT_TITLE = "Cut or join this clip"
CUT_HELP = "Times are seconds of the clip as it sounds now. The recording itself stays; every cut can be undone."
PART_START, PART_END = "From (s)", "To (s)"
TRIM_CLIP = "Keep only this part"
CUT_AT = "Cut at (s)"
TEXT_BEFORE, TEXT_AFTER = "Said before the cut", "Said after it"
SPLIT_CLIP = "Make two clips"
MERGE_CLIP = "Join with the clip that follows"
FIX_STARTED = "The clip is being mended: this takes some seconds."
MENDING_NOW = "a clip of this project is being mended already"
MENDING_NOW_FIX = "wait until that is done"
PREVIOUS_CLIP, NEXT_CLIP = "Previous", "Next"
CLIP_SAVED = "The transcript is saved."
CLIP_EXCLUDED = "The clip is left out from now on; it can be used again."
CLIP_RESTORED = "The clip is used again."
NO_CLIP = "no clip is chosen"
CLIP_CHANGED = "the words of this clip were changed meanwhile, in another tab or by another job"
CLIP_CHANGED_FIX = "look at them and change them again"
CLIP_OF_ANOTHER = "the clip that is shown belongs to another project"
NO_CLIP_FIX = "choose one in the table"
CLIP_SOUND = "The clip as it will be trained on"
CLIP_HAS_NO_SOUND = "It is not in the dataset, so there is nothing to play."
CLIP_COLUMNS = ["Clip", "Status", "Why", "Seconds", "Set", "Transcript"]
STATUS = {"used": "used", "dropped": "left out"}
SPLITS = {"train": "train", "eval": "eval", "": ""}


def uploaded(count: int, replaced: Sequence[str] = ()) -> str:
    """After files were taken in, some of them in the place of earlier ones."""
    added = "1 file was added." if count == 1 else f"{count} files were added."
    if not replaced:
        return added
    names = ", ".join(replaced[:3]) + (f" and {len(replaced) - 3} more" if len(replaced) > 3 else "")
    return f"{added} In place of earlier ones of the same name: {names}."


def reason(name: str) -> str:
    """Why clips were left out."""
    return name[:1].upper() + name[1:]


def amount(minutes: float, *, enough: bool) -> str:
    """A verdict on the amount of speech."""
    if enough:
        return f"{minutes:.0f} minutes of speech: enough for a good voice. Next: tab 2."
    return f"{minutes:.1f} minutes of speech: enough to try. A good voice wants ten to twenty. Next: tab 2."


def no_clip(name: str) -> str:
    """A clip that the dataset lacks."""
    return f"the dataset has no clip {name!r}"


def no_folder(name: str) -> str:
    """A folder that may not be read, or is not there: the page does not tell which."""
    return f"no such folder among those that may be read: {name}"


def folders_below(roots: Iterable[str]) -> str:
    """Which folders may be read."""
    return f"name one below {', '.join(roots)}, or start the app with --input-root FOLDER"
