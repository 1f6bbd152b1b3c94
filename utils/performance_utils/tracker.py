"""Training throughput: audio seconds, tokens, data wait and model FLOPs utilization."""

import logging

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
    """Throughput of training, logged every so many steps and in all; where logging is not set up, printed.

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
