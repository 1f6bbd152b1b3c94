"""Queue generation requests, which one worker speaks in order; results go to take.json."""

import base64
import logging
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from utils.errors import UserError, disk_errors
from utils.jobs.json_lines import Message
from utils.options import Device, SpeechSettings
from utils.project.paths import Project
from utils.speech.live_sound import LiveSound
from utils.speech.models import find_model
from utils.speech.takes import Line, Take, find_take, new_take, read_take, sentence_of, this_process
from utils.speech.wavs import join_wavs
from utils.speech.worker_client import ReleasedError, SpeechWorker
from utils.text.readable import named

MAX_WAITING = 50
"""More takes than this are refused while others wait."""
MAX_LINES, MAX_CHARACTERS = 5_000, 500_000
"""Of one take: hours of speech."""

MAX_SOUNDS = 2 * MAX_WAITING
"""Takes whose sound players may follow: all that wait, and the last ones that ended."""

log = logging.getLogger(__name__)


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
        self._waiting: deque[tuple[Project, Path, float]] = deque()
        self._current: Path | None = None
        self._live: dict[Path, Take] = {}
        """Takes that wait or are being spoken, as they are now."""
        self._sounds: OrderedDict[tuple[str, str], LiveSound] = OrderedDict()
        """By project and take."""
        self._unwanted: set[Path] = set()
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
        reference: Path | None = None,
        reference_name: str = "",
        speaker: str = "",
        comparison: str = "",
    ) -> Take:
        """Ask for a take; it is on disk when this returns, and spoken when its turn comes.

        Args:
            project: whose take.
            texts: its lines; empty ones are skipped.
            model: id of the model, see `utils.speech.models`.
            settings: how it is spoken.
            reference: recording whose voice speaks; the model's own voice when neither this nor `speaker` is given.
            reference_name: what the user calls that recording.
            speaker: name of a reference voice of the model.
            comparison: id of the comparison it belongs to.

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
        take = new_take(
            project,
            texts,
            model=model,
            settings=settings,
            reference=reference,
            reference_name=reference_name,
            speaker=speaker,
            comparison=comparison,
        )
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
            # Its file is written at the end, before the queue drops it.
            self._changed.wait_for(lambda: take.folder not in self._live)
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
            kept = [item for item in self._waiting if item[1] != folder]
            was_waiting = len(kept) < len(self._waiting)
            self._waiting = deque(kept)
            is_current = self._current == folder
            if is_current:
                self._unwanted.add(folder)
        if was_waiting:
            self._keep(self._live[folder].changed(state="stopped", message="stopped before it started"))
        if is_current:
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
        for _, folder, _ in dropped:
            self._keep(self._live[folder].changed(state="stopped", message=reason))
        return self.worker.release(reason) or bool(dropped)

    def follow(self, take: Take, *, timeout_s: float | None = None) -> Iterator[Take]:
        """A take as it grows: after each reply of the worker, and when it has ended; a slow caller gets the newest.

        Args:
            take: as the caller knows it.
            timeout_s: give nothing more where nothing came for this long.
        """
        is_live = True
        while is_live:
            with self._changed:
                if not self._changed.wait_for(partial(self._has_changed, take), timeout_s):
                    return
                newest = self._live.get(take.folder)
            is_live, take = newest is not None, newest or read_take(take.folder)
            yield take

    def sound(self, project: str, take_id: str) -> LiveSound | None:
        """What was spoken of a take since it was queued; None when it was not lately."""
        return self._sounds.get((project, take_id))

    def speakers(self, model: str) -> list[str]:
        """Names of the reference voices that came with a model; empty until it was loaded once."""
        return self._voices.get(model, [])

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def _has_changed(self, take: Take) -> bool:
        return self._live.get(take.folder) is not take

    def _keep(self, take: Take) -> Take:
        """Write a take that has changed, and have who follows it know.

        Raises:
            UserError: the disk is full, or the folder may not be written.
        """
        try:
            if not take.is_live:
                take = heard(take)
            take.save()
        finally:
            self._show(take)
            if not take.is_live:
                self._sound_of(take).end()
        return take

    def _show(self, take: Take) -> None:
        """Have who follows a take know that it has changed."""
        with self._changed:
            if take.is_live:
                self._live[take.folder] = take
            else:
                self._live.pop(take.folder, None)
            self._changed.notify_all()

    def _sound_of(self, take: Take) -> LiveSound:
        return self._sounds[take.folder.parent.parent.name, take.id]

    def _queue(self, project: Project, take: Take) -> None:
        with self._changed:
            self._live[take.folder] = take
            self._sounds.pop((project.name, take.id), None)
            self._sounds[project.name, take.id] = LiveSound()
            while len(self._sounds) > MAX_SOUNDS:
                self._sounds.popitem(last=False)
            self._waiting.append((project, take.folder, time.monotonic()))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="speech desk", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._unwanted.discard(self._current)
                self._current = None
                self._changed.wait_for(lambda: bool(self._waiting))
                project, folder, asked = self._waiting.popleft()
                self._current = folder
            try:
                self._speak(project, folder, asked)
            except Exception:  # the edge of this thread: the next take must not suffer
                log.exception("take %s", folder)
                fault = "internal error; see the app's log"
                with suppress(UserError, KeyError):
                    self._keep(self._live[folder].changed(state="failed", message=fault))

    def _speak(self, project: Project, folder: Path, asked: float) -> None:
        take = self._live[folder].changed(state="speaking")
        sound = self._sound_of(take)
        try:
            self._keep(take)
            model = find_model(project, take.model)
            request = request_of(take, model.request())
            answers = self.worker.ask(request, device=self._device, is_unwanted=lambda: folder in self._unwanted)
            for reply in answers:
                if reply["kind"] == "chunk":
                    sound.add_chunk(base64.b64decode(reply["pcm"]))
                    if take.first_sound_s is None:
                        # Written with the first sentence: a disk that is busy must not delay the next chunk.
                        take = take.changed(first_sound_s=round(time.monotonic() - asked, 3))
                        self._show(take)
                    continue
                if reply["kind"] == "loaded":
                    self._voices[take.model] = reply["speakers"]
                if reply["kind"] == "sentence":
                    sound.add_sentence(folder / reply["file"])
                take = self._keep(after(take, reply, asked))
        except ReleasedError as error:
            self._keep(take.changed(state="stopped", message=error.what))
        except UserError as error:
            self._keep(take.changed(state="failed", message=str(error)))


@disk_errors()
def heard(take: Take) -> Take:
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
    if reply["kind"] == "loaded":
        names = ("device", "checkpoint", "precision")
        return take.changed(**{name: reply[name] for name in names if name in reply})
    line = next((line for line in take.lines if line.number == reply.get("line")), None)
    if line is None:
        return _ended(take, reply)
    if reply["kind"] == "line":
        return take.with_line(replace(line, state="finished", file=reply["file"]))
    if reply["kind"] == "line_failed":
        return take.with_line(replace(line, state="failed", error=reply["error"], sentences=()))
    first_s = take.first_sound_s if take.first_sound_s is not None else round(time.monotonic() - asked, 3)
    return take.with_line(replace(line, sentences=(*line.sentences, sentence_of(reply)))).changed(first_sound_s=first_s)


def _ended(take: Take, reply: Message) -> Take:
    if reply["kind"] == "cancelled":
        return take.changed(state="stopped", message="stopped; you can resume it")
    if reply["kind"] == "failed":
        return take.changed(state="failed", message=reply["error"])
    assert reply["kind"] == "done", reply
    failed = [line for line in take.lines if line.state == "failed"]
    if len(failed) == len(take.lines):
        return take.changed(state="failed", message=failed[0].error)
    cut = sum(not sentence.finished for sentence in take.sentences)
    notes = [f"{len(failed)} of {len(take.lines)} lines failed"] if failed else []
    notes += [f"{cut} of {len(take.sentences)} pieces are truncated: the model did not stop by itself"] if cut else []
    unread = dict.fromkeys(one for sentence in take.sentences for one in sentence.unread)
    notes += [f"not read: {named(unread)}"] if unread else []
    said = dict.fromkeys(one for sentence in take.sentences for one in sentence.said)
    notes += [f"pronounced: {', '.join(said)}"] if said else []
    again = sum(len(sentence.attempts) > 1 for sentence in take.sentences)
    notes += (
        [f"{again} of {len(take.sentences)} pieces were spoken again, because the guards found faults"] if again else []
    )
    trimmed = sum(sentence.tail_cut_s > 0 for sentence in take.sentences)
    notes += [f"{trimmed} quiet endings were trimmed"] if trimmed else []
    return take.changed(state="finished", message="; ".join(notes))
