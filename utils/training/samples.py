"""Audio samples during training: another process synthesizes them, and training never waits.

The process is the one that speaks for the page (`utils.inference.worker`). The run's log has one writer, the trainer:
the worker writes wavs and replies, and `SampleWorker.poll` passes the replies on as `sample` events.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil

from utils.bases.base import Base
from utils.config import TrainConfig
from utils.dataset.storage.manifest import iter_manifest
from utils.jobs.json_lines import JsonChild
from utils.jobs.measuring import speaking_environment
from utils.options import SpeechSettings
from utils.runs.layout import SAMPLES_FOLDER, sample_file
from utils.runs.log import EventWriter

SPEAKING_FOLDER = ".speaking"
"""In that one: what is being spoken."""
WORKER_LOG = "worker.log"
MAX_FAILURES = 3
"""After this many failures in a row nothing more is spoken in this run."""
LAST_SAMPLE_S = 120.0
"""After the last step, the samples of the last evaluation are waited for this long: nothing else is left to do."""
POLL_S = 0.05
NICE = 10
SEED = 1
"""The same for every sample, so that they differ by their weights only."""


class SampleWorker:
    """The trainer's side: requests go out, finished samples come back as events.

    At most one request is being spoken and one is waiting; a newer one takes the place of the waiting one, with a
    warning event. No method but `close` waits for anything, and none raises because speaking failed.

    Args:
        run: the run's folder, furnished: its base and reference.wav are what speaks.
        sentences: texts to speak each time; none when nothing is to be spoken.
        language: their language code.
        events: the run's log.
        command: program and arguments of the worker; given for tests.
    """

    def __init__(
        self,
        run: Path,
        sentences: Sequence[str],
        *,
        language: str,
        events: EventWriter,
        command: Sequence[str] | None = None,
    ) -> None:
        self._folder = run / SAMPLES_FOLDER
        if sentences:
            self._folder.mkdir(parents=True, exist_ok=True)
        self._command = command or [sys.executable, "-m", "utils.inference.worker", "--device", "cpu"]
        self._sentences, self._settings = list(sentences), vars(SpeechSettings(language=language, seed=SEED))
        self._events, self._warn = events, partial(events.warn, source="samples")
        self._process: JsonChild | None = None
        # Step and checkpoint of each.
        self._speaking: tuple[int, Path] | None = None
        self._waiting: tuple[int, Path] | None = None
        self._audio_s = self._took_s = 0.0
        """Of the sentence that is being spoken."""
        self._num_failures = 0
        self.wanted: int | None = None
        """Step whose checkpoint is spoken once it is written."""

    def request_base(self, base: Path) -> None:
        """Have the sentences spoken with the weights of the base in this folder, unless they lie there already."""
        if not (self._folder.parent / sample_file(0, 1)).is_file():
            self.request(0, base)

    def request(self, step: int, checkpoint: Path) -> None:
        """Have the sentences spoken with a checkpoint's weights, as soon as the worker is free.

        Args:
            step: optimizer steps done, for the names of the wavs; 0 for the base.
            checkpoint: folder of a complete checkpoint, or of the base.
        """
        if self._is_off:
            return
        if self._waiting is not None:
            self._warn(f"no sample of step {self._waiting[0]}: the one before is still being spoken")
        self._waiting = step, checkpoint
        self.poll()

    def poll(self, saved: Sequence[Path] = ()) -> None:
        """Pass on what was spoken since the last call, and give the worker what waits; quick enough for every step.

        Args:
            saved: checkpoints written since the last call.
        """
        for folder in saved:
            if self.wanted is not None and folder.name.endswith(f"-{self.wanted:08d}"):
                step, self.wanted = self.wanted, None
                self.request(step, folder)
        self._take_answers()
        if self._process is not None and (status := self._process.returncode) is not None:
            self._take_answers()
            self._end_process()
            if self._speaking is not None:
                self._fail(f"no sample of step {self._speaking[0]}: the process that speaks ended (status {status})")
        if self._speaking is None and self._waiting is not None and not self._is_off:
            self._send(*self._waiting)

    def close(self, wait_s: float = 0.0, *, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """End the worker.

        Args:
            wait_s: let it finish what was asked for, up to this time.
            is_stopped: asked meanwhile; ends the waiting.
        """
        self.poll()
        deadline = time.monotonic() + wait_s
        while (unsaid := self._speaking or self._waiting) and time.monotonic() < deadline and not is_stopped():
            time.sleep(POLL_S)
            self.poll()
        if unsaid:
            self._warn(f"no sample of step {unsaid[0]}: training ended before it was spoken")
        self._speaking = self._waiting = None
        self._end_process()

    @property
    def _is_off(self) -> bool:
        return not self._sentences or self._num_failures >= MAX_FAILURES

    def _take_answers(self) -> None:
        for answer in self._process.new() if self._process else ():
            step, checkpoint = self._speaking or (None, self._folder)
            kind = answer["kind"] if step is not None and answer.get("id") == step else ""
            if kind == "sentence":
                self._audio_s += answer["audio_s"]
                self._took_s += answer["took_s"]
            elif kind == "line":
                number = answer["line"]
                path = sample_file(step or 0, number)
                try:
                    (self._folder / SPEAKING_FOLDER / answer["file"]).replace(self._folder / path.name)
                except OSError as error:
                    self._fail(f"no sample of step {step}: {error}")
                    continue
                self._events.write(
                    "sample",
                    step=step,
                    sentence=number,
                    text=self._sentences[number - 1],
                    path=path.as_posix(),
                    audio_s=self._audio_s,
                    took_s=self._took_s,
                )
                self._audio_s = self._took_s = 0.0
            elif kind == "done":
                self._speaking, self._num_failures = None, 0
            elif kind in ("failed", "line_failed") and checkpoint.is_dir():
                self._fail(f"no sample of step {step}: {answer['error']}")
            elif kind == "failed":
                self._speaking = None
                self._warn(f"no sample of step {step}: its checkpoint was replaced before it was read")

    def _fail(self, message: str) -> None:
        self._speaking = None
        self._num_failures += 1
        if self._is_off:
            self._waiting = None
            message += f"; after {MAX_FAILURES} failures no more samples are spoken in this run"
        self._warn(message)

    def _send(self, step: int, checkpoint: Path) -> None:
        self._waiting, self._speaking = None, (step, checkpoint)
        self._audio_s = self._took_s = 0.0
        folder = self._folder.absolute() / SPEAKING_FOLDER
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            if self._process is None:
                # One thread and no GPU: training has the others.
                threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
                environment = speaking_environment(**threads, CUDA_VISIBLE_DEVICES="")
                with (self._folder / WORKER_LOG).open("ab") as errors:
                    self._process = JsonChild(self._command, env=environment, stderr=errors)
                with suppress(psutil.Error):
                    # The second name exists on Windows only.
                    nice = NICE if os.name == "posix" else getattr(psutil, "BELOW_NORMAL_PRIORITY_CLASS")  # noqa: B009
                    psutil.Process(self._process.pid).nice(nice)
            # Only one request is in progress, so that the pipe is empty and takes it at once.
            self._process.send(
                {
                    "do": "speak",
                    "id": step,
                    "model": {
                        "kind": "run",
                        "source": folder.parents[1],
                        "checkpoint": checkpoint.name[-8:] if step else "",
                    },
                    "folder": folder,
                    "settings": self._settings,
                    "lines": [{"number": n, "text": text} for n, text in enumerate(self._sentences, start=1)],
                }
            )
        except OSError as error:
            self._end_process()
            self._fail(f"no sample of step {step}: {error}")

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()
            shutil.rmtree(self._folder / SPEAKING_FOLDER, ignore_errors=True)


def make_sampling(config: TrainConfig, base: Base, folder: Path, run_log: EventWriter) -> SampleWorker:
    """The sampling that the settings ask for.

    Args:
        config: settled settings.
        base: what is trained.
        folder: the run's.
        run_log: receives samples; only the process that writes it has any spoken.
    """
    assert config.language and config.eval_csv
    sentences = list[str]()
    if config.sample_text is not None:
        sentences = list(filter(None, map(str.strip, config.sample_text.split("|"))))
    elif base.can_speak:
        # One that the voice has a recording of.
        sentences = [next(iter_manifest(config.eval_csv)).text]
    spoken = sentences if run_log.path is not None else []
    return SampleWorker(folder, spoken, language=config.language, events=run_log)
