"""Training throughput: audio seconds, tokens, data wait and model FLOPs utilization."""

import logging
from dataclasses import dataclass

from utils.console import say

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Throughput over some steps; a rate is None when its steps did not all say what it counts."""

    steps: int
    seconds: float
    """Steps and waiting for data together."""
    step_seconds: float
    """Mean of the steps alone."""
    loss: float
    """Mean over the steps."""
    clips_per_second: float
    audio_seconds_per_second: float | None = None
    tokens_per_second: float | None = None
    data_share: float | None = None
    """Share of the time spent waiting for data."""
    mfu: float | None = None
    """Model FLOPs utilization: the share of the device's peak that useful arithmetic took (PaLM, appendix B)."""

    def __str__(self) -> str:
        parts = [f"{self.steps} steps, {self.step_seconds:.3f} s a step", f"{self.clips_per_second:.2f} clips/s"]
        optional = {
            "{:.1f} s of audio a second": self.audio_seconds_per_second,
            "{:,.0f} tokens/s": self.tokens_per_second,
            "{:.1%} waiting for data": self.data_share,
            "MFU {:.1%}": self.mfu,
        }
        parts += [form.format(value) for form, value in optional.items() if value is not None]
        return ", ".join([*parts, f"loss {self.loss:.4f}"])


Sums = dict[str, float | None]
"""Of all steps by name, and their number as `steps`; None for what a step did not report."""


class PerformanceTracker:
    """Throughput of training, logged every so many steps and in all; where logging is not set up, printed.

    Args:
        log_interval: steps between two lines in the log; 0 logs none.
        peak_flops: arithmetic the device can do in a second, as measured with a large matrix product; without it there
            is no MFU.
        warmup_steps: first steps that are not counted: they compile, tune and fill caches.
    """

    def __init__(self, log_interval: int = 50, *, peak_flops: float | None = None, warmup_steps: int = 0) -> None:
        self.log_interval = log_interval
        self.peak_flops = peak_flops
        self._warmup_left = warmup_steps
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
        if self._warmup_left:
            self._warmup_left -= 1
            return
        values = {"steps": 1, "step": step_time, "clips": batch_size, "loss": loss, "data": data_seconds}
        for name, value in {**values, "audio": audio_seconds, "tokens": tokens, "flops": flops}.items():
            for sums in (self._all, self._recent):
                known = sums.get(name, 0.0)
                sums[name] = None if known is None or value is None else known + value
        if self.log_interval and (self._recent["steps"] or 0) >= self.log_interval:
            say(log, str(self._summary(self._recent)))
            self._recent = {}

    def summary(self) -> Summary:
        """All steps so far, without those of the warm-up."""
        return self._summary(self._all)

    def _summary(self, sums: Sums) -> Summary:
        steps, step, clips, loss = (sums.get(name) or 0.0 for name in ("steps", "step", "clips", "loss"))
        seconds = step + (sums.get("data") or 0.0)

        def rate(name: str, by: float = seconds) -> float | None:
            value = sums.get(name)
            return None if value is None or by <= 0 else value / by

        return Summary(
            steps=int(steps),
            seconds=seconds,
            step_seconds=step / max(steps, 1),
            loss=loss / steps if steps else float("nan"),
            clips_per_second=clips / seconds if seconds else 0.0,
            audio_seconds_per_second=rate("audio"),
            tokens_per_second=rate("tokens"),
            data_share=rate("data"),
            mfu=rate("flops", seconds * self.peak_flops) if self.peak_flops else None,
        )

    def log_summary(self) -> Summary:
        """Log and return `summary`; where logging is not set up, print it."""
        summary = self.summary()
        say(log, f"in all: {summary}")
        return summary
