"""Speak from Python: `Speaker("starter").speak("Hello.").save("hello.wav")`."""

import threading
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from utils.audio.write import write_wav
from utils.bases.download import fetch_base
from utils.errors import UserError
from utils.inference.batch import Spoken, Utterance
from utils.inference.device import speech_device
from utils.inference.model_cache import ModelCache
from utils.inference.speaking import VoiceSpec, find_voice, named_voices
from utils.inference.voice_file import base_named_by
from utils.inference.word_check import word_check
from utils.model.voices import Voice
from utils.options import OUTPUT_RATE, ComputeDevice, Device, SpeechPrecision, SpeechSettings
from utils.performance_utils.memory import memory_errors
from utils.project.advice import DEFAULT_OUTPUT
from utils.project.paths import open_project
from utils.speech.models import named_model
from utils.speech.voice_library import VoiceLibrary


@dataclass(frozen=True, kw_only=True)
class Speech:
    """Speech of one text."""

    wav: NDArray[np.float32]
    """Samples in [-1, 1], mono, [N]."""
    sentences: tuple[Spoken, ...]
    """Its pieces in order, with what the guards saw."""
    rate: int = OUTPUT_RATE

    @property
    def seconds(self) -> float:
        return len(self.wav) / self.rate

    @property
    def unread(self) -> tuple[str, ...]:
        """What of the text is not spoken, because the model cannot read it: pictures, markup, letters of others."""
        return tuple(one for sentence in self.sentences for one in sentence.unread)

    def save(self, path: str | Path) -> None:
        """Write it as a 16-bit WAV.

        Raises:
            UserError: the file cannot be written.
        """
        write_wav(Path(path), torch.from_numpy(self.wav)[None], self.rate)


