"""Speak generations with the models of a cache, and find the voices that they name; for one thread."""

import gc
import logging
import math
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from utils.errors import UserError, is_out_of_memory
from utils.inference.batch import Utterance
from utils.inference.engine import Synthesizer
from utils.inference.generation import Generation, RequestError, SpeechCounts
from utils.inference.model_cache import ModelCache
from utils.model.voices import Voice, mixed
from utils.options import OUTPUT_RATE
from utils.speech.voice_library import DEFAULT_VOICE, VoiceLibrary, voice_parts

MAX_PAUSES_S = 300.0
"""Silence in one text; it costs nothing to ask for, and memory to give."""

VoiceSpec = str | Path | Sequence[str | Path] | None

log = logging.getLogger(__name__)


class Engine:
    """Speaks what the models of a cache are given, one code of each sentence at a time.

    Args:
        cache: of the models.
        output: folder of all projects, whose library has the voices that marks in a text name.
        end: called with a generation that was spoken, or that cannot be, and the error.
        counts: of what was spoken.
        stall_s: a client that does not read for this long, with a full buffer, is disconnected.
    """

    def __init__(
        self,
        cache: ModelCache,
        output: Path,
        *,
        end: Callable[[Generation, Exception | None], None],
        counts: SpeechCounts,
        stall_s: float = math.inf,
    ) -> None:
        self.cache, self._output, self._end, self._counts, self._stall_s = cache, output, end, counts, stall_s

    def begin(self, generation: Generation, model: Synthesizer, language: str, voice: Voice | None = None) -> None:
        """Have a model speak a generation, step by step.

        Args:
            generation: not begun yet.
            model: loaded.
            language: of a request that names none.
            voice: that of the request, where it is known; otherwise it is looked up.

        Raises:
            UserError: the text cannot be read or asks for too much silence, or a voice is not there.
        """
        request = generation.request
        voice = voice or find_voice(model, request.voice, recordings=generation.references, has_files=False)
        try:
            pieces = model.pieces(request.text, request.language or language, split=request.split)
        except RecursionError:
            raise UserError(what="the SSML is nested too deeply", fix="use p and s within speak") from None
        pauses = sum(piece.pause_s for piece in pieces)
        if pauses > MAX_PAUSES_S:
            what = f"the text asks for {pauses:.0f} s of silence"
            raise UserError(what=what, fix=f"use {MAX_PAUSES_S:.0f} s at most")
        # Also a speech without a requested seed has one: after an error it is spoken again from where it was.
        seed = secrets.randbelow(2**62) if request.seed is None else request.seed
        named = partial(named_voices, model, self._output)
        generation.prepare(model.utterances(pieces, voice=voice, named=named, settings=replace(request, seed=seed)))
        model.generations.append(generation)

    def step(self, model: Synthesizer, *, kept: int = 0) -> bool:
        """One code of each sentence of a model, without those of cancelled and stalled requests.

        Args:
            model: speaks them.
            kept: slots that stay free for first sentences.

        Returns:
            Whether there was anything to do.
        """
        for generation in list(model.generations):
            if generation.stalled_s() > self._stall_s:
                what = f"the client has not read for {self._stall_s:.0f} s"
                self.drop(model, generation, RequestError(what=what, status=408, code="client_stalled"))
            elif generation.is_cancelled:
                self.drop(model, generation)
        _fill(model, kept)
        batch = model.batch
        if batch.is_idle:
            return False
        begun = {utterance: generation for generation in model.generations for utterance in generation.underway}
        self._counts.steps[len(batch.decoder.sentences) + batch.num_waiting] += 1
        try:
            ended = batch.step()
        except Exception as error:  # noqa: BLE001
            self._recover(model, begun, error)
            return True
        for utterance in ended:
            generation = begun[utterance]
            assert utterance.spoken is not None
            self._counts.speech_s += utterance.spoken.wav.size(1) / OUTPUT_RATE
            generation.failures = 0
            if generation.conclude(utterance):
                model.generations.remove(generation)
                self._end(generation, None)
        return True

    def drop(self, model: Synthesizer, generation: Generation, error: Exception | None = None) -> None:
        """Speak no more of it."""
        try:
            for utterance in generation.underway:
                model.batch.drop(utterance)
        finally:
            model.generations.remove(generation)
            self._end(generation, error)

    def _recover(self, model: Synthesizer, begun: dict[Utterance, Generation], error: Exception) -> None:
        """A step failed: all that was being decoded is spoken again, in fewer slots or each request alone."""
        is_shortage = is_out_of_memory(error)
        before = model.batch.decoder.slots
        slots = before // 2 if is_shortage else before
        if is_shortage:
            self._counts.out_of_memory += 1
            log.warning("memory ran out with %d sentences side by side; %d from now on", before, max(1, slots))
        else:
            log.exception("a step with %d sentences failed", len(begun))
        guilty = next(iter(begun.values()), None) if len(begun) == 1 else None
        error.__traceback__ = None  # it holds the tensors that did not fit
        gc.collect()
        if not self.cache.reset(model, max(1, slots)):
            for generation in model.generations:
                self._end(generation, error)
            return
        for utterance, generation in begun.items():
            generation.requeue(utterance)
            if not is_shortage:
                generation.failures += 1
        if guilty is not None and (guilty.failures > 1 or not slots):
            self.drop(model, guilty, error)


