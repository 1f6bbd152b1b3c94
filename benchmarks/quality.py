"""Whether the switches cost quality: evaluation losses of stock coqui-tts in fp32 and of ours with all switches.

python -m benchmarks.quality trains the bundled voice from the same base with three seeds each, and lets one scorer, our
evaluation in float32, score the weights of all. A difference counts only beside the spread between seeds. What was
measured is written after each training, and --add continues a record that was cut off.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import islice, product
from pathlib import Path
from typing import Any

import torch
import tyro

from utils.config import TrainConfig
from utils.dataset.settings import PrepareConfig
from utils.hardware.environment import TORCH_ENVIRONMENT
from utils.hardware.processor import cpu
from utils.performance_utils import log_system_info
from utils.project.paths import Project, assets_folder

ROOT = Path(__file__).resolve().parent.parent
HALF = "auto" if torch.cuda.is_available() or cpu().emulates_bf16 else "bf16"
"""On a CPU, bf16 even where its instructions are slow: what it does to quality is measured, not its speed."""
ALL: dict[str, Any] = {"sdpa": True, "mixed_precision": HALF, "gradient_checkpointing": "full"}
ENGINES: dict[str, dict[str, Any]] = {
    "stock, fp32": {},
    "ours, all switches": ALL,
}
"""Their switches; the first is stock."""
STOCK = next(iter(ENGINES))
NEEDED_FALL = 0.15
"""Share by which stock's loss must fall: two engines that learn nothing would agree as well."""
DROPOUT = 0.1
"""Stock's own, which cannot be set there."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to compare."""

    base: str = "starter"
    """Base to train from."""
    learning_rate: float | None = 1e-5
    """Constant; the base's own when None. The starter's own learns 36 clips by heart within 60 steps."""
    steps: int = 300
    """Optimizer steps of each training."""
    every: int = 50
    """Steps between two evaluations."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds that all engines are given."""
    jobs: int = 1
    """Trainings at the same time, each in a process of its own."""
    add: bool = False
    """Add trainings to the record that is there, and keep its own."""
    batch_size: int = 4
    """Clips a step."""
    out: Path = ROOT / "benchmarks" / "results" / "quality.json"
    """Results file."""
    cell: str = ""
    """Train with one engine in this process and print its losses as JSON; used by the benchmark itself."""
    seed: int = 1
    """Seed of `cell`."""
    work: Path = Path()
    """Folder of `cell`."""


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    if settings.cell:
        sys.stdout.write(json.dumps(_train(settings)) + "\n")
        return
    with tempfile.TemporaryDirectory() as scratch:
        _prepare(Path(scratch), settings.base)
        curves = _earlier(settings) if settings.add else {engine: {} for engine in ENGINES}
        missing = [(seed, name) for seed, name in product(settings.seeds, ENGINES) if str(seed) not in curves[name]]
        with ThreadPoolExecutor(settings.jobs) as pool:
            running = {pool.submit(_apart, settings, name, seed, Path(scratch)): (seed, name) for seed, name in missing}
            for done in as_completed(running):
                seed, name = running[done]
                curves[name][str(seed)] = done.result()
                print(f"{name}, seed {seed}: {', '.join(f'{loss:.3f}' for loss in done.result())}", flush=True)
                _write(settings, curves)
    print(json.dumps(json.loads(settings.out.read_text(encoding="utf-8"))["verdicts"], indent=1))


def _earlier(settings: Settings) -> dict[str, dict[str, list[float]]]:
    """The curves of the record, by engine and seed.

    Raises:
        SystemExit: they were trained in another way.
    """
    record = json.loads(settings.out.read_text(encoding="utf-8"))
    same = ("base", "learning_rate", "steps", "every", "batch_size")
    if record["switches"] != ENGINES or any(record["settings"][name] != getattr(settings, name) for name in same):
        raise SystemExit(f"{settings.out}: other switches or settings: leave --add away, or name another --out")
    return {name: dict(record["curves"][name]) for name in ENGINES}


