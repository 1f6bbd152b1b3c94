"""Create the audio of many clips in several processes, and score them, each only once."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from utils.audio.decode import load_audio
from utils.callbacks import ProgressFn
from utils.dataset.clips.make_clip import ClipMaker, Draft
from utils.dataset.clips.sound import SoundMaker, SoundTask
from utils.dataset.quality.scorers import Scorers
from utils.dataset.settings import Engine
from utils.dataset.sources.recording import Recording
from utils.dataset.storage.parallel import WORTH_PROCESSES, load_ahead, run_tasks
from utils.dataset.storage.report import ClipReport
from utils.dataset.storage.work import Work
from utils.options import DATASET_RATE


def make_sounds(
    recordings: Sequence[Recording],
    maker: ClipMaker,
    sounds: SoundMaker,
    *,
    workers: int | None,
    engine: Engine = "local",
    progress: ProgressFn | None,
) -> list[ClipReport]:
    """What becomes of each recording, in their order.

    Args:
        recordings: what was given.
        maker: decides about clips.
        sounds: makes their sound.
        workers: processes; None decides by the number of clips.
        engine: where these run.
        progress: called with the phase, clips done, and clips in all.

    Raises:
        OSError: a wav cannot be written.
        UserError: a process died.
    """
    drafts: list[Draft] = []
    missing: dict[str, SoundTask] = {}
    for recording in recordings:
        drafts.append(maker.plan(recording))
        if (task := drafts[-1].task) is not None and maker.sound(drafts[-1]) is None:
            # Copies of a file share one task.
            missing[task.item] = task
            if len(missing) == WORTH_PROCESSES:
                load_ahead(len(missing), workers=workers, engine=engine)
    done = 0

    def count(more: int) -> None:
        nonlocal done
        for _ in range(more):
            done += 1
            if progress is not None:
                progress("preparing clips", done, len(drafts))

    count(len(drafts) - len(missing))
    # Parts of one recording one after the other: what the system has just read is still in memory.
    tasks = sorted(missing.values(), key=lambda task: (task.spans[0].audio, task.spans[0].start_s))
    while tasks:
        made: set[str] = set()
        for _, results in run_tasks(sounds.make, tasks, workers=workers, engine=engine):
            for result in results:
                maker.work.put(result)
                made |= result.keys()
            count(len(results))
        # A disk that filled up in mid-chunk: what is left either fits now or raises at once.
        tasks = [task for task in tasks if task.item not in made]
    return [maker.finish(draft) for draft in drafts]


def score_clips(
    clips: Sequence[ClipReport],
    scorers: Scorers,
    work: Work,
    dataset: Path,
    *,
    workers: int | None,
    engine: Engine = "local",
) -> dict[str, dict[str, Any]]:
    """The scores of clips by wav hash and scorer; a clip without scores is read from disk and scored.

    Raises:
        UserError: a wav cannot be read, or a process died.
    """
    with_hash = {clip.wav_hash: clip for clip in clips if clip.wav_hash}
    pending = [
        (str(wav_of(clip, work, dataset)), digest)
        for digest, clip in with_hash.items()
        if any(work.get(key) is None for key in scorers.keys(digest).values())
    ]
    for _, results in run_tasks(partial(_score_files, scorers), pending, workers=workers, engine=engine):
        for result in results:
            work.put(result)
    return {digest: {name: work.get(key) for name, key in scorers.keys(digest).items()} for digest in with_hash}


def _score_files(scorers: Scorers, tasks: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Scores of wavs on disk, given with their hashes."""
    return [scorers.score({digest: load_audio(Path(path), DATASET_RATE) for path, digest in tasks})]


def wav_of(clip: ClipReport, work: Work, dataset: Path) -> Path:
    """Where a clip's sound lies now: in the dataset, or ready to be moved there."""
    lies = dataset / clip.clip
    return lies if lies.is_file() else work.wav(clip.wav_hash)
