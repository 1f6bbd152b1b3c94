"""When a run's samples are spoken: after each evaluation, as soon as its weights are on disk."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from utils.config import TrainConfig
from utils.dataset.manifest import read_manifest
from utils.model.base import Base
from utils.training.run_log import RunLog
from utils.training.samples import SampleWorker

LAST_SAMPLE_S = 120.0
"""After the last step, the samples of the last evaluation are waited for so long: nothing else is left to do."""
POLL_S = 0.1


class Sampling:
    """Passes finished checkpoints of evaluations to the process that speaks, if there is one.

    Args:
        worker: speaks; None when nothing is to be spoken.
    """

    def __init__(self, worker: SampleWorker | None) -> None:
        self._worker = worker
        self._wanted: int | None = None

    def want(self, step: int) -> None:
        """Have the checkpoint of this step spoken once it is written."""
        self._wanted = step

    def poll(self, saved: Sequence[Path]) -> None:
        """Take note of new checkpoints, and pass on what was spoken."""
        if self._worker is None:
            return
        for folder in saved:
            if self._wanted is not None and folder.name.endswith(f"-{self._wanted:08d}"):
                self._worker.request(self._wanted, folder)
                self._wanted = None
        self._worker.poll()

    def close(self, *, wait: bool, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """End the process that speaks.

        Args:
            wait: let it finish what was asked for, for a time.
            is_stopped: asked meanwhile; ends the waiting.
        """
        if self._worker is None:
            return
        deadline = time.monotonic() + (LAST_SAMPLE_S if wait else 0.0)
        while not self._worker.is_idle and time.monotonic() < deadline and not is_stopped():
            time.sleep(POLL_S)
            self._worker.poll()
        self._worker.close()


def make_sampling(config: TrainConfig, base: Base, folder: Path, run_log: RunLog) -> Sampling:
    """The sampling that the settings ask for.

    Args:
        config: settled settings.
        base: what is trained.
        folder: the run's.
        run_log: told of samples; only the process that writes it has any spoken.
    """
    sentences = _sentences(config, base)
    if run_log.events is None or not sentences:
        return Sampling(None)
    assert config.language
    return Sampling(SampleWorker(folder, sentences, language=config.language, events=run_log.events))


def _sentences(config: TrainConfig, base: Base) -> list[str]:
    """What to speak: the user's own sentences, else one that the voice has a recording of."""
    if config.sample_text is not None:
        return [sentence.strip() for sentence in config.sample_text.split("|") if sentence.strip()]
    assert config.eval_csv
    return [read_manifest(config.eval_csv)[0].text] if base.can_speak else []
