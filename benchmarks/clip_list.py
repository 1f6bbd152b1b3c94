"""Start time and memory of a training by its number of clips: python -m benchmarks.clip_list.

The manifests are generated: every row has a text of its own, and names one of 200 tiny recordings. Each size starts
twice in a process of its own: `first` reads and encodes the recordings, `again` knows them. Both end with a batch of a
loader process, whose own memory is measured, too.
"""

import json
import multiprocessing
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import torch
import tyro
from torch.utils._pytree import tree_leaves

from utils.audio.write import write_wav
from utils.config import TrainConfig
from utils.performance_utils import log_system_info
from utils.project.paths import Project
from utils.training.data.load import load_data
from utils.training.data.loaders import Loaders
from utils.training.plan import plan_run
from utils.training.switches.optim import make_accelerator
from utils.training.switches.optimizer import resolve

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
MARKER = "measured: "


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to measure."""

    clips: tuple[int, ...] = (10 * CLIPS_AN_HOUR, 100 * CLIPS_AN_HOUR, 1_000_000)
    """Sizes of the manifest."""
    out: Path = ROOT / "benchmarks" / "results" / "clip_list.json"
    """Results file; sizes that are not measured now keep what it says."""
    scratch: Path | None = None
    """Where manifests are made. The system's temporary folder if not given."""
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
            project = Project(name="voice", output=Path(scratch) / str(count))
            make(project, count)
            cells = {name: in_a_process(project.output) for name in ("first", "again")}
            record["sizes"][str(count)] = {"clips": count, "hours": round(count / CLIPS_AN_HOUR), **cells}
            settings.out.parent.mkdir(parents=True, exist_ok=True)
            settings.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print("\n".join(table(record)))


def make(project: Project, count: int) -> None:
    """A project with a manifest of `count` rows."""
    wavs = project.dataset / "wavs"
    wavs.mkdir(parents=True)
    for number in range(RECORDINGS):
        sound = torch.rand(1, 13_230 + 22 * number, generator=torch.Generator().manual_seed(number)) - 0.5
        write_wav(wavs / f"{number:04}.wav", sound, 22_050)
    for csv, rows in ((project.train_csv, count), (project.eval_csv, 4)):
        with csv.open("w", encoding="utf-8") as file:
            file.write(HEADER)
            file.writelines(manifest(rows))
    project.language_file.write_text("en", encoding="utf-8")
    time.sleep(SETTLED_S)


def manifest(count: int) -> Iterator[str]:
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
    config = TrainConfig(project="voice", output=folder, base="tiny", device="cpu", num_workers=1, sample_text="")
    before, begun, processor = memory(), time.monotonic(), process_time()
    plan, accelerator = plan_run(config), make_accelerator("cpu")
    data = load_data(plan.config, plan.project, plan.base, accelerator)
    listed, peak = time.monotonic(), memory()
    loaders = Loaders(plan.config, plan.base, data, accelerator, resolve(plan.config, accelerator.device))
    batches = iter(loaders.train(0, 0))
    batch = next(batches)
    ended, after = time.monotonic(), memory()
    assert not batch.lost
    (loader,) = multiprocessing.active_children()
    return {
        "list_s": round(listed - begun, 2),
        "batch_s": round(ended - listed, 2),
        "processor_s": round(process_time() - processor, 2),
        "loaded_gb": before["VmRSS"],
        "peak_gb": peak["VmHWM"],
        "end_gb": after["VmRSS"],
        # Codes are mapped from disk.
        "table_bytes_a_clip": sum(getattr(one, "nbytes", 0) for one in tree_leaves(vars(data.train) | {"codes": 0}))
        // len(data.train),
        "peak_bytes_a_clip": round((peak["VmHWM"] - before["VmRSS"]) * 1e9 / len(data.train)),
        "loader_own_gb": round(psutil.Process(loader.pid).memory_full_info().uss / 1e9, 3),
    }


def process_time() -> float:
    """Processor time of this process and of those that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def memory() -> dict[str, float]:
    """Of this process, in GB: VmRSS now, VmHWM at most."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return {name: round(int(size) * 1024 / 1e9, 3) for name, size in re.findall(r"(\w+):\s+(\d+) kB", status)}


def table(record: dict[str, Any]) -> Iterator[str]:
    columns = ("list_s", "batch_s", "processor_s", "peak_gb", "end_gb", "table_bytes_a_clip", "loader_own_gb")
    yield f"{'clips':>12}{'start':>8}" + "".join(f"{name:>20}" for name in columns)
    for size in sorted(record["sizes"].values(), key=lambda one: one["clips"]):
        for start in ("first", "again"):
            yield f"{size['clips']:12,}{start:>8}" + "".join(f"{size[start][name]:20}" for name in columns)


if __name__ == "__main__":
    main()