def _write(settings: Settings, curves: dict[str, dict[str, list[float]]]) -> None:
    """Write the record; engines are compared over the seeds that all of them have, once there are two."""
    seeds = sorted(set.intersection(*(set(found) for found in curves.values())))
    chosen = {name: [found[seed] for seed in seeds] for name, found in curves.items()}
    rivals = [name for name in ENGINES if name != STOCK and len(seeds) > 1]
    record = {
        "benchmark": "quality",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": {**asdict(settings), "out": None, "work": None},
        "switches": ENGINES,
        "system": log_system_info(),
        "curves": curves,
        "verdicts": {name: compare(chosen[STOCK], chosen[name]) for name in rivals},
    }
    settings.out.parent.mkdir(parents=True, exist_ok=True)
    settings.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def compare(stock: list[list[float]], ours: list[list[float]]) -> dict[str, Any]:
    """Compare the last evaluations of two engines' curves, seed by seed.

    Returns:
        fall: share by which stock's loss fell; counts: whether that is enough; difference: mean of ours minus stock's;
        spread: standard deviation between stock's seeds; within: whether ours is worse by no more than that.
    """
    fall = statistics.mean(1 - curve[-1] / curve[0] for curve in stock)
    differences = [mine[-1] - theirs[-1] for mine, theirs in zip(ours, stock, strict=True)]
    spread = statistics.stdev(curve[-1] for curve in stock)
    difference = statistics.mean(differences)
    return {
        "fall": fall,
        "counts": fall >= NEEDED_FALL,
        "stock": statistics.mean(curve[-1] for curve in stock),
        "ours": statistics.mean(curve[-1] for curve in ours),
        "difference": difference,
        "spread": spread,
        "within": difference <= spread,
    }


def _prepare(work: Path, base: str) -> None:
    from utils.dataset.build import prepare

    prepare(PrepareConfig(project="voice", input=assets_folder() / "demo_voice", language="en", output=work, base=base))


def _apart(settings: Settings, engine: str, seed: int, work: Path) -> list[float]:
    numbers = {name: getattr(settings, name) for name in ("base", "steps", "every")}
    flags = [f"--{name}={value}" for name, value in numbers.items()]
    flags += [f"--learning-rate={settings.learning_rate}"]
    flags += [f"--batch-size={settings.batch_size}", f"--cell={engine}", f"--seed={seed}", f"--work={work}"]
    command = [sys.executable, "-m", "benchmarks.quality", *flags]
    child = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=TORCH_ENVIRONMENT | os.environ, check=True
    )
    losses: list[float] = json.loads(child.stdout.strip().splitlines()[-1])
    return losses


def _train(settings: Settings) -> list[float]:
    """Evaluation losses before training and after every `every` steps."""
    from utils.training.plan import plan_run
    from utils.training.train import set_up

    plain = TrainConfig(
        project="voice",
        output=settings.work,
        base=settings.base,
        batch_size=settings.batch_size,
        num_epochs=10_000,
        schedule="constant",
        learning_rate=settings.learning_rate,
        seed=settings.seed,
        dropout=DROPOUT,
    )
    # One scorer for all, in float32; what trains hands it its weights.
    plan = plan_run(plain)
    _, scorer, held_out = set_up(plan)
    scored = trained = scorer.gpt
    if settings.cell == STOCK:
        steps = _stock(settings, plan.project, scored, plan.config.learning_rate or 0.0)
    else:
        _, trainer, loaders = set_up(plan_run(replace(plain, **ENGINES[settings.cell])))
        for name, reason in trainer.optimizations.switches.off.items():
            print(f"{settings.cell}: {name} is off: {reason}", file=sys.stderr)
        trained, steps = trainer.gpt, _ours(trainer, loaders)

    def evaluate() -> float:
        if trained is not scored:
            scored.load_state_dict(trained.state_dict())
        return float(scorer.evaluate(held_out.evaluation).total)

    losses = [evaluate()]
    while len(losses) <= settings.steps // settings.every:
        for _ in islice(steps, settings.every):
            pass
        losses.append(evaluate())
    return losses


def _ours(trainer: Any, loaders: Any) -> Iterator[None]:
    epoch = 0
    while True:
        for batch in loaders.train(epoch, 0):
            trainer.step([batch])
            yield
        epoch += 1


def _stock(settings: Settings, project: Project, scored: Any, learning_rate: float) -> Iterator[None]:
    """Stock's steps; after each evaluation interval its weights are in `scored`."""
    from benchmarks.stock import stock_steps
    from utils.bases.find import find_base

    steps = stock_steps(
        find_base(settings.base).folder,
        project,
        start=scored.state_dict(),
        learning_rate=learning_rate,
        batch_size=settings.batch_size,
        seed=settings.seed,
    )
    for number, gpt in enumerate(steps, start=1):
        if number % settings.every == 0:
            scored.load_state_dict(gpt.state_dict())
        yield


if __name__ == "__main__":
    main()
