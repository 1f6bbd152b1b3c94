"""See what was trained, and make room: python -m utils.cli.runs list | show RUN | clean --run RUN."""

import time
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

import tyro

from utils.cli.common import run_subcommands, size
from utils.errors import UserError
from utils.project.paths import Project, open_project
from utils.runs.layout import find_run, strays_of
from utils.runs.list import RunInfo, changed_settings, list_runs, plan_removal, read_run, remove
from utils.runs.log import Event, number_of, tail
from utils.runs.narration import duration
from utils.runs.progress import observe, progress_of

OUTPUT = Path("output")
NUM_EVENTS = 5


def list_all(project: str | None = None, output: Path = OUTPUT) -> None:
    """List training runs, the newest first.

    Args:
        project: only the runs of this project.
        output: the folder that holds all projects.
    """
    folders = sorted(output.iterdir()) if output.is_dir() and not project else []
    known = [Project(name=folder.name, output=output) for folder in folders if (folder / "runs").is_dir()]
    projects = [open_project(project, output)] if project else known
    rows = [_row(owner, info) for owner in projects for info in list_runs(owner)]
    if not rows:
        print(f"no runs in {projects[0].runs if project else output}")
        return
    header = ("project", "run", "state", "steps", "best loss", "size", "age")
    for line in _aligned([header, *rows]):
        print(line)


def show(run: Annotated[str, tyro.conf.Positional], /, project: str, output: Path = OUTPUT) -> None:
    """Show one run: progress, what stands out, what its switches really did, settings, last events and checkpoints.

    Args:
        run: its name, as `list` shows it.
        project: the run's project.
        output: the folder that holds all projects.
    """
    info = read_run(find_run(open_project(project, output), run))
    observed = (
        f"{'warning' if observation.kind == 'warning' else 'note':<9} {observation.sentence}"
        for observation in observe(info.job)
    )
    events = ["last events", *_aligned([("", *_event(event)) for event in tail(info.job.events, NUM_EVENTS)])]
    for line in chain(_progress(info), observed, _proof(info), _settings(info.folder), events, _checkpoints(info)):
        print(line)


def clean(
    project: str,
    output: Path = OUTPUT,
    run: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    keep_best: bool = False,
    yes: bool = False,
) -> None:
    """Remove runs or their spare checkpoints; without --yes only say what would go.

    Args:
        project: whose runs.
        output: the folder that holds all projects.
        run: a run that goes as a whole; give the flag again for another one.
        keep_best: no run goes, but in those named (in all when none is) every checkpoint except the best weights.
        yes: remove it now.
    """
    owner = open_project(project, output)
    if not run and not keep_best:
        raise UserError(
            what="nothing was chosen to be removed",
            where="command line",
            fix="name a run (--run ID), or free the checkpoints that are not the best ones (--keep-best)",
        )
    plan = plan_removal(owner, run, keep_best=keep_best)
    if not plan:
        print("there is nothing to remove")
        return
    for line in _aligned([(size(item.num_bytes), str(item.path), item.what) for item in plan], right=(0,)):
        print(line)
    total = size(sum(item.num_bytes for item in plan))
    if not yes:
        print(
            f"would remove {total}; add --yes to remove it" + (", a run can then not be resumed" if keep_best else "")
        )
        return
    for item in plan:
        remove(item)
    print(f"removed {total}")


def _row(project: Project, info: RunInfo) -> tuple[str, ...]:
    best = f"{info.best_loss:.3f}" if info.best_loss is not None else "-"
    return (
        project.name,
        info.folder.name,
        info.job.state,
        _steps(info),
        best,
        size(info.num_bytes),
        _age(info.last_write),
    )


def _progress(info: RunInfo) -> Iterable[str]:
    yield f"run       {info.folder}"
    yield f"state     {info.job.state}" + (f": {_first_line(info.job.message)}" if info.job.message else "")
    if info.job.alive and info.job.pid is not None:
        yield f"process   {info.job.pid} on {info.job.host}, {info.job.device}"
    yield f"steps     {_steps(info)}"
    done = progress_of(info.job)
    if done is not None and done.seconds_left is not None:
        yield f"left      {duration(done.seconds_left)} for {done.what}"
    if info.loss is not None:
        yield f"loss      {info.loss:.3f} at the last step"
    if info.best_loss is not None:
        yield f"eval      {info.best_loss:.3f} at best"
    yield f"size      {size(info.num_bytes)}"
    yield f"age       {_age(info.last_write)} since it wrote something"


def _settings(folder: Path) -> Iterable[str]:
    yield "settings that differ from the defaults"
    if not (folder / "config.yaml").is_file():
        yield "  none were saved"
        return
    try:
        changed = changed_settings(folder)
    except UserError as error:
        yield f"  {_first_line(error.what)}"
        return
    yield from _aligned([("", name, str(value)) for name, value in changed.items()])


def _proof(info: RunInfo) -> Iterable[str]:
    """What each switch was asked for, and what the step that was watched showed."""
    switches = info.proof.get("switches")
    if not isinstance(switches, dict):
        yield "optimizations: not observed yet"
        return
    yield f"optimizations, observed at step {info.proof.get('step')}"
    rows = [("", "switch", "requested", "effective", "observed", "why it is off")]
    for name, switch in switches.items():
        if not isinstance(switch, dict):
            continue
        seen = [_first_line(str(switch.get(key) or "-")) for key in ("state", "observed", "reason")]
        asked = switch.get("asked")
        # Yes, no, or its kind.
        requested = ("on" if asked else "off") if isinstance(asked, bool | None) else str(asked)
        rows.append(("", name, requested, *seen))
    yield from _aligned(rows)


def _event(event: Event) -> tuple[str, ...]:
    said = {name: value for name, value in event.items() if name not in ("time", "kind")}
    at = _moment(number_of(event, "time") or 0.0)
    text = ", ".join(f"{name} {_short(value)}" for name, value in said.items() if not isinstance(value, dict | list))
    return at, event["kind"], text


def _moment(seconds: float) -> str:
    """A time of the clock; what no clock shows is empty."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (ValueError, OverflowError, OSError):
        return ""


def _checkpoints(info: RunInfo) -> Iterable[str]:
    yield "checkpoints"
    rows = []
    for checkpoint in info.checkpoints:
        what = "best weights" if checkpoint.is_best else "to resume from"
        if checkpoint.step in info.speech:
            what += f", speech score {info.speech[checkpoint.step]:.2f}"
        rows.append(
            ("", checkpoint.path.name, size(checkpoint.num_bytes), what if checkpoint.is_complete else "incomplete")
        )
    yield from _aligned(rows, right=(2,))
    for path in strays_of(info.folder):
        yield f"warning   {path.name} among the checkpoints is none: it is never read nor removed"


def _steps(info: RunInfo) -> str:
    return f"{info.step}/{info.total_steps}" if info.total_steps else str(info.step)


def _age(moment: float) -> str:
    seconds = max(0.0, time.time() - moment)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else _first_line(str(value))


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""


def _aligned(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> Iterable[str]:
    """Rows as lines whose columns stand below one another; the columns in `right` end together."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


main = partial(
    run_subcommands, {"list": list_all, "show": show, "clean": clean}, "List, show and remove training runs."
)
"""The command; see `utils.cli.common.run_command` for its exit statuses."""


if __name__ == "__main__":
    main()
