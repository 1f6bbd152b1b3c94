"""Measure the switches for a training command: each row is printed at once, and counts after an interruption."""

import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from utils import jobs
from utils.config import TrainConfig
from utils.errors import UserError
from utils.project.advice import train_command
from utils.project.paths import Project
from utils.switches import MEASURED

if TYPE_CHECKING:
    from utils.training.preflight import Row

TERMINATED = 128 + signal.SIGTERM
"""Exit status after SIGTERM, as shells have it."""
CHOSEN = ("batch_size", "grad_accumulation", *(switch.field for switch in MEASURED))
"""Settings that preflight chooses."""


@dataclass
class Printed:
    """The rows so far, each printed with the time that the rest will take."""

    rows: list["Row"] = field(default_factory=list)
    left: int = 0
    """Rows that may follow."""
    started: float = field(default_factory=time.monotonic)

    def see(self, row: "Row", left: int) -> None:
        """Print a row.

        Args:
            row: just measured.
            left: how many may follow.
        """
        from utils.training.preflight import head, line

        if not self.rows:
            print(head(), flush=True)
        self.rows.append(row)
        self.left = left
        seconds = (time.monotonic() - self.started) / len(self.rows) * left
        # At once, also into a file or a pipe.
        print(line(row) + (f"   {time_left(seconds)} for {left} more" if left else ""), flush=True)


def time_left(seconds: float) -> str:
    """Such as `about 3 min left`."""
    return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {max(1.0, seconds):.0f} s left"


def measure_switches(
    config: TrainConfig, report: Callable[[str, int, int | None], None], given: Collection[str] | None = None
) -> "Row":
    """Measure each combination of switches with real steps, and print the table row by row.

    What was measured before an interruption is recommended from, too; the interruption is passed on.

    Args:
        config: the settings; each combination changes some of them.
        report: called with (what is being done, done, in all).
        given: names of the settings that the user chose, which stay; those that are not the default when nobody knows.

    Returns:
        The recommended combination with its batch size.

    Raises:
        UserError: no combination could be measured.
    """
    from utils.performance_utils.device import settle_device
    from utils.training.data.load import load_data
    from utils.training.plan import plan_run
    from utils.training.preflight import larger_batches, preflight, recommended
    from utils.training.switches.optim import make_accelerator

    plan = plan_run(replace(config, resume=None))
    project, settled = plan.project, plan.config
    with jobs.hold("preflight", device=settle_device(config.device)[0], output=project.output, folder=project.folder):
        data = load_data(settled, project, plan.base, make_accelerator(settled.device), report)
        audio_s = data.train.seconds
        if given is None:
            given = [field.name for field in fields(TrainConfig) if getattr(config, field.name) != field.default]
        fixed, seen = {name: getattr(config, name) for name in CHOSEN if name in given}, Printed()

        def progress(name: str, done: int, total: int | None) -> None:
            report("measuring", done, total)

        # The plainest combination comes first, and is the slowest.
        print(
            "measuring each combination of switches with real steps; the first takes the longest",
            file=sys.stderr,
            flush=True,
        )
        try:
            best = recommended(preflight(settled, audio_s=audio_s, fixed=fixed, progress=progress, seen=seen.see))
            if best is None:
                raise UserError(
                    what=f"no combination could be measured: {seen.rows[-1].measured.fault}",
                    where="preflight",
                    fix="lower batch_size or max_audio_length",
                )
            if not config.batch_tokens and not {"batch_size", "grad_accumulation"} & set(fixed):
                best = larger_batches(best, audio_s=audio_s, progress=progress, seen=seen.see)
        except (KeyboardInterrupt, SystemExit):
            _recommend_partly(seen, config, project)
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


def _recommend(title: str, row: "Row", config: TrainConfig, project: Project) -> None:
    """Print a combination, and the command that trains with it and with all else that was given."""
    chosen = replace(config, **{name: getattr(row.config, name) for name in CHOSEN})
    print(f"{title}: {row.name}\n  {train_command(chosen, project, CHOSEN)}", flush=True)


def _recommend_partly(seen: Printed, config: TrainConfig, project: Project) -> None:
    from utils.training.preflight import recommended

    done = f"after {len(seen.rows)} of {len(seen.rows) + seen.left} measurements"
    print(f"interrupted {done if seen.rows else 'before the first measurement was made'}", flush=True)
    if (best := recommended(seen.rows)) is not None:
        _recommend("recommended of these, a partial result", best, config, project)
