"""Takes on disk: the spoken texts, model and settings, and all wavs.

output/<project>/takes/<id>/ holds take.json, the reference recording if one was given, NNNN-MMM.wav for sentence M of
line N as soon as it is spoken, and NNNN.wav for the whole line. take.json is replaced atomically after each sentence
and read by the page. A killed process loses at most the current sentence.
"""

import dataclasses
import json
import os
import shutil
import time
import wave
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from utils.errors import UserError, disk_errors
from utils.files import replacing, write_atomic
from utils.options import SpeechSettings
from utils.project.paths import Project, check_name, new_run_id
from utils.runs.process import ProcessId

TAKES_FOLDER = "takes"
TAKE_FILE = "take.json"
MAX_NAME = 80
"""Characters of a take's name."""
BLOCK_FRAMES = 65_536
"""Of a wav, read at once."""

TakeState = Literal["waiting", "speaking", "finished", "stopped", "failed", "cut"]
LineState = Literal["waiting", "finished", "failed"]
LIVE = ("waiting", "speaking")


@dataclass(frozen=True, kw_only=True)
class TakeSentence:
    """One piece of speech."""

    text: str
    file: str
    """Name of its wav in the take's folder."""
    audio_s: float
    took_s: float
    finished: bool
    """Whether the model ended by itself; it was cut off otherwise."""
    faults: tuple[str, ...] = ()
    """What the guards still see in it, or repaired at its end; see `utils.inference.guards`."""
    attempts: tuple[dict[str, Any], ...] = ()
    """Seed, codes and faults of each time it was spoken."""
    tail_cut_s: float = 0.0
    """Quiet at its end that was cut."""
    unread: tuple[str, ...] = ()
    """Of a line's first sentence: what of the line the model cannot read."""
    said: tuple[str, ...] = ()
    """Of a line's first sentence: words of the line that were said otherwise, as `GPU: gee pee you`."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One text of a take."""

    number: int
    """From 1."""
    text: str
    state: LineState = "waiting"
    error: str = ""
    """Why it could not be spoken."""
    file: str = ""
    """Name of the wav of the whole line, or, where it was stopped, of what was spoken of it; empty before."""
    sentences: tuple[TakeSentence, ...] = ()

    @property
    def audio_s(self) -> float:
        return sum(sentence.audio_s for sentence in self.sentences)


@dataclass(frozen=True, kw_only=True)
class Take:
    """The contents of take.json."""

    folder: Path
    created: float
    """In seconds since 1970."""
    model: str
    """Id of the model, see `utils.speech.models`."""
    settings: SpeechSettings
    lines: tuple[Line, ...]
    state: TakeState = "waiting"
    message: str = ""
    """Why it stopped or failed, or what else a person should know."""
    reference: str = ""
    """Name of the reference recording in the take's folder; empty for the model's own voice."""
    reference_name: str = ""
    """What the user calls that recording; only for display."""
    speaker: str = ""
    """Name of one of the model's reference voices; empty for none."""
    checkpoint: str = ""
    """Which checkpoint spoke, as step-00000012; empty for other models."""
    device: str = ""
    """What it was computed on."""
    precision: str = ""
    """Data type of the weights that spoke."""
    first_sound_s: float | None = None
    """From asking to the first sound, loading included."""
    name: str = ""
    """What the user calls it; empty for none."""
    comparison: str = ""
    """Id of the comparison it belongs to; empty for none."""
    owner: dict[str, Any] = field(default_factory=dict)
    """The process that has it spoken."""

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def is_live(self) -> bool:
        return self.state in LIVE

    @property
    def audio_s(self) -> float:
        return sum(line.audio_s for line in self.lines)

    @property
    def sentences(self) -> list[TakeSentence]:
        """All that was spoken so far, in order."""
        return [sentence for line in self.lines for sentence in line.sentences]

    @property
    def wavs(self) -> list[Path]:
        """Wavs of the lines that are complete, or were stopped after their first sentence."""
        return [self.folder / line.file for line in self.lines if line.file]

    def changed(self, **changes: Any) -> Self:
        return dataclasses.replace(self, **changes)

    def with_line(self, line: Line) -> Self:
        """The take with one line replaced by another of the same number."""
        return self.changed(lines=tuple(line if old.number == line.number else old for old in self.lines))

    @disk_errors()
    def save(self) -> None:
        """Replace take.json.

        Raises:
            UserError: the disk is full, or the folder may not be written.
        """
        values = dataclasses.asdict(self)
        del values["folder"]
        write_atomic(self.folder / TAKE_FILE, json.dumps(values, ensure_ascii=False, indent=1), durable=True)


