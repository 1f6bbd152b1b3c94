"""What preparing and code caching cost, and that cost grows linearly and memory does not: python -m benchmarks.prepare.

The bundled voice once and ten times over (each copy with one inaudibly different sample, so that none is a duplicate),
each cell in a process of its own, in ABBA order; the fastest round counts. Loading libraries is not timed.
"""

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import soundfile
import tyro

from utils.config import PrepareConfig
from utils.dataset.manifest import Clip, read_manifest, write_manifest
from utils.paths import assets_folder

ROOT = Path(__file__).resolve().parent.parent
STAGES = ("prepare", "prepare again", "cache codes")
PACKAGES = ("torch", "torchaudio", "soundfile", "numpy", "pandas", "coqui-tts")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to measure."""

    scales: tuple[int, ...] = (1, 10)
    """Copies of the bundled voice."""
    rounds: int = 2
    """Times that each cell is measured; the fastest counts."""
    base: str = "tiny"
    """Base model whose tokenizer checks the clips and whose DVAE makes the codes."""
    out: Path = ROOT / "benchmarks" / "results" / "prepare.json"
    """Results file."""
    cell: str = ""
    """Measure one stage in this process and print it as JSON; used by the benchmark itself."""
    work: Path = Path()
    """Scratch folder of `cell`."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One measurement."""

    stage: str
    scale: int
    num_clips: int
    audio_s: float
    """Speech in all clips, in seconds."""
    seconds: float
    """Wall time, libraries already loaded."""
    loaded_mb: float
    """Peak memory of the process before the work, in MB (10^6 bytes)."""
    peak_mb: float
    """Peak memory of the process after it."""


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    if settings.cell:
        print(json.dumps(asdict(_measure(settings))))
        return
    with tempfile.TemporaryDirectory() as scratch:
        for scale in settings.scales:
            _make_input(Path(scratch) / f"input{scale}", scale)
        cells = _all_cells(settings, Path(scratch))
    best = [min(group, key=lambda cell: cell.seconds) for _, group in groupby(sorted(cells, key=_order), key=_order)]
    print(_table(best, settings))
    settings.out.parent.mkdir(parents=True, exist_ok=True)
    settings.out.write_text(json.dumps(_result(settings, best, cells), indent=1) + "\n")
    print(f"\nwritten to {settings.out}")


def _all_cells(settings: Settings, scratch: Path) -> list[Cell]:
    cells = []
    for number in range(settings.rounds):
        # Forwards, then backwards: a machine that slows down in the course does not favour a scale.
        for scale in settings.scales[:: -1 if number % 2 else 1]:
            work = scratch / f"round{number}-{scale}"
            work.mkdir()
            cells += [_in_child(stage, settings, scratch, work, scale) for stage in STAGES]
    return cells


def _in_child(stage: str, settings: Settings, scratch: Path, work: Path, scale: int) -> Cell:
    print(f"measuring: {stage}, {scale}x", file=sys.stderr)
    source = work / "input"
    if not source.exists():
        source.symlink_to(scratch / f"input{scale}")
    flags = ["--cell", stage, "--work", str(work), "--scales", str(scale), "--base", settings.base]
    command = [sys.executable, "-m", "benchmarks.prepare", *flags]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return Cell(**json.loads(done.stdout.splitlines()[-1]))


def _measure(settings: Settings) -> Cell:
    stages = {"prepare": _prepare, "prepare again": _prepare, "cache codes": _cache_codes}
    work = stages[settings.cell](settings)
    loaded = _peak_mb()
    begin = time.perf_counter()
    work()
    seconds = time.perf_counter() - begin
    clips = read_manifest(settings.work / "input" / "metadata.csv")
    return Cell(
        stage=settings.cell,
        scale=settings.scales[0],
        num_clips=len(clips),
        audio_s=round(sum(soundfile.info(clip.audio).duration for clip in clips), 1),
        seconds=round(seconds, 4),
        loaded_mb=loaded,
        peak_mb=_peak_mb(),
    )


def _prepare(settings: Settings) -> Callable[[], object]:
    """Preparing of the input folder, everything loaded."""
    from utils.dataset.build import prepare
    from utils.model.base import find_base

    find_base(settings.base).tokenizer().encode("Loads the text rules.", "en")
    out = settings.work / "output"
    config = PrepareConfig(
        project="bench", input=settings.work / "input", language="en", output=out, base=settings.base
    )
    return lambda: prepare(config)


def _cache_codes(settings: Settings) -> Callable[[], object]:
    """Code caching of the clips that were prepared."""
    from utils.model.base import find_base
    from utils.training.codes import cache_codes

    base = find_base(settings.base)
    clips = sorted((settings.work / "output" / "bench" / "dataset" / "wavs").iterdir())
    return lambda: cache_codes(clips, base, settings.work / "codes")


def _make_input(folder: Path, scale: int) -> None:
    (folder / "wavs").mkdir(parents=True)
    clips = []
    for clip in read_manifest(assets_folder() / "demo_voice" / "metadata.csv"):
        pcm, sample_rate = soundfile.read(clip.audio, dtype="int16")
        for copy in range(scale):
            pcm[copy] ^= 1
            audio = folder / "wavs" / f"{clip.audio.stem}-{copy}.flac"
            soundfile.write(audio, pcm, sample_rate)
            clips.append(Clip(audio=audio, text=clip.text, speaker=clip.speaker))
    write_manifest(folder / "metadata.csv", clips)


def _peak_mb() -> float:
    """Peak resident memory of this process; Linux counts in KiB, macOS in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)


def _order(cell: Cell) -> tuple[int, int]:
    return STAGES.index(cell.stage), cell.scale


def _table(cells: list[Cell], settings: Settings) -> str:
    title = f"bundled voice, base {settings.base}, {_processor()}, {os.cpu_count()} cores, torch {version('torch')}"
    heads = ("", "copies", "clips", "seconds", "clips/s", "audio-s/s", "loaded MB", "peak MB")
    lines = [f"{title} ({settings.rounds} rounds)", _row(heads)]
    for cell in cells:
        rates = f"{cell.num_clips / cell.seconds:.0f}", f"{cell.audio_s / cell.seconds:.0f}"
        memory = f"{cell.loaded_mb:.0f}", f"{cell.peak_mb:.0f}"
        lines.append(_row((cell.stage, f"{cell.scale}x", str(cell.num_clips), f"{cell.seconds:.3f}", *rates, *memory)))
    return "\n".join(lines)


def _row(texts: tuple[str, ...]) -> str:
    return f"{texts[0]:<16}" + "".join(f"{text:>11}" for text in texts[1:])


def _result(settings: Settings, best: list[Cell], every: list[Cell]) -> dict[str, object]:
    return {
        "command": "python -m benchmarks.prepare",
        "base": settings.base,
        "hardware": {"processor": _processor(), "cores": os.cpu_count(), "system": platform.platform()},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "cells": [asdict(cell) for cell in best],
        "rounds": [asdict(cell) for cell in every],
    }


def _processor() -> str:
    """The processor's name; Linux has it only in /proc."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


if __name__ == "__main__":
    main()
