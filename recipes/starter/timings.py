"""When each word of a sentence begins, as espeak-ng itself reports it: the target of the guided attention loss.

The program writes sound only; its library says while it speaks at which sample each word begins (espeak-ng,
speak_lib.h: espeak_SetSynthCallback and the event espeakEVENT_WORD).
"""

import ctypes
from itertools import accumulate
from typing import Any

from recipes.starter.voices import EspeakVoice
from utils.errors import UserError
from utils.options import DATASET_RATE

LIBRARY = "libespeak-ng.so.1"
SYNCHRONOUS, CHUNK_MS = 2, 200
RATE, PITCH = 1, 3
UTF8 = 1
LAST, WORD = 0, 1
"""Kinds of events: the end of a list, and a word."""


class _Voice(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("languages", ctypes.c_char_p),
        ("identifier", ctypes.c_char_p),
        ("kinds", ctypes.c_ubyte * 4),
        ("score", ctypes.c_int),
        ("spare", ctypes.c_void_p),
    )


class _Event(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int),
        ("message", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_ms", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    )


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))


class Timer:
    """Speaks sentences without playing them, and notes when their words begin.

    Raises:
        UserError: the library is not installed.
    """

    def __init__(self) -> None:
        try:
            self._library: Any = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise UserError(what=f"{LIBRARY} is missing", fix="apt-get install espeak-ng") from error
        rate = self._library.espeak_Initialize(SYNCHRONOUS, CHUNK_MS, None, 0)
        assert rate == DATASET_RATE, "what the program writes as well"
        # The library keeps the pointer: it must live as long.
        self._callback = _CALLBACK(self._note)
        self._library.espeak_SetSynthCallback(self._callback)
        self._voice: EspeakVoice | None = None
        self._words: list[tuple[int, int]] = []
        self._num_samples = 0

    def __call__(self, text: str, voice: EspeakVoice) -> tuple[list[float], float]:
        """Second at which each word of `text` begins, words being what spaces part, and how long it all takes."""
        self._choose(voice)
        self._words, self._num_samples = [], 0
        data = text.encode() + b"\0"
        self._library.espeak_Synth(data, ctypes.c_size_t(len(data)), 0, 1, 0, UTF8, None, None)
        return _begins(text, self._words), self._num_samples / DATASET_RATE

    def _choose(self, voice: EspeakVoice) -> None:
        if voice == self._voice:
            return
        name = voice.voice.encode()
        if self._library.espeak_SetVoiceByName(name):
            # As the program does with names that are languages.
            wanted = _Voice(languages=name)
            assert not self._library.espeak_SetVoiceByProperties(ctypes.byref(wanted)), voice
        self._library.espeak_SetParameter(RATE, voice.speed, 0)
        self._library.espeak_SetParameter(PITCH, voice.pitch, 0)
        self._voice = voice

    def _note(self, sound: Any, count: int, events: Any) -> int:
        self._num_samples += count
        number = 0
        while events[number].kind != LAST:
            # Positions count from 1; 0 stands at the end of a clause, where no word begins.
            if events[number].kind == WORD and events[number].text_position > 0:
                self._words.append((events[number].text_position - 1, events[number].sample))
            number += 1
        return 0


def _begins(text: str, events: list[tuple[int, int]]) -> list[float]:
    """Of (character, sample) pairs, the second at which each word begins; a word without one begins with the next."""
    begins: list[float] = []
    ends = accumulate(len(word) + 1 for word in text.split(" "))
    left, last = sorted(events), 0
    for end in ends:
        samples = [sample for place, sample in left if place < end]
        last = samples[0] if samples else left[0][1] if left else last
        left = left[len(samples) :]
        begins.append(last / DATASET_RATE)
    return begins
