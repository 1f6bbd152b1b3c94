"""Start time and memory of a training by its number of clips: python -m benchmarks.clip_list.

The manifests are generated: every row has a text of its own, and names one of 200 tiny recordings. Each size starts
twice in a process of its own: `first` makes the list of clips, `again` finds it. Both end with a batch.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

from utils.audio.write import write_wav
from utils.config import TrainConfig
from utils.performance_utils import log_system_info
from utils.project.paths import Project
from utils.training.data.clip_list import ABOUT_FILE, CODE_KINDS, ROW_KINDS, TOKEN_KINDS
from utils.training.data.columns import ENDS, ColumnWriter, map_column
from utils.training.data.list_store import about_list, csv_state
from utils.training.data.load import load_data
from utils.training.data.loaders import Loaders
from utils.training.optimizations.switches import resolve
from utils.training.optimizer.precision import make_accelerator
from utils.training.plan import plan_run

ROOT = Path(__file__).resolve().parent.parent
CLIPS_AN_HOUR = 900
"""Clips of 4 s, as most corpora have them."""
RECORDINGS = 200
SETTLED_S = 2.5
"""Time after which a file's time stamp proves that it did not change."""
WORDS = (
    *("the", "quiet", "harbour", "wakes", "slowly", "while", "seven", "fishing", "boats", "return", "and", "crews"),
    *("carry", "silver", "herring", "over", "wet", "stones", "to", "a", "market", "where", "people", "already", "wait"),
    *("with", "coffee", "bread", "questions", "about", "weather", "prices", "storms"),
)
HEADER = "audio_file|text|speaker_name\n"
MADE_FILE = "made.csv"
"""Rows of the manifest that a list was made of."""
MARKER = "measured: "


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to measure."""

    clips: tuple[int, ...] = tuple(hours * CLIPS_AN_HOUR for hours in (10, 1_000, 10_000, 12_000))
    """Sizes of the manifest."""
    made: int = 1_000 * CLIPS_AN_HOUR
    """Larger lists than this are not made but put together from repetitions of one of this size, and only found: a
    processor core reads some six thousand texts a second."""
    out: Path = ROOT / "benchmarks" / "results" / "clip_list.json"
    """Results file; sizes that are not measured now keep what it says."""
    scratch: Path | None = None
    """Where manifests and lists are made: ten million clips take 6 GB. The system's temporary folder if not given."""
    start: Path | None = None
    """Only start with the project in this folder, and print what was measured."""


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    if settings.start:
        sys.stdout.write(f"{MARKER}{json.dumps(measure(settings.start))}\n")
        return
    record: dict[str, Any] = {"benchmark": "clip_list", "sizes": {}}
    if settings.out.is_file():
        record |= json.loads(settings.out.read_text(encoding="utf-8"))
    record |= {"time": datetime.now(UTC).isoformat(timespec="seconds"), "system": log_system_info()}
    with tempfile.TemporaryDirectory(dir=settings.scratch) as scratch:
        for count in settings.clips:
            project = Project(name="voice", output=Path(scratch) / str(min(count, settings.made)))
            cells = {} if project.folder.is_dir() else {"first": make_and_start(project, min(count, settings.made))}
            if count > settings.made:
                cells = {"first": None}
                repeat(project, count // settings.made)
            cells["again"] = in_a_process(project.output)
            record["sizes"][str(count)] = {"clips": count, "hours": round(count / CLIPS_AN_HOUR), **cells}
            settings.out.parent.mkdir(parents=True, exist_ok=True)
            settings.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print("\n".join(table(record)))


def make_and_start(project: Project, count: int) -> dict[str, Any]:
    """A project with a manifest of so many rows, and what its first start measured."""
    wavs = project.dataset / "wavs"
    wavs.mkdir(parents=True)
    for number in range(RECORDINGS):
        sound = torch.rand(1, 13_230 + 22 * number, generator=torch.Generator().manual_seed(number)) - 0.5
        write_wav(wavs / f"{number:04}.wav", sound, 22_050)
    (project.folder / MADE_FILE).write_text("".join(rows(count)), encoding="utf-8")
    project.train_csv.write_text(HEADER + (project.folder / MADE_FILE).read_text(encoding="utf-8"), encoding="utf-8")
    project.eval_csv.write_text(HEADER + "".join(rows(4)), encoding="utf-8")
    project.language_file.write_text("en", encoding="utf-8")
    time.sleep(SETTLED_S)
    return in_a_process(project.output)


def repeat(project: Project, times: int) -> None:
    """Make the manifest so many times as long, and its list."""
    lists = project.dataset / "codes" / "lists"
    # The oldest is the one that was made.
    making = min(lists.glob("*-*"))
    source, count = making / "train", len(map_column(making / "train" / "folders", "<i4"))
    larger = lists / f"{making.name.split('-')[0]}-{time.time_ns():020d}"
    shutil.copytree(making / "evaluate", larger / "evaluate")
    kinds = ROW_KINDS | TOKEN_KINDS | CODE_KINDS
    with ColumnWriter(larger / "train", kinds) as columns:
        for name, kind in kinds.items():
            column = map_column(source / name, kind)
            whole = map_column(source / name.removesuffix(ENDS), "u1") if name.endswith(ENDS) else None
            size = np.dtype(kinds[name.removesuffix(ENDS)]).itemsize
            shift = count if name == "kept" else 0 if whole is None else len(whole) // size
            for turn in range(times):
                columns.add(name, column + turn * shift if shift else column)
    shutil.copy(source / ABOUT_FILE, larger / "train")
    block = (project.folder / MADE_FILE).read_text(encoding="utf-8")
    with project.train_csv.open("w", encoding="utf-8") as csv:
        csv.write(HEADER)
        csv.writelines(block for _ in range(times))
    time.sleep(SETTLED_S)
    about = about_list(making) | csv_state((project.train_csv, project.eval_csv), time.time_ns())
    (larger / ABOUT_FILE).write_text(json.dumps(about), encoding="ascii")


def rows(count: int) -> Iterator[str]:
    draw = random.Random(1)
    for number in range(count):
        words = " ".join(draw.choices(WORDS, k=draw.randint(6, 14)))
        yield f"wavs/{number % RECORDINGS:04}.wav|{words.capitalize()}.|speaker_{number % 100}\n"


def in_a_process(folder: Path) -> dict[str, Any]:
    """What a fresh process measures."""
    command = [sys.executable, "-m", "benchmarks.clip_list", "--start", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith(MARKER)]
    if not found:
        raise RuntimeError(f"the start failed:\n{done.stderr[-2000:]}")
    cells: dict[str, Any] = json.loads(found[0].removeprefix(MARKER))
    return cells


def measure(folder: Path) -> dict[str, Any]:
    """Seconds and memory from an empty process to the first batch; loading torch is not counted as time."""
    config = TrainConfig(
        project="voice", output=folder, base="tiny", device="cpu", num_workers=0, num_epochs=1, sample_text=""
    )
    before, begun, processor = memory(), time.monotonic(), process_time()
    plan, accelerator = plan_run(config), make_accelerator("cpu")
    data = load_data(plan.config, plan.project, plan.base, accelerator)
    listed = time.monotonic()
    loaders = Loaders(plan.config, plan.base, data, accelerator, resolve(plan.config, accelerator.device))
    batch = next(iter(loaders.train(0, 0)))
    ended, after = time.monotonic(), memory()
    assert not batch.lost
    return {
        "clips": len(data.train),
        "list_s": round(listed - begun, 2),
        "batch_s": round(ended - listed, 2),
        "processor_s": round(process_time() - processor, 2),
        "loaded_gb": before["VmRSS"],
        "peak_gb": after["VmHWM"],
        "end_gb": after["VmRSS"],
        "private_gb": after["RssAnon"],
    }


def process_time() -> float:
    """Processor time of this process and of those that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def memory() -> dict[str, float]:
    """Of this process, in GB: VmRSS now, VmHWM at most, and RssAnon, what is its own rather than mapped from files."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return {name: round(int(size) * 1024 / 1e9, 3) for name, size in re.findall(r"(\w+):\s+(\d+) kB", status)}


def table(record: dict[str, Any]) -> Iterator[str]:
    yield f"{'':>12}{'first start':>34}{'later start':>42}"
    start = f"{'processor s':>12}{'peak GB':>10}"
    yield f"{'clips':>12}{'list s':>12}{start}{'list s':>10}{'batch s':>10}{start}{'private GB':>12}"
    for size in sorted(record["sizes"].values(), key=lambda one: one["clips"]):
        first, again = size["first"], size["again"]
        made = f"{'not made':>34}"
        if first:
            made = f"{first['list_s']:12.1f}{first['processor_s']:12.1f}{first['peak_gb']:10.2f}"
        yield (
            f"{size['clips']:12,}{made}{again['list_s']:10.1f}{again['batch_s']:10.2f}"
            f"{again['processor_s']:12.1f}{again['peak_gb']:10.2f}{again['private_gb']:12.2f}"
        )


if __name__ == "__main__":
    main()
