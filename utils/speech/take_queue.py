"""Queue generation requests, which one worker speaks in order; results go to take.json."""

import base64
import logging
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from utils.errors import UserError, disk_errors
from utils.jobs.json_lines import Message
from utils.options import Device, SpeechSettings
from utils.project.paths import Project
from utils.speech.live_sound import LiveSound
from utils.speech.models import find_model
from utils.speech.takes import Line, Take, find_take, join_wavs, new_take, read_take, sentence_of, this_process
from utils.speech.worker_client import ReleasedError, SpeechWorker
from utils.text.readable import named

MAX_WAITING = 50
"""More takes than this are refused while others wait."""
MAX_LINES, MAX_CHARACTERS = 5_000, 500_000
"""Of one take: hours of speech."""

MAX_SOUNDS = 2 * MAX_WAITING
"""Takes whose sound players may follow: all that wait, and the last ones that ended."""

log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Queued:
    """A take on its way, or that ended lately."""

    project: Project
    take: Take
    """As it is now."""
    asked: float = field(default_factory=time.monotonic)
    sound: LiveSound = field(default_factory=LiveSound)
    is_unwanted: bool = False


class GenerationQueue:
    """FIFO queue of generation requests; one instance per process.

    Args:
        output: the folder that holds all projects.
        device: where to compute.
        worker: who speaks; given for tests.
    """

    def __init__(self, output: Path, *, device: Device = "auto", worker: SpeechWorker | None = None) -> None:
        self.worker = worker or SpeechWorker(output)
        self._device: Device = device
        self._waiting: deque[_Queued] = deque()
        self._queued: OrderedDict[Path, _Queued] = OrderedDict()
        """By the take's folder: those that wait or are being spoken, and the last ones that ended."""
        self._voices: dict[str, list[str]] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def submit(
        self,
        project: Project,
        texts: Sequence[str],
        *,
        model: str,
        settings: SpeechSettings,
        **voice: Any,
    ) -> Take:
        """Ask for a take; it is on disk when this returns, and spoken when its turn comes.

        Args:
            project: whose take.
            texts: its lines; empty ones are skipped.
            model: id of the model, see `utils.speech.models`.
            settings: how it is spoken.
            voice: reference, reference_name, speaker and comparison, see `new_take`; the model's own voice speaks when
                neither a reference nor a speaker is given.

        Raises:
            UserError: no such model, no or too much text, an unusable setting, or too many takes wait already.
        """
        settings.validate(where="speech settings")
        if settings.seed is None:
            settings = replace(settings, seed=secrets.randbelow(2**31))
        find_model(project, model)
        texts = checked_texts(texts)
        with self._changed:
            if len(self._waiting) >= MAX_WAITING:
                raise UserError(
                    what=f"{len(self._waiting)} takes are already queued", fix="wait until some are finished"
                )
        take = new_take(project, texts, model=model, settings=settings, **voice)
        self._queue(project, take)
        return take

    def resume(self, project: Project, take_id: str) -> Take:
        """Speak the lines of a take that are missing; those that are there stay as they are.

        Raises:
            UserError: there is no such take, it is being spoken, or nothing is missing.
        """
        take = find_take(project, take_id)
        if take.is_live:
            raise UserError(what=f"take {take.id!r} is {take.state}", where=str(take.folder), fix="wait until it ends")
        with self._changed:
            # Its file is written at the end, before the queue knows.
            self._changed.wait_for(lambda: not (queued := self._queued.get(take.folder)) or not queued.take.is_live)
        if all(line.state == "finished" for line in take.lines):
            raise UserError(what="every line of this take is already generated", where=str(take.folder))
        lines = tuple(
            line if line.state == "finished" else Line(number=line.number, text=line.text) for line in take.lines
        )
        take = take.changed(state="waiting", message="", lines=lines, owner=this_process())
        take.save()
        self._queue(project, take)
        return take

    def stop(self, folder: Path) -> None:
        """Stop a take; what was spoken of it stays, and it can be continued."""
        with self._changed:
            queued = self._queued.get(folder)
            if queued is None or not queued.take.is_live:
                return
            queued.is_unwanted = True
            if is_waiting := queued in self._waiting:
                self._waiting.remove(queued)
        if is_waiting:
            self._keep(queued, queued.take.changed(state="stopped", message="stopped before it started"))
        else:
            self.worker.cancel()

    def release(self, reason: str) -> bool:
        """Free the device at once, as for training: the worker ends, and takes that are not complete are stopped.

        Args:
            reason: what those takes say to people; they can be continued later.

        Returns:
            Whether anything was loaded or waiting, so that the page can say so.
        """
        with self._changed:
            dropped, self._waiting = list(self._waiting), deque()
        for queued in dropped:
            self._keep(queued, queued.take.changed(state="stopped", message=reason))
        return self.worker.release(reason) or bool(dropped)

    def follow(self, take: Take, *, timeout_s: float | None = None) -> Iterator[Take]:
        """A take as it grows: after each reply of the worker, and when it has ended; a slow caller gets the newest.

        Args:
            take: as the caller knows it.
            timeout_s: give nothing more where nothing came for this long.
        """
        queued = self._queued.get(take.folder)
        is_over = False
        while not is_over:
            known, take = take, self._newest(queued, take, timeout_s) if queued else read_take(take.folder)
            is_over = queued is None or not take.is_live
            if take is known and not is_over:
                return
            yield take

    def _newest(self, queued: _Queued, known: Take, timeout_s: float | None) -> Take:
        with self._changed:
            self._changed.wait_for(lambda: queued.take is not known or not queued.take.is_live, timeout_s)
            return queued.take

    def sound(self, project: str, take_id: str) -> LiveSound | None:
        """What was spoken of a take since it was queued; None when it was not lately."""
        queued, wanted = list(self._queued.values()), (project, take_id)
        found = (one.sound for one in queued if (one.project.name, one.take.id) == wanted)
        return next(found, None)

    def speakers(self, model: str) -> list[str]:
        """Names of the reference voices that came with a model; empty until it was loaded once."""
        return self._voices.get(model, [])

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def _keep(self, queued: _Queued, take: Take) -> None:
        """Write a take that has changed, and have who follows it know.

        Raises:
            UserError: the disk is full, or the folder may not be written.
        """
        try:
            if not take.is_live:
                take = with_sound(take)
            take.save()
        finally:
            self._show(queued, take)
            if not take.is_live:
                queued.sound.end()

    def _show(self, queued: _Queued, take: Take) -> None:
        """Have who follows a take know that it has changed."""
        with self._changed:
            queued.take = take
            self._changed.notify_all()

    def _queue(self, project: Project, take: Take) -> None:
        with self._changed:
            queued = _Queued(project, take)
            self._queued.pop(take.folder, None)
            self._queued[take.folder] = queued
            if len(self._queued) > MAX_SOUNDS:
                self._queued.popitem(last=False)
            self._waiting.append(queued)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="generation queue", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                queued = self._waiting.popleft()
            try:
                self._speak(queued)
            except Exception:  # the edge of this thread: the next take must not suffer
                log.exception("take %s", queued.take.folder)
                fault = "internal error; see the app's log"
                with suppress(UserError, OSError):
                    self._keep(queued, queued.take.changed(state="failed", message=fault))

    def _speak(self, queued: _Queued) -> None:
        try:
            self._keep(queued, queued.take.changed(state="speaking"))
            model = find_model(queued.project, queued.take.model)
            request = request_of(queued.take, model.request())
            for reply in self.worker.ask(request, device=self._device, is_unwanted=lambda: queued.is_unwanted):
                if reply["kind"] == "chunk":
                    queued.sound.add_chunk(base64.b64decode(reply["pcm"]))
                    if queued.take.first_sound_s is None:
                        # Written with the first sentence: a disk that is busy must not delay the next chunk.
                        self._show(queued, after(queued.take, reply, queued.asked))
                    continue
                if reply["kind"] == "loaded":
                    self._voices[queued.take.model] = reply["speakers"]
                if reply["kind"] == "sentence":
                    queued.sound.add_sentence(queued.take.folder / reply["file"])
                self._keep(queued, after(queued.take, reply, queued.asked))
        except ReleasedError as error:
            self._keep(queued, queued.take.changed(state="stopped", message=error.what))
        except UserError as error:
            self._keep(queued, queued.take.changed(state="failed", message=str(error)))


