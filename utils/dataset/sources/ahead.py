"""Find pauses and words of long recordings in several processes, before the recordings are read one by one."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path

from utils.dataset.formats.cues import Cue
from utils.dataset.segmentation.cut import Cut
from utils.dataset.segmentation.long_audio import LongAudio
from utils.dataset.settings import Engine
from utils.dataset.sources.read import read_sources
from utils.dataset.sources.recording import ReadOptions
from utils.dataset.storage.parallel import run_tasks
from utils.errors import UserError

log = logging.getLogger(__name__)


def read_ahead(paths: Sequence[Path], reading: ReadOptions, *, workers: int | None, engine: Engine) -> None:
    """Cache what `read_sources` is slow to find, one recording a task; faults are left to `read_sources`.

    Args:
        paths: what will be read.
        reading: how; its cache must be in a folder that all processes see.
        workers: see `run_tasks`.
        engine: see `run_tasks`.

    Raises:
        ProcessDied: a process is gone; results of other recordings are kept.
        OSError: the cache cannot be written.
    """
    long = replace(reading.long_audio, kept=reading.long_audio.kept.absolute())
    asked = _Asked(**{one.name: getattr(long, one.name) for one in fields(long)})
    with suppress(UserError):
        read_sources(paths, replace(reading, long_audio=asked))
    tasks = sorted(asked.recordings.items())
    for done, _ in run_tasks(partial(_find, long), tasks, workers=workers, engine=engine, chunk_size=1):
        log.info("read ahead: %s", done[0][0].name)


@dataclass(frozen=True, kw_only=True)
class _Asked(LongAudio):
    """Notes which recordings would be taken apart."""

    recordings: dict[Path, bool] = field(default_factory=dict)
    """Whether its words are needed, too, by recording."""

    def by_cues(self, audio: Path, cues: Sequence[Cue]) -> list[Cut]:
        self.recordings.setdefault(audio, False)
        return []

    def by_words(self, audio: Path, transcript: str | None = None) -> list[Cut]:
        self.recordings[audio] = True
        return []


def _find(long_audio: LongAudio, tasks: Sequence[tuple[Path, bool]]) -> list[None]:
    """Fill the cache."""
    for audio, words in tasks:
        with suppress(UserError):
            long_audio.by_words(audio) if words else long_audio.by_cues(audio, [])
    return [None] * len(tasks)