@disk_errors()
def new_take(
    project: Project,
    texts: list[str],
    *,
    model: str,
    settings: SpeechSettings,
    reference: Path | None = None,
    reference_name: str = "",
    speaker: str = "",
    comparison: str = "",
) -> Take:
    """Make the folder of a take that is waiting to be spoken.

    Args:
        project: whose take.
        texts: its lines.
        model: id of the model.
        settings: how it is spoken.
        reference: recording whose voice speaks; it is copied, so that the take can be shown and continued later.
        reference_name: what the user calls it.
        speaker: name of a reference voice of the model, instead of a recording.
        comparison: id of the comparison it belongs to.

    Raises:
        UserError: the recording is gone, or the disk is full.
    """
    folder = project.folder / TAKES_FOLDER / new_run_id()
    folder.mkdir(parents=True)
    copied = ""
    if reference is not None:
        if not reference.is_file():
            raise UserError(what="the reference audio is missing", where=reference_name, fix="select it again")
        suffix = reference.suffix.lower()
        is_plain = suffix[1:].isalnum() and suffix.isascii() and len(suffix) <= 6
        copied = f"reference{suffix if is_plain else ''}"
        shutil.copyfile(reference, folder / copied)
    take = Take(
        folder=folder,
        created=time.time(),
        model=model,
        settings=settings,
        lines=tuple(Line(number=number, text=text) for number, text in enumerate(texts, start=1)),
        reference=copied,
        reference_name=reference_name if copied else "",
        speaker=speaker,
        comparison=comparison,
        owner=this_process(),
    )
    take.save()
    return take


def read_take(folder: Path) -> Take:
    """What take.json says; a take whose process is gone reads as cut.

    Raises:
        UserError: the folder holds no take.
    """
    try:
        take = _parse(folder, json.loads((folder / TAKE_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(what=f"this take cannot be read: {error}", where=str(folder)) from error
    if take.is_live and not has_owner(take):
        return take.changed(state="cut", message="the app ended during generation; you can resume the take")
    return take


def list_takes(project: Project, *, limit: int | None = None) -> list[Take]:
    """The takes of a project, the newest first; folders that hold none are skipped.

    Args:
        project: whose takes.
        limit: at most this many.
    """
    takes: list[Take] = []
    for folder in take_folders(project):
        if limit is not None and len(takes) >= limit:
            break
        try:
            takes.append(read_take(folder))
        except UserError:
            continue
    return takes


def take_folders(project: Project) -> list[Path]:
    """Folders that may hold a take, the newest first."""
    places = project.folder / TAKES_FOLDER
    return sorted(places.iterdir(), reverse=True) if places.is_dir() else []


def find_take(project: Project, take_id: str) -> Take:
    """The take of that id.

    Raises:
        UserError: the project has none.
    """
    folder = project.folder / TAKES_FOLDER / check_name(take_id, kind="take")
    if not folder.is_dir() or folder.is_symlink():
        raise UserError(what=f"there is no take {take_id!r}", where=str(folder.parent), fix="select one in the list")
    return read_take(folder)


def rename_take(take: Take, name: str) -> Take:
    """Give a take a name; an empty one takes it away.

    Raises:
        UserError: it is being spoken, or the name is too long.
    """
    _require_ended(take)
    wanted = " ".join(name.split())
    if len(wanted) > MAX_NAME or not wanted.isprintable():
        raise UserError(
            what="this name cannot be used", where="name", fix=f"use at most {MAX_NAME} letters, digits and signs"
        )
    renamed = take.changed(name=wanted)
    renamed.save()
    return renamed


@disk_errors()
def delete_take(take: Take) -> None:
    """Remove a take with all its recordings.

    Raises:
        UserError: it is being spoken, or the system does not allow it.
    """
    _require_ended(take)
    shutil.rmtree(take.folder)


def _require_ended(take: Take) -> None:
    if take.is_live:
        raise UserError(what="this take is being spoken", where=take.id, fix="wait until it is finished, or stop it")


def this_process() -> dict[str, Any]:
    """This process, to be recognized later."""
    return dataclasses.asdict(ProcessId.of(os.getpid()))


def has_owner(take: Take) -> bool:
    """Whether the process that has a take spoken still runs."""
    try:
        return ProcessId(**take.owner).process() is not None
    except TypeError:
        return False


def _parse(folder: Path, values: dict[str, Any]) -> Take:
    known = {item.name for item in dataclasses.fields(Take)} - {"folder", "lines", "settings"}
    lines = tuple(
        Line(**{**line, "sentences": tuple(sentence_of(sentence) for sentence in line["sentences"])})
        for line in values["lines"]
    )
    settings = SpeechSettings(**values["settings"])
    return Take(folder=folder, lines=lines, settings=settings, **{k: v for k, v in values.items() if k in known})


def sentence_of(values: dict[str, Any]) -> TakeSentence:
    """A sentence from JSON: of take.json, or of a reply of the worker, which says more."""
    known = {item.name for item in dataclasses.fields(TakeSentence)}
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items() if name in known
    }
    return TakeSentence(**given)


def join_wavs(parts: Sequence[Path], out: Path) -> None:
    """Write one wav that holds all parts one after the other; readers see none of it or the whole.

    Args:
        parts: wavs of one sample rate, width and number of channels.
        out: file to write.

    Raises:
        OSError: a part is gone, or the disk is full; nothing is left behind.
    """
    assert parts
    with replacing(out) as aside, wave.open(str(aside), "wb") as joined:
        for number, part in enumerate(parts):
            with wave.open(str(part), "rb") as source:
                if number == 0:
                    joined.setparams(source.getparams())
                assert source.getparams()[:3] == joined.getparams()[:3], part
                while block := source.readframes(BLOCK_FRAMES):
                    joined.writeframesraw(block)
