"""Training throughput: audio seconds, tokens, data wait and model FLOPs utilization."""

import logging
from dataclasses import dataclass, field

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
        parts = [
            f"{self.steps} steps, {self.step_seconds:.3f} s a step",
            f"{self.clips_per_second:.2f} clips/s",
            _shown(self.audio_seconds_per_second, "{:.1f} s of audio a second"),
            _shown(self.tokens_per_second, "{:,.0f} tokens/s"),
            _shown(self.data_share, "{:.1%} waiting for data"),
            _shown(self.mfu, "MFU {:.1%}"),
            f"loss {self.loss:.4f}",
        ]
        return ", ".join(filter(None, parts))


@dataclass
class _Totals:
    """Sums over steps; one that a step did not report stays None from then on."""

    sums: dict[str, float | None] = field(default_factory=dict)
    steps: int = 0

    def add(self, **values: float | None) -> None:
        self.steps += 1
        for name, value in values.items():
            known = self.sums.get(name, 0.0)
            self.sums[name] = None if known is None or value is None else known + value

    def summary(self, peak_flops: float | None) -> Summary:
        step, clips, loss = (self.sums.get(name) or 0.0 for name in ("step", "clips", "loss"))
        data, flops = self.sums.get("data"), self.sums.get("flops")
        seconds = step + (data or 0.0)

        def rate(value: float | None, by: float = seconds) -> float | None:
            return None if value is None or by <= 0 else value / by

        return Summary(
            steps=self.steps,
            seconds=seconds,
            step_seconds=step / max(self.steps, 1),
            loss=loss / self.steps if self.steps else float("nan"),
            clips_per_second=rate(clips) or 0.0,
            audio_seconds_per_second=rate(self.sums.get("audio")),
            tokens_per_second=rate(self.sums.get("tokens")),
            data_share=rate(data),
            mfu=rate(flops, seconds * peak_flops) if peak_flops else None,
        )


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
        self._all, self._recent = _Totals(), _Totals()

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
        for totals in (self._all, self._recent):
            totals.add(
                step=step_time,
                clips=batch_size,
                loss=loss,
                audio=audio_seconds,
                tokens=tokens,
                data=data_seconds,
                flops=flops,
            )
        if self.log_interval and self._recent.steps >= self.log_interval:
            say(log, str(self._recent.summary(self.peak_flops)))
            self._recent = _Totals()

    def summary(self) -> Summary:
        """All steps so far, without those of the warm-up."""
        return self._all.summary(self.peak_flops)

    def log_summary(self) -> Summary:
        """Log and return `summary`; where logging is not set up, print it."""
        summary = self.summary()
        say(log, f"in all: {summary}")
        return summary


def _shown(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)
