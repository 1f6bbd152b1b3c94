"""Texts of tab 1, Data processing."""

from collections.abc import Mapping, Sequence

from webui.text.catalog import _, ngettext

UPLOAD = _("Recordings and transcripts")
NOTHING_UPLOADED = _(
    "No uploads yet. Upload recordings of one speaker with their transcripts: .txt files or subtitles (.srt, .vtt) "
    "with the same name, tables such as metadata.csv, or a zip of these. Ten to twenty minutes of speech are a good "
    "start."
)
UPLOADED_FILES = _("Uploaded files")
FILE_COLUMNS = (_("File"), _("Size"), _("In the dataset"))
CHOOSE_FILES, CHOOSE_FILES_HELP = _("Files to remove"), _("The dataset stays as it is until it is created again.")
REMOVE_FILES, CLEAR_UPLOADS = _("Remove these files"), _("Remove all uploads")
NO_FILE = _("no uploaded file is selected")
NO_FILE_FIX = _("select one in the list of uploaded files")
READ_ALOUD = _("Record by reading aloud")
READ_WORDS = _("Read this aloud")
READ_WORDS_HELP = _("You may change it until it is saved: the transcript is what stands here.")
READ_SOUND, READ_AGAIN, READ_NEXT, READ_KEEP = _("Microphone"), _("Again"), _("Next"), _("Keep it anyway")
READ_SO_FAR, READ_HEARD = _("Clean recordings"), _("Recognizer: {words}")
READ_START = _("In a quiet room: select Record, wait a moment, read, wait a moment, stop.")
READ_OWN = _("Type a sentence of 6 to 16 words, then read it aloud.")
READ_SAVED = _("Saved: {seconds:.1f} s. Listen to it, read it again, or continue.")
READ_DONE = _("Three clean minutes are recorded. Step 1 makes the dataset of them and of all other uploads.")
READ_NO_WORDS = _("there is no sentence")
READ_ADVICE = {
    "unreadable audio": _("The browser's recording cannot be read. Record it again, or use another browser."),
    "too short": _("Shorter than the sentence takes. Wait a moment after Record, and read all of it."),
    "too long": _("Longer than the sentence takes. Read it without long pauses, and stop right after it."),
    "noise": _("Too much noise. Close windows, move closer to the microphone, and read it again."),
    "clipping": _("Clipped. Move back from the microphone or lower its level, and read it again."),
    "little speech": _("Hardly any speech. Stop right after the sentence, move closer, or select another microphone."),
    "cut beginning": _("Cut off at the start. Wait a moment after Record, and read it again."),
    "cut end": _("Cut off at the end. Wait a moment before you stop, and read it again."),
    "transcript": _("These are other words. Read the sentence again, or change it to what you say."),
    "damaged": _("Part of the recording is missing. Close other programs, and read it again."),
}
"""What to do about a recording, by the name that a report has for what is wrong."""
SERVER_FOLDER = _("Folder on this server")
SERVER_FOLDER_HELP = _("In place of uploads; below a folder that the app may read.")
OPTIONS = _("Options and uploaded files")
STEP_1 = _("Step 1 - Create dataset")
CANCEL = _("Cancel")
UPLOAD_WAITS = _("create one at the top of the page; the files are then added to it")
NO_UPLOADS = _("there is nothing to create a dataset from")
NO_UPLOADS_FIX = _("upload recordings and transcripts, or enter a folder on the server")
PREPARING_STARTED = _("Creating the dataset ...")
PREPARING_NOW = _("this project's dataset is already being created")
PREPARING_NOW_FIX = _("wait until it is finished, or cancel it")
NOTHING_PREPARES_FIX = _("there is no dataset job to cancel")
CANCELLED = _("Cancelled. The dataset is unchanged.")
DATASET = _("Dataset")
NO_REPORT_YET = _("No dataset yet. Upload recordings on the left, then select Step 1.")
CLIPS_USED, CLIPS_DROPPED = _("clips used"), _("clips dropped")
CLIPS_FLAGGED = _("used, to be reviewed")
SPEECH = _("of speech")
TRAIN_AND_EVAL = _("training / evaluation")
DROPPED = _("Dropped clips by reason")
REASON_COLUMNS = (_("Reason"), _("Clips"))
IGNORED, IGNORED_COLUMNS = _("Ignored files"), (_("File"), _("Kind"))
FULL_REPORT = _("Full report with every clip (report.html)")
ALL_USED = _("All clips are used.")
FEW_MINUTES = _(
    "Less than two minutes of speech: enough for a test run. Continue with Fine-tuning, or add recordings for a better "
    "voice."
)
PRACTICE_ONLY = _(
    "The starter base is for practice only: it cannot learn a real voice. For that, get XTTS v2 and select it as the "
    "base model."
)
GET_BASE = _("Download XTTS v2")
LENGTHS = _("Clip lengths")
SECONDS, CLIPS = _("seconds"), _("clips")
CLIPS_TABLE = _("Clips. Select one to listen to it and edit it.")
FIND_CLIPS, FIND_CLIPS_HELP = _("Find clips"), _("words of the transcript, the name or the reason")
CLIP_KIND, CLIP_ORDER = _("Show"), _("Sort by")
CLIP_ORDERS = [
    (_("Order of the dataset"), "prepared"),
    (_("Longest first"), "longest"),
    (_("Shortest first"), "shortest"),
    (_("Recording"), "name"),
    (_("Transcript"), "text"),
]
PAGE_BACK, PAGE_ON = _("Previous page"), _("Next page")
CHANGE_FOUND = _("Find, sort and change many clips")
CHANGE_FOUND_HELP = _("Applies to every clip that the search and the filter find, on all pages.")
CLIP_KEYS = _(
    "Keys, while the focus is in this part of the page: space plays, left and right arrow change the clip, E edits the "
    "transcript, X excludes or restores."
)
EXCLUDE_FOUND, RESTORE_FOUND, ACCEPT_FOUND = _("Exclude all found"), _("Restore all found"), _("Keep all found")
NOTHING_TO_CHANGE = _("none of the clips found can be changed this way")
NOTHING_TO_CHANGE_FIX = _("change the search or the filter")
READ_AS = _("The model reads:")
CLIP = _("Clip")
TRANSCRIPT = _("Transcript")
TRANSCRIPT_HELP = _("The words spoken in the clip; a | between two of them splits it there.")
SAVE_CLIP, EXCLUDE_CLIP = _("Save clip"), _("Exclude")
RESTORE_CLIP, UNDO_EDIT = _("Restore clip"), _("Undo edit")
ACCEPT_CLIP = _("Keep this clip")
CUT_TITLE = _("Move the edges, split or merge")
SPLIT_AND_MOVED = _("the transcript has a bar, which splits the clip, and its edges are moved as well")
SPLIT_AND_MOVED_FIX = _("do one after the other: save the edges without the bar, then split")
EDGE_START, EDGE_END, EDGE_HELP = _("Start (s)"), _("End (s)"), _("In the recording.")
CUT_HELP = _("In the clip.")
PART_START, PART_END = _("From (s)"), _("To (s)")
CUT_AT = _("Split at (s)")
TEXT_BEFORE, TEXT_AFTER = _("Transcript before the split"), _("Transcript after the split")
MERGE_CLIP = _("Merge with next")
FIX_STARTED = _("Updating the clip ...")
UPDATING_NOW = _("a clip of this project is already being updated")
UPDATING_NOW_FIX = _("wait until it is finished")
PREVIOUS_CLIP, NEXT_CLIP = _("Previous"), _("Next")
CLIP_SAVED = _("Transcript saved.")
CLIP_EXCLUDED = _("Clip excluded. You can restore it at any time.")
CLIP_RESTORED = _("Clip restored.")
NO_CLIP = _("no clip is selected")
CLIP_CHANGED = _("the transcript of this clip was changed in another tab or by another job")
CLIP_CHANGED_FIX = _("check the new transcript, then edit it again")
CLIP_OF_ANOTHER = _("the clip on the page belongs to another project")
NO_CLIP_FIX = _("select one in the table")
CLIP_SOUND = _("The clip as used for training")
CLIP_HAS_NO_SOUND = _("The clip is not in the dataset, so it cannot be played.")
CLIP_COLUMNS = [_("Status"), _("Reason"), _("Transcript"), _("Seconds"), _("Set"), _("Clip")]
STATUS = {"used": _("used"), "dropped": _("dropped"), "review": _("review")}
SPLITS = {"train": _("train"), "eval": _("eval"), "": ""}
REASONS = {
    "outside the folder": _("outside the input folder"),
    "bad times": _("invalid times"),
    "unknown characters": _("unsupported characters"),
    "excluded": _("excluded"),
    "other language": _("different language"),
    "offset": _("DC offset"),
    "cut beginning": _("cut off at the start"),
    "cut end": _("cut off at the end"),
    "transcript": _("transcript mismatch"),
    "quiet": _("too quiet"),
    "another voice": _("different voice"),
    "same text": _("duplicate text"),
    "nearly the same sound": _("near-duplicate"),
}
"""Reasons and flags of the report that the page calls by another name."""
SELF_EXPLAINING = ("unknown characters", "nearly the same sound", "duplicate audio")
"""Reasons and flags whose detail says it all."""


