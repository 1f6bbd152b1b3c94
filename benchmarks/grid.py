"""Find your own case: training steps beside stock coqui-tts's, by batch size, threads and clip length (hours; resumes).

    python -m benchmarks.grid

Each cell is measured in a process of its own on clips of one length. What the record holds is not measured again.
Stock computes in float32, its default, and where this processor has bf16 units also in bf16; ours with SDPA and mixed
precision as this processor allows. Ratios are by the clock and by processor time.
"""

import json
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any, Literal

import torch
import tyro

from benchmarks.full_base import make_base, make_clips
from benchmarks.train_step import ROOT, measure_cell
from benchmarks.train_step import Settings as StepSettings
from utils.hardware.processor import cpu
from utils.performance_utils import log_system_info
from utils.project.paths import Project
from utils.training.preflight import Measurement

OURS = "ours"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to measure."""

    size: Literal["full", "small"] = "full"
    """full is XTTS v2 itself (441.0 M parameters)."""
    device: Literal["cpu", "cuda"] = "cuda" if torch.cuda.is_available() else "cpu"
    """Where to train."""
    batch_sizes: tuple[int, ...] = (1, 2, 4, 8)
    """Clips a step."""
    threads: tuple[int, ...] = (1, 2)
    """That torch computes with."""
    seconds: tuple[float, ...] = (3.0, 8.0, 11.0)
    """Length of all clips."""
    steps: int = 3
    """Steps that are counted."""
    warmup: int = 1
    """Steps before them."""
    out: Path | None = None
    """Results file; benchmarks/results/grid_<size>_<device>.json when not given."""


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    out = settings.out or ROOT / "benchmarks" / "results" / f"grid_{settings.size}_{settings.device}.json"
    cells = earlier(out, settings)
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        make_base(work / "base", settings.size)
        for seconds, batch_size, threads in product(settings.seconds, settings.batch_sizes, settings.threads):
            for engine in engines(settings.device):
                name = name_of(seconds, batch_size, threads, engine)
                if name in cells:
                    continue
                cells[name] = asdict(_cell(settings, work, seconds, batch_size, threads, engine))
                # After each cell: one that is cut off keeps what is measured.
                out.parent.mkdir(parents=True, exist_ok=True)
                out.write_text(json.dumps(_record(settings, cells), indent=1) + "\n", encoding="utf-8")
                cell = cells[name]
                print(f"{name}: {cell['fault'] or '{step_s:.2f} s a step'.format_map(cell)}", flush=True)
    print(*table(cells), sep="\n")


def engines(device: str) -> list[str]:
    """What is measured: stock's precisions and ours."""
    has_bf16 = device == "cuda" or cpu().has_bf16
    return ["stock fp32", *(["stock bf16"] if has_bf16 else []), OURS]


def name_of(seconds: float, batch_size: int, threads: int, engine: str) -> str:
    """Of a cell in the record."""
    return f"{seconds:g} s x {batch_size}, {threads} thread{'s' if threads > 1 else ''}: {engine}"


def earlier(out: Path, settings: Settings) -> dict[str, dict[str, Any]]:
    """The cells of a record of the same machine and size; none where there is no record.

    Raises:
        SystemExit: the record is of another machine or size.
    """
    if not out.is_file():
        return {}
    record = json.loads(out.read_text(encoding="utf-8"))
    if record["machine"] != _machine(settings) or record["settings"]["size"] != settings.size:
        raise SystemExit(f"{out}: measured on another machine or at another size; name another file with --out")
    cells: dict[str, dict[str, Any]] = record["cells"]
    return cells


def _machine(settings: Settings) -> str:
    return torch.cuda.get_device_name() if settings.device == "cuda" else cpu().model


def _cell(settings: Settings, work: Path, seconds: float, batch_size: int, threads: int, engine: str) -> Measurement:
    name = f"clips-{seconds:g}-{batch_size}"
    project = Project(name=name, output=work)
    if not project.train_csv.is_file():
        make_clips(project, settings.steps * batch_size, seconds=seconds)
    what: dict[str, Any] | str = engine.removeprefix("stock ")
    if engine == OURS:
        what = {"sdpa": True, "mixed_precision": "auto"}
    step = StepSettings(
        size=settings.size,
        device=settings.device,
        batch_size=batch_size,
        steps=settings.steps,
        warmup=settings.warmup,
        threads=threads,
        project=name,
    )
    return measure_cell(step.resolved(), what, work)


def table(cells: dict[str, dict[str, Any]]) -> list[str]:
    """A line for each case, and which is the slowest and the best against each precision of stock."""
    lines = [f"{'':28}{'s a step':>10}" + "".join(f"{head:>14}" for head in ("to fp32", "to bf16"))]
    ratios: dict[str, dict[str, float]] = {"fp32": {}, "bf16": {}}
    for name, cell in cells.items():
        case, _, engine = name.partition(": ")
        if engine != OURS or cell["fault"]:
            continue
        columns = []
        for precision, found in ratios.items():
            stock = cells.get(f"{case}: stock {precision}")
            if stock is None or stock["fault"]:
                columns.append(stock["fault"][:12] if stock else "")
                continue
            found[case] = _per_clip(stock, "seconds") / _per_clip(cell, "seconds")
            columns.append(f"{found[case]:.2f} / {_per_clip(stock, 'cpu_s') / _per_clip(cell, 'cpu_s'):.2f}")
        lines.append(f"{case:28}{cell['step_s']:10.2f}" + "".join(f"{column:>14}" for column in columns))
    lines.append("ratios: by the clock / by processor time; above 1 ours is faster")
    for precision, found in ratios.items():
        if found:
            least, most = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
            slowest, best = f"{found[least]:.2f} at the least ({least})", f"{found[most]:.2f} at most ({most})"
            lines.append(f"to stock in {precision}: {slowest}, {best}")
    return lines


def _per_clip(cell: dict[str, Any], name: str) -> float:
    return float(cell[name] / cell["audio_s"])


def _record(settings: Settings, cells: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "benchmark": "grid",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": _machine(settings),
        "settings": asdict(settings) | {"out": None},
        "system": log_system_info(),
        "cells": cells,
        "table": table(cells),
    }


if __name__ == "__main__":
    main()
