"""The sound of a take while it is spoken, in order, for players that come at any time."""

import asyncio
import threading
import wave
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

BLOCK_BYTES = 2**18
"""Read at once."""


class LiveSound:
    """What was spoken of a take since it was queued: mono PCM, 16 bit, little-endian, at 24 000 Hz.

    Chunks of a sentence are kept until its wav is on disk, so that memory holds no more than the sentences that are
    being spoken. Any thread may call.
    """

    def __init__(self) -> None:
        self._files: list[Path] = []
        self._chunks = bytearray()
        """Of the sentence that is being spoken."""
        self._ended = False
        self._lock = threading.Lock()
        self._listeners: set[Callable[[], None]] = set()

    def add_chunk(self, pcm: bytes) -> None:
        """Append to the sentence that is being spoken."""
        with self._lock:
            self._chunks.extend(pcm)
        self._notify()

    def add_sentence(self, wav: Path) -> None:
        """The next sentence is on disk."""
        with self._lock:
            self._chunks.clear()
            self._files.append(wav)
        self._notify()

    def end(self) -> None:
        """Nothing more will come."""
        self._ended = True
        self._notify()

    async def follow(self) -> AsyncIterator[bytes]:
        """All of it from the beginning, as soon as it is there; ends with the take.

        Raises:
            OSError: a wav is gone.
        """
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def notify() -> None:
            # The loop of a listener that has left may be closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(changed.set)

        sentence = offset = 0
        with self._lock:
            self._listeners.add(notify)
        try:
            while True:
                changed.clear()
                ended = self._ended
                pcm, is_whole = self._read(sentence, offset)
                if pcm:
                    offset += len(pcm)
                    yield pcm
                elif is_whole:
                    sentence, offset = sentence + 1, 0
                elif ended:
                    return
                else:
                    await changed.wait()
        finally:
            with self._lock:
                self._listeners.discard(notify)

    def _read(self, sentence: int, offset: int) -> tuple[bytes, bool]:
        """A block of a sentence, and whether nothing can be added to the sentence."""
        with self._lock:
            if sentence >= len(self._files):
                return bytes(self._chunks[offset : offset + BLOCK_BYTES]), False
            file = self._files[sentence]
        with wave.open(str(file), "rb") as wav:
            wav.setpos(min(offset // 2, wav.getnframes()))
            return wav.readframes(BLOCK_BYTES // 2), True

    def _notify(self) -> None:
        with self._lock:
            listeners = tuple(self._listeners)
        for notify in listeners:
            notify()