@disk_errors()
def with_sound(take: Take) -> Take:
    """The take with a wav of what was spoken of each line that did not come to its end.

    Raises:
        UserError: the disk is full, or a sentence is gone.
    """
    for line in take.lines:
        if line.sentences and not line.file:
            file = f"{line.number:04}.wav"
            join_wavs([take.folder / sentence.file for sentence in line.sentences], take.folder / file)
            take = take.with_line(replace(line, file=file))
    return take


def checked_texts(texts: Sequence[str]) -> list[str]:
    """The lines that have words.

    Raises:
        UserError: there are none, or more than a take holds.
    """
    lines = [text.strip() for text in texts if text.strip()]
    num_characters = sum(map(len, lines))
    if not lines:
        raise UserError(what="there is no text to speak", fix="enter a text")
    if len(lines) > MAX_LINES or num_characters > MAX_CHARACTERS:
        raise UserError(
            what=f"the text has {len(lines)} lines and {num_characters} characters; "
            f"the limit of a take is {MAX_LINES} lines and {MAX_CHARACTERS} characters",
            fix="split it into parts",
        )
    return lines


def request_of(take: Take, model: dict[str, str]) -> dict[str, object]:
    """The request to the worker: the lines that are missing, and everything they are spoken with."""
    return {
        "do": "speak",
        "model": model,
        "folder": str(take.folder.absolute()),
        "output": str(take.folder.absolute().parents[2]),
        "reference": str((take.folder / take.reference).absolute()) if take.reference else None,
        "speaker": take.speaker or None,
        # Of several lines, and in a comparison, no listener waits: the guards may speak a sentence again.
        "live": len(take.lines) == 1 and not take.comparison,
        "settings": vars(take.settings),
        "lines": [{"number": line.number, "text": line.text} for line in take.lines if line.state != "finished"],
    }