class Speaker:
    """A model ready to speak, for any number of threads. Each has its own weights: share one, do not make two.

    Args:
        model: a base's name or folder (`starter`), the folder of an exported model, or with `project`: `ready`,
            `run/ID/best`, `run/ID/last`, `voice`.
        adapter: the voice.safetensors of a LoRA voice, which `model` speaks with; see `adapted`.
        project: whose model it is.
        output: the folder that holds all projects.
        device: auto takes a GPU where there is one; mps is Apple's, in fp32, which we have not seen.
        precision: of the weights; auto takes 16 bits, fp32 is the reference, int8 the fastest on a CPU.
        slots: sentences spoken side by side at most.
        transcriber: a Whisper model (size, name or folder) that checks the words of each sentence: one with other words
            is spoken again. Not in `stream`.

    Raises:
        UserError: no such model or recognizer, or the device lacks the precision, or the memory.
    """

    def __init__(
        self,
        model: str | Path = "starter",
        *,
        adapter: str | Path | None = None,
        project: str | None = None,
        output: str | Path = DEFAULT_OUTPUT,
        device: ComputeDevice = "auto",
        precision: SpeechPrecision = "auto",
        slots: int = 8,
        transcriber: str | None = None,
    ) -> None:
        where = speech_device(device, Path(output))
        request = named_model(str(model), open_project(project, Path(output)) if project else None)
        is_voice = request["kind"] == "voice"
        fetch_base(base_named_by(Path(request["source"])) if is_voice else request["source"])
        with memory_errors("loading the model", where):
            self._synthesizer = ModelCache(where, precision=precision, slots=slots).load(**request)
            if adapter is not None:
                self._synthesizer = self._synthesizer.adapted(Path(adapter))
            if transcriber:
                beside: Device = "cpu" if where != "cuda" or device == "mps" else device
                self._synthesizer.word_check = word_check(transcriber, device=beside)
        self._lock, self._output = threading.RLock(), Path(output)
        self.language = self._synthesizer.language
        """What it speaks when nothing else is said; may be empty."""

    def adapted(self, adapter: str | Path) -> "Speaker":
        """Another voice over this speaker's weights, which both share; their calls wait for each other.

        Args:
            adapter: the voice.safetensors of a LoRA voice.

        Raises:
            UserError: it cannot be read, or belongs to another base.
        """
        other = copy(self)
        with self._lock:
            other._synthesizer = self._synthesizer.adapted(Path(adapter))
        other.language = other._synthesizer.language
        return other

    @property
    def precision(self) -> SpeechPrecision:
        """What auto was resolved to."""
        return self._synthesizer.precision

    @property
    def languages(self) -> list[str]:
        """Codes of the languages that it reads."""
        return list(self._synthesizer.tokenizer.languages)

    @property
    def voices(self) -> list[str]:
        """Names of the voices that came with the model."""
        return sorted(self._synthesizer.speakers())

    def voice(self, spec: VoiceSpec = None) -> Voice:
        """A voice, to be made once and spoken with many times.

        Args:
            spec: see `speak`.
        """
        with self._lock:
            return find_voice(self._synthesizer, spec, recordings=VoiceLibrary(self._output).recordings())

    def speak(self, text: str, **settings: Any) -> Speech:
        """Speak a text of any length.

        Args:
            text: what to say; `[pause 0.5]`, `<break time="500ms"/>`, `[voice: anna]` and a small part of SSML are
                understood.
            voice: a recording's path, several of them, a voice's name (of the model, or of the library of `output`), a
                mixture by weight ("anna:0.7,ben:0.3"), or what `voice` made; the model's own when not given.
            language: code of the text; the model's own when not given.
            seed: fixes the speech; None draws another. 1 when not given.
            speed: 2 is twice as fast, at the same pitch.
            split: what is spoken in one go, see `SpeechSettings.split`; sentences when not given.
            guard: repair what goes wrong; see `utils.inference.guards`.
            temperature, top_k, top_p, repetition_penalty: see `SpeechSettings`.

        Raises:
            UserError: a text of which the model can read nothing, a language or a voice that it does not know.
        """
        return self.speak_batch([text], **settings)[0]

    def speak_batch(self, texts: Sequence[str], **settings: Any) -> list[Speech]:
        """Speak several texts side by side; each is what it is alone. The settings are those of `speak`."""
        with self._lock:
            rows = [self._utterances(text, **settings) for text in texts]
            return [
                Speech(wav=torch.cat([one.wav for one in spoken], dim=1)[0].numpy(), sentences=tuple(spoken))
                for spoken in self._synthesizer.batch.speak_texts(rows)
            ]

    def stream(self, text: str, **settings: Any) -> Iterator[NDArray[np.float32]]:
        """Speak a text and give its samples [n] as soon as they are certain; joined, they are those of `speak`.

        Sentences are spoken once: the guards cut quiet tails, and only report the rest. An iterator that is not read
        on makes the speaker wait, and closing it ends the speech. The settings are those of `speak`.
        """
        chunks: list[NDArray[np.float32]] = []
        with self._lock:
            batch, utterances = self._synthesizer.batch, self._utterances(text, **settings)
            try:
                for utterance in utterances:
                    # One after the other: the listener hears them in order, and the first one soonest.
                    utterance.on_chunk = lambda wav: chunks.append(wav[0].numpy())
                    batch.add(utterance)
                    while utterance.spoken is None:
                        batch.step()
                        yield from chunks
                        chunks.clear()
            finally:
                for utterance in utterances:
                    batch.drop(utterance)

    def _utterances(
        self, text: str, *, voice: VoiceSpec | Voice = None, guard: bool = True, **given: Any
    ) -> list[Utterance]:
        defaults: dict[str, Any] = {"seed": 1, "split": "sentences"}
        settings = SpeechSettings(**defaults | given)
        language = settings.language or self.language
        if not language:
            raise UserError(what="this model does not say which language it speaks", fix="name one, such as en")
        pieces = self._synthesizer.pieces(text, language, split=settings.split)
        who = voice if isinstance(voice, Voice) else self.voice(voice)
        named = partial(named_voices, self._synthesizer, self._output)
        return self._synthesizer.utterances(pieces, voice=who, named=named, settings=settings, guard=guard)
