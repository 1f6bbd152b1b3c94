"""What preparing costs, in multiples of real time, and how much memory the whole process tree takes: make bench.

The bundled voice in copies (each inaudibly different, so that none is a duplicate), as clips with a
table and as one long recording with subtitles; each cell in a process of its own, from reading the input to the
finished dataset. Loading libraries is not timed. On a machine that does other work too, processor time says more than
the clock: both are given, "x core" for each core. Cells can be measured one by one (--stages long --hours 1): the
results file keeps the others.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import soundfile
import tyro

from utils.dataset.settings import Engine, PrepareConfig
from utils.dataset.storage.manifest import Clip, read_manifest, write_manifest
from utils.hardware.processor import cpu
from utils.options import DATASET_RATE
from utils.project.paths import Project, assets_folder

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("torch", "torchaudio", "soundfile", "numpy", "pandas", "coqui-tts", "silero-vad", "pyloudnorm")
PLAIN: dict[str, Any] = {"quality": False}
SOUND: dict[str, Any] = {"check_speakers": False, "check_quality": False}
STAGES: dict[str, str] = {
    "clips": "clips + table: decode, resample, clean, write",
    "clips-vad": "the same with voice activity and sound measures",
    "clips-all": "the same with every measure, speaker encoder too",
    "clips-again": "the same again, nothing changed",
    "long": "one long recording with subtitles, cut and cleaned",
    "long-again": "the same again, nothing changed",
    "vad": "voice activity alone",
    "codes": "DVAE codes, encoder of the real size, random weights",
    "manifest": "a table of 100 000 rows opened",
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to measure."""

    hours: tuple[float, ...] = (1.0, 10.0)
    """Lengths of the long recording."""
    copies: int = 4
    """Copies of the bundled voice, 2.9 minutes each, for the cells with clips."""
    stages: tuple[str, ...] = tuple(STAGES)
    """Which cells: clips, clips-vad, clips-all, clips-again, long, long-again, vad, codes, manifest."""
    workers: int = 1
    """Processes."""
    engine: Engine = "local"
    """Where clips are prepared; see `utils.cli.prepare`."""
    base: str = "tiny"
    """Base model whose tokenizer checks the clips and whose speaker encoder listens (tiny's is of the real size)."""
    out: Path = ROOT / "benchmarks" / "results" / "prepare.json"
    """Results file; cells that are not measured now stay in it."""
    scratch: Path | None = None
    """Folder for sources and datasets, kept for the next call; a temporary one when not given."""
    cell: str = ""
    """Measure one stage in this process; used by the benchmark itself."""
    work: Path = Path()
    """Scratch folder of `cell`."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One measurement."""

    stage: str
    hours: float
    """Sound that was worked on."""
    items: int
    """Clips, cues or rows."""
    seconds: float
    """On the clock, libraries already loaded."""
    cpu_s: float
    """Processor time of this process and of local workers; Ray's are not in it."""
    workers: int = 1
    engine: Engine = "local"
    load: float = 0.0
    """The machine's load average when the cell began: above 1 on 2 cores, others were at work too."""
    peak_mb: float = 0.0
    """Highest memory of the process tree, pages that it shares counted once, in MB (10^6 bytes)."""


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    if settings.cell:
        print(json.dumps(asdict(_measure(settings))))
        return
    cells = []
    with tempfile.TemporaryDirectory() as temporary:
        scratch = settings.scratch or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        for stage in settings.stages:
            for hours in settings.hours if stage.startswith("long") else (0.0,):
                load = round(os.getloadavg()[0], 1)
                cell = _in_child(stage, hours, settings, scratch.absolute())
                cells.append(replace(cell, workers=settings.workers, engine=settings.engine, load=load))
                print(_row(cells[-1]), flush=True)
                # After each, so that a run that is cut short has not been for nothing.
                settings.out.parent.mkdir(parents=True, exist_ok=True)
                settings.out.write_text(json.dumps(_result(settings, cells), indent=1) + "\n")
    print(f"\n{_title()}\n{_head()}\n" + "\n".join(map(_row, cells)) + f"\n\nwritten to {settings.out}")


def _in_child(stage: str, hours: float, settings: Settings, scratch: Path) -> Cell:
    flags = ["--cell", stage, "--work", str(scratch), "--hours", str(hours), "--copies", str(settings.copies)]
    flags += ["--workers", str(settings.workers), "--engine", settings.engine, "--base", settings.base]
    command = [sys.executable, "-m", "benchmarks.prepare", *flags]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    watch = _MemoryWatch(child.pid)
    watch.start()
    output, _ = child.communicate()
    if child.returncode:
        raise SystemExit(f"{stage} failed with exit status {child.returncode}")
    return Cell(**(json.loads(output.splitlines()[-1]) | {"peak_mb": round(watch.peak / 1e6, 1)}))