def upload_counts(recordings: int, transcripts: int, tables: int, archives: int) -> list[tuple[int, str]]:
    """What was uploaded: each number with its noun."""
    return [
        (recordings, ngettext("recording", "recordings", recordings)),
        (transcripts, ngettext("transcript", "transcripts", transcripts)),
        (tables, ngettext("table", "tables", tables)),
        (archives, ngettext("archive", "archives", archives)),
    ]


def uploaded(count: int, replaced: Sequence[str] = ()) -> str:
    """After files were added, some of them in the place of earlier ones."""
    added = ngettext("{count} file was added.", "{count} files were added.", count)
    if not replaced:
        return added
    names, more = ", ".join(replaced[:3]), len(replaced) - 3
    if more > 0:
        names = _("{names} and {count} more", names=names, count=more)
    return f"{added} " + _("Replaced files with the same name: {names}.", names=names)


def clip_kinds(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """Choices of the filter: label with the number of clips, and kind."""
    names = {"": _("All clips"), "used": _("Used"), "dropped": _("Dropped"), "review": _("To be reviewed")}
    labels = {
        kind: names[kind]
        if kind in names
        else (_("Dropped: {reason}") if kind.startswith("reason:") else _("Review: {reason}")).format(
            reason=reason(kind.partition(":")[2])
        )
        for kind in counts
    }
    return [(f"{labels[kind]} ({count:,})", kind) for kind, count in counts.items()]


def clips_shown(first: int, num_shown: int, num_matching: int, num_clips: int) -> str:
    """Which clips the table shows."""
    if not num_matching:
        return _("No clip matches.")
    last = first + num_shown - 1
    if num_matching == num_clips:
        return _("{first:,} to {last:,} of {total:,}", first=first, last=last, total=num_clips)
    return _(
        "{first:,} to {last:,} of {matching:,} found among {total:,}",
        first=first,
        last=last,
        matching=num_matching,
        total=num_clips,
    )


def undo_edits(count: int) -> str:
    """The button that takes back the last edit."""
    return _("Undo ({count})", count=count) if count else _("Undo")


def undone(kind: str, num_clips: int) -> str:
    """After an edit was taken back."""
    words = {
        "text": ngettext("The transcript of {count} clip", "The transcripts of {count} clips", num_clips),
        "excluded": ngettext("The exclusion of {count} clip", "The exclusion of {count} clips", num_clips),
        "restored": ngettext("The restoration of {count} clip", "The restoration of {count} clips", num_clips),
    }[kind]
    return _("Undone: {what}.", what=words[:1].lower() + words[1:])


def more_files(count: int) -> str:
    """Below a list of the first files."""
    return ngettext("and {count:,} more file", "and {count:,} more files", count)


def clips_of_file(used: int, dropped: int) -> str:
    """What became of an uploaded recording."""
    said = [ngettext("{count} clip used", "{count} clips used", used)] if used else []
    said += [_("{count} dropped", count=dropped)] if dropped else []
    return ", ".join(said) or _("not in it")


def removed(count: int, freed: str) -> str:
    """After uploaded files were removed."""
    return ngettext(
        "{count} file was removed: {freed} are free.",
        "{count} files were removed: {freed} are free.",
        count,
        freed=freed,
    )


def changed(count: int) -> str:
    """After all clips found were changed."""
    return ngettext("{count} clip was changed.", "{count} clips were changed.", count)


def accepting(count: int, later: int) -> str:
    """When a job began that keeps clips."""
    said = ngettext("Keeping {count} clip ...", "Keeping {count} clips ...", count)
    return said + " " + _("{count} more are left: select it again afterwards.", count=later) if later else said


def clip_edges(start_s: float, end_s: float, recording_s: float | None) -> str:
    """Which part of its recording a clip is."""
    if recording_s is None:
        return _("Cut at {start:.2f} to {end:.2f} s; the recording itself cannot be shown.", start=start_s, end=end_s)
    return _("Cut at {start:.2f} to {end:.2f} s of {length:.2f} s.", start=start_s, end=end_s, length=recording_s)


def removed_silence(before_s: float, after_s: float) -> str:
    """How much silence was removed from a clip's edges."""
    if max(before_s, after_s) < 0.005:
        return _("No silence was removed.")
    return _("Silence removed: {before:.2f} s at the start, {after:.2f} s at the end.", before=before_s, after=after_s)


def reason(name: str) -> str:
    """Why clips were dropped, or deserve a review, as a heading."""
    name = REASONS.get(name, name)
    return name[:1].upper() + name[1:]


def because(name: str, detail: str) -> str:
    """Why one clip was dropped, or deserves a review."""
    if name == "excluded":
        return _("excluded by hand")
    return detail if name in SELF_EXPLAINING else f"{REASONS.get(name, name)}: {detail}"


def amount(minutes: float, *, enough: bool) -> str:
    """A verdict on the amount of speech."""
    if enough:
        return _(
            "{minutes:.0f} minutes of speech: enough for a good voice. Continue with Fine-tuning.", minutes=minutes
        )
    return _(
        "{minutes:.1f} minutes of speech: enough for a first voice. Ten to twenty give a good one. Continue with "
        "Fine-tuning.",
        minutes=minutes,
    )


NO_SUCH_CLIP = _("the dataset has no clip {name!r}")
NO_FOLDER = _("the app may not read this folder, or it does not exist: {name}")
FOLDERS_BELOW = _("use a folder below {roots}, or start the app with --input-root FOLDER")
