"""What saving a full-size checkpoint costs, and its share of training at the default interval.

python -m benchmarks.checkpoint: the 441 M parameters of XTTS v2's GPT with random weights and both Adam moments, saved
as training saves them: beside it, while this thread computes on, and with training standing still. About 11 GB of
disk are taken for the time of the run. Reading the checkpoint back through its hashes is timed, too.
"""

import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import tyro

from utils.config import TrainConfig
from utils.hardware.estimates import XTTS_V2
from utils.hardware.processor import cpu
from utils.model.gpt import XttsGpt
from utils.model.shapes import GptShape
from utils.runs.checkpoints import Checkpoints, num_bytes, verify
from utils.runs.log import EventWriter
from utils.runs.saver import Saver, Snapshot
from utils.training.checkpointing import files_of
from utils.training.switches.optim import make_optimizer

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("torch", "safetensors", "numpy")
TARGET_SHARE = 0.02
"""Saving may take this share of training time."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to measure."""

    rounds: int = 2
    """Saves of each kind; the median counts."""
    layers: int = 30
    """Blocks of the GPT; XTTS v2 has 30. Fewer are for trying the benchmark out."""
    folder: Path | None = None
    """Where to write; a temporary folder when not given."""
    device: str = "cpu"
    """Where the weights live: cpu or cuda."""
    out: Path = ROOT / "benchmarks" / "results" / "checkpoint.json"
    """Results file."""


@dataclass(frozen=True, kw_only=True)
class Save:
    """One save."""

    kind: str
    """beside: a thread writes a copy; waiting: training stands still."""
    waited_s: float
    """How long training stood still."""
    save_s: float
    """Until the checkpoint was complete and synced."""
    steps_meanwhile: int
    """Products of the bystander while a thread wrote."""


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    with tempfile.TemporaryDirectory(dir=settings.folder) as scratch:
        result = _measure(settings, Path(scratch))
    print(_table(result))
    settings.out.parent.mkdir(parents=True, exist_ok=True)
    settings.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"\nwritten to {settings.out}")


def _measure(settings: Settings, scratch: Path) -> dict[str, Any]:
    gpt, optimizer = _trained(settings)
    run_log = EventWriter(scratch / "events.jsonl")
    saver = Saver(Checkpoints(scratch), run_log)
    saves, idle = [], _idle_rate(settings)
    for number in range(settings.rounds):
        # Best weights are part of the first: a second name for the same file.
        saves.append(_save(saver, gpt, optimizer, number * 2 + 1, "beside", settings))
        saves.append(_save(saver, gpt, optimizer, number * 2 + 2, "waiting", settings))
    last = Checkpoints(scratch).last()
    assert last is not None and saver.failure is None
    begun = time.perf_counter()
    verify(last)
    verify_s = time.perf_counter() - begun
    files = {file.name: file.stat().st_size for file in sorted(last.iterdir())}
    needed = num_bytes(files_of(gpt, optimizer))
    run_log.close()
    minutes = TrainConfig(project="bench").checkpoint_minutes
    kinds = {kind: _median([save for save in saves if save.kind == kind]) for kind in {save.kind for save in saves}}
    return {
        "command": "python -m benchmarks.checkpoint",
        "hardware": {"processor": cpu().model, "cores": os.cpu_count(), "system": platform.platform()},
        "load": os.getloadavg() if hasattr(os, "getloadavg") else None,
        "device": settings.device,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "parameters": sum(parameter.numel() for parameter in gpt.parameters()),
        "files": files,
        "bytes": sum(files.values()),
        "overhead": sum(files.values()) / needed - 1,
        "disk_free_bytes": shutil.disk_usage(scratch).free,
        "verify_s": round(verify_s, 2),
        "interval_minutes": minutes,
        "target_share": TARGET_SHARE,
        "bystander_per_s": round(idle, 1),
        "kinds": {kind: asdict(save) | {"share": save.waited_s / (minutes * 60)} for kind, save in kinds.items()},
        "saves": [asdict(save) for save in saves],
    }


def _trained(settings: Settings) -> tuple[XttsGpt, torch.optim.Optimizer]:
    """The model after one optimizer step, so that all moments are there."""
    size = XTTS_V2
    shape = GptShape(
        layers=settings.layers,
        width=size.width,
        heads=size.heads,
        text_rows=size.text_rows,
        audio_rows=size.audio_rows,
        start_text=261,
        stop_text=0,
        start_audio=1024,
        stop_audio=1025,
        max_text_tokens=402,
        max_audio_tokens=605,
    )
    gpt = XttsGpt(shape).to(settings.device)
    optimizer = make_optimizer(gpt, learning_rate=1e-5, weight_decay=0.01)
    for parameter in gpt.parameters():
        parameter.grad = torch.full_like(parameter, 1e-3)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return gpt, optimizer


def _save(
    saver: Saver, gpt: XttsGpt, optimizer: torch.optim.Optimizer, step: int, kind: str, settings: Settings
) -> Save:
    print(f"saving, {kind}", file=sys.stderr)
    before, spent = saver.waited_s, saver.save_s
    snapshot = Snapshot(
        step=step,
        files=files_of(gpt, optimizer),
        state={"epoch": 1},
        best_loss=1.0 if step == 1 else None,
    )
    saver.save(snapshot, wait=kind == "waiting")
    # Where memory has no room for a copy, training waits whatever was asked for.
    kind = "beside" if saver._thread is not None else "waiting"
    waited_s, products = saver.waited_s - before, 0
    while saver._thread is not None and saver._thread.is_alive():
        products += _product(settings)
    saver.finish()
    return Save(
        kind=kind,
        waited_s=round(waited_s, 3),
        save_s=round(saver.save_s - spent, 3),
        steps_meanwhile=products,
    )


def _idle_rate(settings: Settings) -> float:
    """The bystander's products a second while nothing is saved."""
    begun, products = time.perf_counter(), 0
    while time.perf_counter() - begun < 2:
        products += _product(settings)
    return products / (time.perf_counter() - begun)


def _product(settings: Settings) -> int:
    """A bit of what training does meanwhile."""
    matrix = torch.ones(256, 256, device=settings.device)
    (matrix @ matrix).sum().item()
    return 1


def _median(saves: list[Save]) -> Save:
    return Save(
        kind=saves[0].kind,
        waited_s=statistics.median(save.waited_s for save in saves),
        save_s=statistics.median(save.save_s for save in saves),
        steps_meanwhile=round(statistics.median(save.steps_meanwhile for save in saves)),
    )


def _table(result: dict[str, Any]) -> str:
    share = f"share of {result['interval_minutes']:.0f} min"
    lines = [
        f"{result['parameters'] / 1e6:.1f} M parameters, {result['bytes'] / 1e9:.2f} GB on disk "
        f"({result['overhead']:+.2%} beyond weights and moments), {result['hardware']['processor']} "
        f"{result['hardware']['cores']} cores, {result['device']}, torch {result['versions']['torch']}",
        f"{'':<12}{'training waits':>16}{'complete after':>16}{share:>18}",
    ]
    for kind, save in result["kinds"].items():
        lines.append(f"{kind:<12}{save['waited_s']:>14.2f} s{save['save_s']:>14.2f} s{save['share']:>18.2%}")
    lines.append(f"read back through its hashes in {result['verify_s']:.1f} s; best weights take no more disk")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