class _MemoryWatch(threading.Thread):
    """Looks at the memory of a process and all below it every 0.2 s."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._root = psutil.Process(pid)

    def run(self) -> None:
        while self._root.is_running():
            try:
                tree = [self._root, *self._root.children(recursive=True)]
                self.peak = max(self.peak, sum(map(_memory, tree)))
            except psutil.Error:
                pass
            time.sleep(0.2)


def _memory(process: psutil.Process) -> int:
    try:
        info = process.memory_full_info()
        return int(getattr(info, "pss", info.rss))
    except psutil.Error:
        return 0


def _measure(settings: Settings) -> Cell:
    makers = {"vad": _vad, "codes": _codes, "manifest": _manifest}
    stage = settings.cell
    if stage in makers:
        work, hours, items = makers[stage](settings)
    else:
        work, hours, items = _preparing(stage, settings)
    begin, cpu = time.perf_counter(), _processor_time()
    work()
    seconds, cpu = time.perf_counter() - begin, _processor_time() - cpu
    return Cell(stage=stage, hours=round(hours, 4), items=items, seconds=round(seconds, 3), cpu_s=round(cpu, 3))


def _processor_time() -> float:
    """Of this process, and of those below it, finished ones too, in seconds."""
    # The times of workers that ended are with the process that started them, which runs on.
    below = (child.cpu_times() for child in psutil.Process().children())
    return time.process_time() + sum(t.user + t.system + t.children_user + t.children_system for t in below)


Work = tuple[Callable[[], object], float, int]
"""The work, the hours of sound in it, and its clips, cues or rows."""


def _preparing(stage: str, settings: Settings) -> Work:
    import torch

    from utils.bases.find import find_base
    from utils.dataset.build import prepare

    torch.set_num_threads(1)
    find_base(settings.base).tokenizer().encode("Loads the text rules.", "en")
    kind = stage.removesuffix("-again")
    again_of = "clips-all" if stage == "clips-again" else kind
    source = settings.work / ("clips" if stage.startswith("clips") else f"long{settings.hours[0]}")
    if not source.exists():
        (_make_clips if stage.startswith("clips") else _make_long)(source, settings)
    more = {"clips": PLAIN, "clips-vad": SOUND, "clips-all": {}, "long": PLAIN}[again_of]
    config = PrepareConfig(
        project=again_of.replace(".", "-"),
        input=source,
        language="en",
        output=settings.work / f"out{settings.hours[0]}",
        base=settings.base,
        workers=settings.workers,
        engine=settings.engine,
        **more,
    )
    project = Project(name=config.project, output=config.output)
    if not stage.endswith("-again"):
        shutil.rmtree(project.folder, ignore_errors=True)
    elif not project.report.is_file():
        # Chosen without the cell before it: the first time is not what is measured.
        prepare(config)
    sounds = list(source.rglob("*.flac")) + list(source.rglob("*.wav"))
    total = sum(float(soundfile.info(sound).duration) for sound in sounds)
    items = len(sounds) if stage.startswith("clips") else (source / "long.srt").read_text().count("-->")
    return lambda: prepare(config), total / 3600, items


def _vad(settings: Settings) -> Work:
    import torch

    from utils.audio.decode import load_audio
    from utils.audio.voice_activity import VAD_RATE, load_voice_activity

    torch.set_num_threads(1)
    clips = read_manifest(assets_folder() / "demo_voice" / "metadata.csv")
    wavs = [load_audio(clip.audio, VAD_RATE) for clip in clips]
    model = load_voice_activity()
    return lambda: [model(wav) for wav in wavs], sum(w.shape[1] for w in wavs) / VAD_RATE / 3600, len(wavs)


def _codes(settings: Settings) -> Work:
    import torch

    from benchmarks.full_base import make_dvae
    from utils.audio.decode import load_audio
    from utils.model.dvae import CodeEncoder

    torch.manual_seed(0)
    # Speed does not depend on what the weights are.
    encoder = CodeEncoder(make_dvae().state_dict(), torch.ones(80))
    clips = [load_audio(c.audio, DATASET_RATE) for c in read_manifest(assets_folder() / "demo_voice" / "metadata.csv")]
    hours = sum(wav.shape[1] for wav in clips) / DATASET_RATE / 3600
    return lambda: [encoder(wav, [wav.shape[1]]) for wav in clips], hours, len(clips)


def _manifest(settings: Settings) -> Work:
    folder = settings.work / "manifest"
    (folder / "wavs").mkdir(parents=True, exist_ok=True)
    clips = []
    for number in range(100_000):
        audio = folder / "wavs" / f"clip{number:06}.wav"
        audio.touch()
        clips.append(Clip(audio=audio, text=f"Row {number} of a very long table.", speaker="one"))
    write_manifest(folder / "metadata.csv", clips)
    return lambda: read_manifest(folder / "metadata.csv"), 0.0, len(clips)


def _make_clips(folder: Path, settings: Settings) -> None:
    (folder / "wavs").mkdir(parents=True)
    clips = []
    for clip in read_manifest(assets_folder() / "demo_voice" / "metadata.csv"):
        pcm, sample_rate = soundfile.read(clip.audio, dtype="int16")
        for copy in range(settings.copies):
            # In mid-speech, where no cleaning takes it out again.
            pcm[8_000 : 8_000 + 40 * (copy + 1)] ^= 16
            # 44.1 kHz, as people record: every clip has to be resampled.
            audio = folder / "wavs" / f"{clip.audio.stem}-{copy}.flac"
            soundfile.write(audio, np.repeat(pcm, 2), 2 * sample_rate)
            clips.append(Clip(audio=audio, text=clip.text, speaker=clip.speaker))
    write_manifest(folder / "metadata.csv", clips)


def _make_long(folder: Path, settings: Settings) -> None:
    """One wav of this many hours, with the subtitles of its sentences."""
    folder.mkdir(parents=True)
    parts = read_manifest(assets_folder() / "demo_voice" / "metadata.csv")
    sounds = [soundfile.read(clip.audio, dtype="int16")[0] for clip in parts]
    cues, at, number = [], 0, 0
    with soundfile.SoundFile(folder / "long.wav", "w", 22_050, 1, "PCM_16") as file:
        while at < settings.hours[0] * 3600 * 22_050:
            pcm = sounds[number % len(sounds)].copy()
            # The number of the sentence in some of its samples, so that no two are the same sound.
            pcm[8_000:8_020] ^= np.array([(number >> bit & 1) * 64 for bit in range(20)], dtype=np.int16)
            file.write(pcm)
            file.write(np.zeros(6_615, dtype=np.int16))
            times = f"{_clock(at / 22_050)} --> {_clock((at + len(pcm)) / 22_050)}"
            cues.append(f"{number + 1}\n{times}\n{parts[number % len(parts)].text}\n")
            at, number = at + len(pcm) + 6_615, number + 1
    (folder / "long.srt").write_text("\n".join(cues), encoding="utf-8")


def _clock(seconds: float) -> str:
    """As SRT writes it: 01:02:03,456."""
    ms = round(seconds * 1_000)
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1_000 % 60:02},{ms % 1_000:03}"


def _title() -> str:
    return f"{cpu().model}, {os.cpu_count()} cores, torch {version('torch')}, load {os.getloadavg()[0]:.1f}"


def _head() -> str:
    heads = ("hours", "items", "seconds", "x clock", "x core", "peak MB")
    return f"{'':<58}" + "".join(f"{text:>9}" for text in heads)


def _row(cell: Cell) -> str:
    clock, core = (f"{cell.hours * 3600 / s:.0f}" if cell.hours else "" for s in (cell.seconds, max(cell.cpu_s, 1e-3)))
    texts = (f"{cell.hours:.2f}", str(cell.items), f"{cell.seconds:.2f}", clock, core, f"{cell.peak_mb:.0f}")
    return f"{STAGES[cell.stage]:<58}" + "".join(f"{text:>9}" for text in texts)


def _result(settings: Settings, cells: list[Cell]) -> dict[str, object]:
    """What the results file holds: these cells, and those of earlier calls that were not measured again."""
    measured = {(cell.stage, round(cell.hours), cell.workers, cell.engine) for cell in cells}
    try:
        before = [Cell(**cell) for cell in json.loads(settings.out.read_text())["cells"]]
    except (OSError, ValueError, KeyError, TypeError):
        before = []
    kept = [cell for cell in before if (cell.stage, round(cell.hours), cell.workers, cell.engine) not in measured]
    order = list(STAGES)
    merged = sorted([*kept, *cells], key=lambda cell: (order.index(cell.stage), cell.hours))
    return {
        "command": f"python -m benchmarks.prepare {' '.join(sys.argv[1:])}".strip(),
        "hardware": {"processor": cpu().model, "cores": os.cpu_count(), "system": platform.platform()},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "cells": [asdict(cell) for cell in merged],
    }


if __name__ == "__main__":
    main()