def _fill(model: Synthesizer, kept: int) -> None:
    """Fill free slots of a model.

    The first sentence of a request goes before all others, then the one whose listener would hear silence first. After
    an error that one of several requests caused, each is spoken alone, so that only that one fails.
    """
    batch = model.batch
    if suspect := next((one for one in model.generations if one.failures), None):
        if batch.is_idle and suspect.wants_slot:
            batch.add(suspect.next_piece())
        elif batch.is_idle:
            suspect.failures = 0
        return
    free = batch.decoder.slots - len(batch.decoder.sentences) - batch.num_waiting
    while free > 0:
        ready = [one for one in model.generations if one.wants_slot]
        ready.sort(key=lambda one: (one.has_begun, one.lead_s))
        if not ready or (ready[0].has_begun and free <= kept):
            return
        batch.add(ready[0].next_piece())
        free -= 1


def find_voice(
    synthesizer: Synthesizer,
    spec: VoiceSpec,
    *,
    recordings: Mapping[str, Path] = MappingProxyType({}),
    has_files: bool = True,
) -> Voice:
    """The voice that is meant.

    Args:
        synthesizer: whose voice.
        spec: None or "default": the model's own; a voice's name; a recording; several, which count alike; or
            "anna:0.7,ben:0.3", names or recordings with their weights.
        recordings: further voices by name; they go before those that came with the model.
        has_files: whether what is no name may be the path of a recording.

    Raises:
        RequestError: there is none of that name.
        UserError: a recording is not usable, the weights are not above 0, or there are too many.
    """

    def one(name: str) -> Voice:
        if name in recordings:
            if name in synthesizer.speakers():
                log.warning("the recording of voice %r is used, not the model's voice of that name", name)
            return synthesizer.voice(recordings[name])
        if name == DEFAULT_VOICE:
            return synthesizer.default_voice()
        if name in synthesizer.speakers():
            return synthesizer.speakers()[name]
        if has_files and _is_file(name):
            return synthesizer.voice(Path(name))
        known = ", ".join([DEFAULT_VOICE, *recordings, *sorted(synthesizer.speakers())][:8])
        raise RequestError(
            what=f"there is no voice {'or recording ' * has_files}{name!r}",
            where=str(synthesizer.base.folder),
            fix=f"use {'the path of a recording, or ' * has_files}one of: {known}",
            code="voice_not_found",
            param="voice",
        )

    if spec is None or isinstance(spec, Path):
        return synthesizer.voice(spec) if spec else synthesizer.default_voice()
    if isinstance(spec, str):
        is_one = spec in synthesizer.speakers() or (has_files and _is_file(spec))
        return mixed([(one(name), weight) for name, weight in ([(spec, 1.0)] if is_one else voice_parts(spec))])
    if not spec:
        raise UserError(what="the list of recordings is empty", fix="give one at least")
    return mixed([(synthesizer.voice(part) if isinstance(part, Path) else one(part), 1.0) for part in spec])


def named_voices(synthesizer: Synthesizer, output: Path, names: Iterable[str]) -> dict[str, Voice]:
    """Voices that marks in a text name, each one of the library in an output folder, or of the model.

    Raises:
        RequestError: some are not there; all of these are named.
        UserError: see `find_voice`.
    """
    recordings, found, missing = VoiceLibrary(output).recordings(), dict[str, Voice](), list[RequestError]()
    for name in names:
        try:
            found[name] = find_voice(synthesizer, name, recordings=recordings, has_files=False)
        except RequestError as error:
            missing.append(error)
    if missing:
        missing[0].what = "; ".join(error.what for error in missing)
        raise missing[0]
    return found


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # longer than a name may be, or with a zero byte
        return False
