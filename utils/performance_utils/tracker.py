"""Training throughput (audio seconds, tokens, data wait, model FLOPs utilization), and the time that work takes."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from utils.console import say

log = logging.getLogger(__name__)


LINE = {
    "steps": "{:.0f} steps",
    "step_s": "{:.3f} s a step",
    "clips_per_second": "{:.2f} clips/s",
    "audio_per_second": "{:.1f} s of audio a second",
    "tokens_per_second": "{:,.0f} tokens/s",
    "data_share": "{:.1%} waiting for data",
    "mfu": "{:.1%} of the device's peak arithmetic",
    "loss": "loss {:.4f}",
}
"""Figures of a summary, in their order in a line of the log.

step_s and loss are means over the steps; rates are by the seconds of steps and waiting for data together. mfu is the
model FLOPs utilization: the share of the device's peak that useful arithmetic took (PaLM, appendix B)."""
Sums = dict[str, float | None]
"""Of all steps by name, and their number as `steps`; None for what a step did not report."""


class PerformanceTracker:
    """Throughput of training, logged every `log_interval` steps and in all; where logging is not set up, printed.

    Args:
        log_interval: steps between two lines in the log; 0 logs none.
        peak_flops: arithmetic the device can do in a second, as measured with a large matrix product; without it there
            is no MFU.
    """

    def __init__(self, log_interval: int = 50, *, peak_flops: float | None = None) -> None:
        self.log_interval = log_interval
        self.peak_flops = peak_flops
        self._all: Sums = {}
        self._recent: Sums = {}

    def update(
        self,
        step_time: float,
        batch_size: int,
        loss: float,
        *,
        audio_seconds: float | None = None,
        tokens: int | None = None,
        data_seconds: float | None = None,
        flops: float | None = None,
    ) -> None:
        """Count one optimizer step.

        Args:
            step_time: seconds the step took, waiting for its data not included.
            batch_size: clips trained on.
            loss: of the step, in nats.
            audio_seconds: speech trained on.
            tokens: text tokens and audio codes trained on.
            data_seconds: seconds spent waiting for data before the step.
            flops: useful arithmetic of the step.
        """
        values = {"steps": 1, "step": step_time, "clips": batch_size, "loss": loss, "data": data_seconds}
        for name, value in {**values, "audio": audio_seconds, "tokens": tokens, "flops": flops}.items():
            for sums in (self._all, self._recent):
                known = sums.get(name, 0.0)
                sums[name] = None if known is None or value is None else known + value
        if self.log_interval and (self._recent["steps"] or 0) >= self.log_interval:
            say(log, _line(self._summary(self._recent)))
            self._recent = {}

    def summary(self) -> dict[str, float]:
        """All steps so far; of `LINE`, the figures that each of them reported, none before the first."""
        return self._summary(self._all)

    def log_summary(self) -> dict[str, float]:
        """Log and return `summary`; where logging is not set up, print it."""
        found = self.summary()
        say(log, f"in all: {_line(found)}")
        return found

    def _summary(self, sums: Sums) -> dict[str, float]:
        known = {name: total for name, total in sums.items() if total is not None}
        if not known:
            return {}
        steps, seconds = known["steps"], max(known["step"] + known.get("data", 0.0), 1e-9)
        found = {"steps": steps, "step_s": known["step"] / steps, "loss": known["loss"] / steps}
        found |= {f"{name}_per_second": known[name] / seconds for name in ("clips", "audio", "tokens") if name in known}
        if "data" in known:
            found["data_share"] = known["data"] / seconds
        if "flops" in known and self.peak_flops:
            found["mfu"] = known["flops"] / seconds / self.peak_flops
        return found


def _line(summary: dict[str, float]) -> str:
    return ", ".join(form.format(summary[name]) for name, form in LINE.items() if name in summary)


class PhaseClock:
    """Adds up the seconds of phases of a training step that follow one another.

    The training process's own: data (waiting for clips), logging (writing events) and checkpoint (handing one to who
    writes it). The device's: transfer (batches to it), and what it computes: forward, backward and optimizer.

    On a GPU each boundary is an event in its queue, read once the device has passed it: timing waits for nothing, and
    a phase is as long as the device computes, not as long as launching it takes. Elsewhere it is the clock's time.

    Args:
        device: where the phases take place.
    """

    def __init__(self, device: torch.device) -> None:
        self._is_gpu = device.type == "cuda"
        self._marks: list[tuple[str, float | torch.cuda.Event]] = []
        """Phases that were begun, in order; the name is empty where nothing is counted."""

    def begin(self, phase: str) -> None:
        """Begin a phase, which ends the one before; an empty name only ends it."""
        if not self._is_gpu:
            self._marks.append((phase, time.perf_counter()))
            return
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._marks.append((phase, event))

    def take(self) -> dict[str, float]:
        """Seconds of each phase that has ended since the last call; what the device has not passed comes next time."""
        seconds: dict[str, float] = {}
        while len(self._marks) > 1:
            (phase, begun), (_, ended) = self._marks[:2]
            if isinstance(begun, torch.cuda.Event):
                assert isinstance(ended, torch.cuda.Event)
                if not ended.query():
                    break
                took = begun.elapsed_time(ended) / 1000
            else:
                assert not isinstance(ended, torch.cuda.Event)
                took = ended - begun
            if phase:
                seconds[phase] = seconds.get(phase, 0.0) + took
            self._marks.pop(0)
        return seconds


@contextmanager
def timing(name: str, *, device: str | torch.device | None = None, level: int = logging.INFO) -> Iterator[None]:
    """Log how long the block takes, also one that an error ends; where logging is not set up, print it.

    Args:
        name: what is being done, for the log.
        device: a CUDA device whose work is waited for; without it only the launching of its work is timed.
        level: of the log line.
    """
    on_gpu = device is not None and torch.device(device).type == "cuda"
    if on_gpu:
        torch.cuda.synchronize(device)
    started = time.perf_counter()
    try:
        yield
        if on_gpu:
            torch.cuda.synchronize(device)
    finally:
        say(log, f"{name}: {time.perf_counter() - started:.3f} s", level=level)


def timed(name: Any = "", **options: Any) -> Callable[..., Any]:
    """Decorator, with or without arguments: log how long each call takes.

    Args:
        name: what is being done; the function's name when not given.
        options: as of `timing`.
    """
    if callable(name):
        return timing(name.__qualname__)(name)
    return lambda function: timing(name or function.__qualname__, **options)(function)
