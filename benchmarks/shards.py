"""Memory and time of reading conditioning audio from shards, by hours of data: python -m benchmarks.shards.

Ten hours are packed: rows with a text of their own, of 200 recordings of 4 s. More hours are the same shards under
further names (hard links) and their rows again. Each size starts in a process of its own, finds its list, and reads
batches.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

from benchmarks.clip_list import CLIPS_AN_HOUR, HEADER, MARKER, RECORDINGS, ROOT, SETTLED_S, memory, process_time, rows
from utils.audio.shards import index_file
from utils.audio.write import write_wav
from utils.config import TrainConfig
from utils.dataset.storage.shards import SHARD_CLIPS, pack
from utils.performance_utils import log_system_info
from utils.project.paths import Project
from utils.training.data.clip_list import ABOUT_FILE, CODE_KINDS, ROW_KINDS, TOKEN_KINDS
from utils.training.data.columns import ENDS, ColumnWriter, map_column
from utils.training.data.list_store import about_list
from utils.training.data.load import load_data
from utils.training.data.loaders import Loaders
from utils.training.optimizations.switches import resolve
from utils.training.optimizer.precision import make_accelerator
from utils.training.plan import plan_run

MADE_HOURS = 10
CLIP_SAMPLES = 4 * 22_050
WAYS = {"files": 0, "shards": 0, "window": 20_000}
"""What is read, and the shuffle window."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to measure."""

    hours: tuple[int, ...] = (10, 100, 1_000, 10_000)
    """Sizes of the dataset; the first is packed."""
    batches: int = 1_000
    """Batches of four clips to read at each size."""
    out: Path = ROOT / "benchmarks" / "results" / "shards.json"
    """Results file."""
    scratch: Path | None = None
    """Where shards and lists are made, some 5 GB. The system's temporary folder if not given."""
    start: Path | None = None
    """Only start with the project in this folder, and print what was measured."""
    way: str = "shards"
    """With `start`: files, shards or window."""


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    if settings.start:
        cells = measure(settings.start, settings.way, settings.batches)
        sys.stdout.write(f"{MARKER}{json.dumps(cells)}\n")
        return
    record: dict[str, Any] = {"benchmark": "shards", "time": datetime.now(UTC).isoformat(timespec="seconds")}
    record |= {"system": log_system_info(), "load": os.getloadavg(), "batches": settings.batches, "sizes": {}}
    with tempfile.TemporaryDirectory(dir=settings.scratch) as scratch:
        project = Project(name="voice", output=Path(scratch))
        record["packed"] = make(project, max(settings.hours) // MADE_HOURS)
        for hours in settings.hours:
            if hours > MADE_HOURS:
                repeat(project, hours // MADE_HOURS)
            ways = WAYS if hours == MADE_HOURS else [way for way in WAYS if way != "files"]
            cells = {way: in_a_process(project.output, way, settings.batches) for way in ways}
            record["sizes"][str(hours)] = cells
            settings.out.parent.mkdir(parents=True, exist_ok=True)
            settings.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print("\n".join(table(record)))


def make(project: Project, times: int) -> dict[str, Any]:
    """A project whose dataset is packed, with so many names for each shard, and the lists of files and shards."""
    wavs = project.dataset / "wavs"
    wavs.mkdir(parents=True)
    for number in range(RECORDINGS):
        sound = torch.rand(1, CLIP_SAMPLES, generator=torch.Generator().manual_seed(number)) - 0.5
        write_wav(wavs / f"{number:04}.wav", sound, 22_050)
    count = MADE_HOURS * CLIPS_AN_HOUR
    project.train_csv.write_text(HEADER + "".join(rows(count)), encoding="utf-8")
    project.eval_csv.write_text(HEADER + "".join(rows(4)), encoding="utf-8")
    project.language_file.write_text("en", encoding="utf-8")
    begun, processor = time.monotonic(), process_time()
    packed = pack({"train": project.train_csv, "evaluate": project.eval_csv}, project.dataset / "shards")
    cells = {"clips": packed.clips, "s": time.monotonic() - begun, "processor_s": process_time() - processor}
    # Before a list is made: a further name changes the time of change of the file.
    for turn in range(1, times):
        for number in range(count // SHARD_CLIPS):
            old, new = shard(project, number), shard(project, number + turn * (count // SHARD_CLIPS))
            os.link(old, new)
            os.link(index_file(old), index_file(new))
    time.sleep(SETTLED_S)
    for way in ("files", "shards"):
        in_a_process(project.output, way, 1)
    return {name: round(value, 2) for name, value in cells.items()} | {"gb": round(packed.num_bytes / 1e9, 2)}


def shard(project: Project, number: int) -> Path:
    return project.dataset / "shards" / "train" / f"recording.{number:06}.tar"


def repeat(project: Project, times: int) -> None:
    """Make the list of the shards so many times as long: the same rows of further shards."""
    lists = project.dataset / "codes" / "lists"
    of_shards = [path for path in lists.glob("*-*") if ".tar" in (path / "train" / ABOUT_FILE).read_text("utf-8")]
    making = min(of_shards, key=lambda path: len(map_column(path / "train" / "folders", "<i4")))
    source, count = making / "train", len(map_column(making / "train" / "folders", "<i4"))
    shards = count // SHARD_CLIPS
    larger = lists / f"{making.name.split('-')[0]}-{time.time_ns():020d}"
    shutil.copytree(making / "evaluate", larger / "evaluate")
    kinds = ROW_KINDS | TOKEN_KINDS | CODE_KINDS
    with ColumnWriter(larger / "train", kinds) as columns:
        for name, kind in kinds.items():
            column = np.array(map_column(source / name, kind))
            whole = map_column(source / name.removesuffix(ENDS), "u1") if name.endswith(ENDS) else None
            size = np.dtype(kinds[name.removesuffix(ENDS)]).itemsize
            shift = {"kept": count, "folders": shards}.get(name, 0) if whole is None else len(whole) // size
            for turn in range(times):
                columns.add(name, column + turn * shift)
    about = json.loads((source / ABOUT_FILE).read_text("utf-8"))
    about["folders"] = [str(shard(project, number)) for number in range(shards * times)]
    (larger / "train" / ABOUT_FILE).write_text(json.dumps(about), encoding="ascii")
    (larger / ABOUT_FILE).write_text(json.dumps(about_list(making)), encoding="ascii")


def in_a_process(folder: Path, way: str, batches: int) -> dict[str, Any]:
    """What a fresh process measures."""
    command = [sys.executable, "-m", "benchmarks.shards", "--start", str(folder), "--way", way]
    command += ["--batches", str(batches)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith(MARKER)]
    if not found:
        raise RuntimeError(f"the start failed:\n{done.stderr[-2000:]}")
    cells: dict[str, Any] = json.loads(found[0].removeprefix(MARKER))
    return cells


def measure(folder: Path, way: str, batches: int) -> dict[str, Any]:
    """Seconds and memory of a start, and of reading batches after it; loading torch is not counted as time."""
    project = Project(name="voice", output=folder)
    place = project.dataset if way == "files" else project.dataset / "shards"
    config = TrainConfig(
        project="voice",
        output=folder,
        base="tiny",
        device="cpu",
        train_csv=place / project.train_csv.name,
        eval_csv=place / project.eval_csv.name,
        shuffle_window=WAYS[way],
        num_workers=0,
        num_epochs=1,
        sample_text="",
    )
    before, begun = memory(), time.monotonic()
    plan, accelerator = plan_run(config), make_accelerator("cpu")
    data = load_data(plan.config, plan.project, plan.base, accelerator)
    listed, listed_memory = time.monotonic(), memory()
    loaders = Loaders(plan.config, plan.base, data, accelerator, resolve(plan.config, accelerator.device))
    loader = iter(loaders.train(0, 0))
    first = next(loader)
    started, started_memory, processor = time.monotonic(), memory(), process_time()
    shards, count = set[str](), 0
    for batch in islice(loader, batches):
        assert not batch.lost and not first.lost
        count += len(batch.names)
        shards |= {data.train.path(clip).parent.name for _, clip in batch.positions}
    read, after = process_time() - processor, memory()
    return {
        "clips": len(data.train),
        "list_s": round(listed - begun, 2),
        "first_batch_s": round(started - listed, 2),
        "ms_a_clip": round(1_000 * read / max(count, 1), 3),
        "shards_read": len(shards),
        "loaded_gb": before["VmRSS"],
        "listed_gb": listed_memory["VmRSS"],
        "started_gb": started_memory["VmRSS"],
        "read_gb": after["VmRSS"],
        "peak_gb": after["VmHWM"],
        "private_gb": after["RssAnon"],
        "started_private_gb": started_memory["RssAnon"],
    }


def table(record: dict[str, Any]) -> Iterator[str]:
    names = ("list_s", "first_batch_s", "ms_a_clip", "shards_read", "started_gb", "read_gb", "peak_gb", "private_gb")
    yield f"{'hours':>8}{'way':>8}" + "".join(f"{name:>15}" for name in names)
    for hours, ways in record["sizes"].items():
        for way, cells in ways.items():
            yield f"{int(hours):8,}{way:>8}" + "".join(f"{cells[name]:15}" for name in names)


if __name__ == "__main__":
    main()