def after(take: Take, reply: Message, asked: float) -> Take:
    """The take with what an answer of the worker says.

    Args:
        take: as it was.
        reply: the answer.
        asked: when the take was asked for, by the monotonic clock.
    """
    if reply["kind"] in ("chunk", "sentence") and take.first_sound_s is None:
        take = take.changed(first_sound_s=round(time.monotonic() - asked, 3))
    line = next((line for line in take.lines if line.number == reply.get("line")), None)
    match reply["kind"]:
        case "loaded":
            return take.changed(**{name: reply[name] for name in ("device", "checkpoint", "precision")})
        case "sentence" if line:
            return take.with_line(replace(line, sentences=(*line.sentences, sentence_of(reply))))
        case "line" if line:
            return take.with_line(replace(line, state="finished", file=reply["file"]))
        case "line_failed" if line:
            return take.with_line(replace(line, state="failed", error=reply["error"], sentences=()))
        case "cancelled":
            return take.changed(state="stopped", message="stopped; you can resume it")
        case "failed":
            return take.changed(state="failed", message=reply["error"])
        case "done":
            return _finished(take)
    return take


def _finished(take: Take) -> Take:
    failed = [line for line in take.lines if line.state == "failed"]
    if len(failed) == len(take.lines):
        return take.changed(state="failed", message=failed[0].error)
    pieces = take.sentences
    unread = dict.fromkeys(one for piece in pieces for one in piece.unread)
    said = dict.fromkeys(one for piece in pieces for one in piece.said)
    cut = sum(not piece.finished for piece in pieces)
    again = sum(len(piece.attempts) > 1 for piece in pieces)
    trimmed = sum(piece.tail_cut_s > 0 for piece in pieces)
    notes = (
        (failed, f"{len(failed)} of {len(take.lines)} lines failed"),
        (cut, f"{cut} of {len(pieces)} pieces are truncated: the model did not stop by itself"),
        (unread, f"not read: {named(unread)}"),
        (said, f"pronounced: {', '.join(said)}"),
        (again, f"{again} of {len(pieces)} pieces were spoken again, because the guards found faults"),
        (trimmed, f"{trimmed} quiet endings were trimmed"),
    )
    return take.changed(state="finished", message="; ".join(words for applies, words in notes if applies))
