"""Measure the switches for a training command: each row is printed at once, and counts after an interruption."""

import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from utils import jobs
from utils.callbacks import ProgressFn
from utils.config import TrainConfig
from utils.errors import UserError
from utils.hardware.resources import GIB
from utils.project.advice import train_command
from utils.project.paths import Project
from utils.switches import MEASURED, missed

if TYPE_CHECKING:
    from utils.training.preflight import PreflightRow

WIDTH = 66
"""Of the names of combinations; the longest one of a CPU and a batch fit."""
TERMINATED = 128 + signal.SIGTERM
"""Exit status after SIGTERM, as shells have it."""
CHOSEN = ("batch_size", "grad_accumulation", *(switch.field for switch in MEASURED))
"""Settings that preflight chooses."""


def head() -> str:
    """What stands above the lines."""
    return f"{'':{WIDTH}}{'s/step':>8}{'audio-s/s':>11}{'peak GB':>9}{'hours':>8}"


def line(row: "PreflightRow") -> str:
    """A measurement."""
    seen = row.measured
    if seen.fault:
        return f"{row.name:{WIDTH}}{seen.fault}"
    off = ", ".join(missed(seen.switches))
    numbers = f"{seen.step_s:8.2f}{seen.audio_per_second:11.2f}{seen.peak_bytes / GIB:9.2f}{row.hours or 0:8.2f}"
    return f"{row.name:{WIDTH}}{numbers}" + (f"   off: {off}" if off else "")


def measure_switches(config: TrainConfig, report: ProgressFn, given: Collection[str] | None = None) -> "PreflightRow":
    """Measure each combination of switches with real steps, and print the table row by row.

    What was measured before an interruption is recommended from, too; the interruption is passed on.

    Args:
        config: the settings; each combination changes some of them.
        report: called with (what is being done, done, in all).
        given: names of the settings that the user chose, which stay; those that are not the default when unknown.

    Returns:
        The recommended combination with its batch size.

    Raises:
        UserError: no combination could be measured.
    """
    from utils.performance_utils.device import settle_device
    from utils.training.data.load import load_data
    from utils.training.plan import plan_run
    from utils.training.preflight import is_better, larger_batches, preflight, recommended
    from utils.training.switches.optim import make_accelerator

    plan = plan_run(replace(config, resume=None))
    project, settled = plan.project, plan.config
    with jobs.hold("preflight", device=settle_device(config.device)[0], output=project.output, folder=project.folder):
        accelerator = make_accelerator(settled.device)
        audio_s = load_data(settled, project, plan.base, accelerator, report, kept=plan.kept).epoch_s
        if given is None:
            given = [field.name for field in fields(TrainConfig) if getattr(config, field.name) != field.default]
        fixed = {name: getattr(config, name) for name in CHOSEN if name in given}
        rows, left, started = list["PreflightRow"](), 0, time.monotonic()

        def printed(measured: Iterable[tuple["PreflightRow", int]]) -> Iterator["PreflightRow"]:
            nonlocal left
            for row, left in measured:
                if not rows:
                    print(head(), flush=True)
                rows.append(row)
                report("measuring", len(rows), len(rows) + left)
                seconds = (time.monotonic() - started) / len(rows) * left
                time_left = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{max(1.0, seconds):.0f} s"
                # At once, also into a file or a pipe.
                print(line(row) + (f"   about {time_left} left for {left} more" if left else ""), flush=True)
                yield row

        # The plainest combination comes first, and is the slowest.
        print(
            "measuring each combination of switches with real steps; the first takes the longest",
            file=sys.stderr,
            flush=True,
        )
        try:
            best = recommended(list(printed(preflight(settled, audio_s=audio_s, fixed=fixed))))
            if best is None:
                raise UserError(
                    what=f"no combination could be measured: {rows[-1].measured.fault}",
                    where="preflight",
                    fix="lower batch_size or max_audio_length",
                )
            if not config.batch_tokens and not {"batch_size", "grad_accumulation"} & set(fixed):
                for row in printed(larger_batches(best, audio_s=audio_s)):
                    best = row if is_better(row, best) else best
        except (KeyboardInterrupt, SystemExit):
            done = f"after {len(rows)} of {len(rows) + left} measurements"
            print(f"interrupted {done if rows else 'before the first measurement was made'}", flush=True)
            if (best := recommended(rows)) is not None:
                _recommend("recommended of these, a partial result", best, config, project)
            raise
    print(f"hours are those of {settled.num_epochs} epochs of {audio_s / 60:.1f} minutes")
    if fixed:
        print(f"kept as you chose: {', '.join(f'{name} {value}' for name, value in fixed.items())}")
    _recommend("recommended", best, config, project)
    return best


@contextmanager
def heeding_sigterm() -> Iterator[None]:
    """Leave with SystemExit on SIGTERM, as Ctrl-C leaves with KeyboardInterrupt, for as long as the block lasts."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _recommend(title: str, row: "PreflightRow", config: TrainConfig, project: Project) -> None:
    """Print a combination, and the command that trains with it and with all else that was given."""
    chosen = replace(config, **{name: getattr(row.config, name) for name in CHOSEN})
    print(f"{title}: {row.name}\n  {train_command(chosen, project, CHOSEN)}", flush=True)
