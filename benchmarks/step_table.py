"""The table of training steps: what each cell reached by the clock and by processor time, beside stock's cells."""

from dataclasses import dataclass, field
from typing import Any

from benchmarks.limits import UPDATE_BYTES, Limits, num_parameters
from utils.performance_utils import useful_flops
from utils.switches import missed
from utils.training.preflight import Measurement

NAME_WIDTH = 32


@dataclass(kw_only=True)
class Result:
    """All rounds of one cell."""

    name: str
    changes: dict[str, Any] = field(default_factory=dict)
    """Settings that are not the default; none for stock's cells."""
    rounds: list[Measurement] = field(default_factory=list)

    @property
    def good(self) -> list[Measurement]:
        """Rounds without a fault."""
        return [one for one in self.rounds if not one.fault]

    @property
    def clock_s(self) -> float:
        """Seconds of all steps by the clock, of the faster round: neighbors only ever make one slower."""
        return min(one.seconds for one in self.good)

    @property
    def processor_s(self) -> float:
        """Processor seconds of all steps over the threads they are spread on, of the round that took least."""
        return min(one.cpu_s / one.threads for one in self.good)

    @property
    def trains_all(self) -> bool:
        """Whether all weights learn: only then is the arithmetic of a step that of the formula."""
        return not (self.changes.get("lora_rank") or self.changes.get("freeze_conditioning"))

    @property
    def updates_plainly(self) -> bool:
        """Whether the update is float32 AdamW's on the device, whose traffic the limit counts."""
        return self.trains_all and not self.changes.get("eight_bit_optimizer")


@dataclass(frozen=True, kw_only=True)
class Table:
    """What is needed to write the table.

    Args:
        device: cpu or cuda.
        size: layers, width and heads of the model.
        limits: of the device; None while nothing is measured.
        references: what the ratios are to, name of the cell by heading.
        results: of each cell, in the order of the rows.
    """

    device: str
    size: tuple[int, int, int]
    limits: Limits | None
    references: dict[str, str]
    results: list[Result]

    @property
    def clocks(self) -> dict[str, str]:
        """How time is taken: heading -> property of a result. A GPU works while the processor waits: the clock only."""
        return {"clock": "clock_s"} | ({"CPU time": "processor_s"} if self.device == "cpu" else {})

    def headings(self) -> list[str]:
        """Of all columns but the name's."""
        speeds = [head for clock in self.clocks for head in (clock, *(f"to {name}" for name in self.references))]
        memory = ["peak GB"] if self.device == "cpu" else ["alloc GB", "resvd GB"]
        return [*speeds, *memory, "useful", "MFU", "limit"]

    def row(self, result: Result) -> list[str]:
        """Numbers of one cell, by heading; blank where there is none, a fault alone where it could not be measured."""
        if not result.rounds:
            return ["not measured yet", *[""] * (len(self.headings()) - 1)]
        if not result.good:
            return [result.rounds[-1].fault]
        speeds = [text for clock in self.clocks.values() for text in self._speeds(result, clock)]
        peaks = ["peak_bytes"] if self.device == "cpu" else ["peak_bytes", "reserved_bytes"]
        memory = [f"{max(getattr(one, peak) for one in result.good) / 1e9:.2f}" for peak in peaks]
        return [*speeds, *memory, f"{result.good[0].useful_share:.0%}", *self._shares(result)]

    def _speeds(self, result: Result, clock: str) -> list[str]:
        """Speech trained on in a second, and its ratio to each reference."""
        rate = _rate(result, clock)
        by_name = {other.name: other for other in self.results}
        references = [by_name.get(name) for name in self.references.values()]
        return [f"{rate:.2f}", *(f"{rate / _rate(one, clock):.2f}" if one and one.good else "" for one in references)]

    def _shares(self, result: Result) -> list[str]:
        """MFU and share of the limit, by the clock; blank for cells that their formulas do not describe."""
        assert self.limits is not None
        seen, (layers, width, _) = result.good[0], self.size
        arithmetic = useful_flops(seen.text_tokens, seen.codes, layers=layers, width=width) / self.limits.flops
        update = seen.steps * UPDATE_BYTES * num_parameters(*self.size) / self.limits.bandwidth
        return [
            f"{arithmetic / result.clock_s:.0%}" if result.trains_all else "",
            f"{(arithmetic + update) / result.clock_s:.0%}" if result.updates_plainly else "",
        ]

    def text(self) -> str:
        """For a terminal, with its legend."""
        headings = self.headings()
        widths = [max(9, len(heading) + 2) for heading in headings]
        lines = [" " * NAME_WIDTH + "".join(f"{head:>{width}}" for head, width in zip(headings, widths, strict=True))]
        for result in self.results:
            row = self.row(result)
            numbers = [f"{one:>{width}}" for one, width in zip(row, widths, strict=False)]
            lines.append(f"{result.name:{NAME_WIDTH}}" + ("".join(numbers) if len(row) > 1 else row[0]) + _off(result))
        return "\n".join([*lines, *self.legend()])

    def markdown(self) -> str:
        """For docs/performance.md."""
        headings = self.headings()
        lines = ["| |" + "".join(f" {head} |" for head in headings), "|" + " --- |" * (len(headings) + 1)]
        for result in self.results:
            row = self.row(result)
            cells = [*row, *[""] * (len(headings) - len(row))]
            lines.append(f"| {result.name}{_off(result)} |" + "".join(f" {cell} |" if cell else " |" for cell in cells))
        return "\n".join(lines)

    def legend(self) -> list[str]:
        """What the numbers are, and how far apart the rounds were."""
        lines = ["clock: seconds of speech trained on in a second, of each cell's faster round"]
        if self.device == "cpu":
            lines.append(
                "CPU time: the same by processor time over threads, of the round that took least: idle is free"
            )
        lines.append("to ...: ratio to that cell of stock's, by the same time; peaks are the highest of all rounds")
        lines.append("MFU, limit: by the clock; blank where not all weights learn, or the update moves other bytes")
        return lines + [line for heading, clock in self.clocks.items() if (line := self._apart(heading, clock))]

    def _apart(self, heading: str, clock: str) -> str:
        """How much longer the slower round of a cell took, from the least to the most."""
        seconds = [
            [getattr(Result(name="", rounds=[one]), clock) for one in result.good]
            for result in self.results
            if len(result.good) > 1
        ]
        gaps = [max(rounds) / min(rounds) - 1 for rounds in seconds]
        return f"slower rounds took {min(gaps):.0%} to {max(gaps):.0%} longer by {heading}" if gaps else ""


def _rate(result: Result, clock: str) -> float:
    """Seconds of speech trained on in a second."""
    return float(result.good[0].audio_s / getattr(result, clock))


def _off(result: Result) -> str:
    """Names of the switches that were asked for and did not take effect."""
    switches = result.good[0].switches if result.good else {}
    off = missed(switches)
    return f"   off: {', '.join(off)}" if off else ""
