"""Measure a few real training steps of one configuration, in a process whose peak memory is its own.

`python -m utils.training.measure SETTINGS.yaml --steps 4` prints one line of JSON, the last of its output.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from utils import jobs
from utils.bases.catalog import known_bases
from utils.config import TrainConfig
from utils.errors import UserError
from utils.jobs.environment import child_environment
from utils.performance_utils import is_out_of_memory
from utils.training.data.batches import Batch
from utils.training.plan import plan_run
from utils.training.setup import Setup, set_up
from utils.training.switches.optimizer import TrainingOptimizer
from utils.training.trainer import Trainer

MAX_OVERFLOWS = 16
"""fp16 begins with a scale of 2^16, which each overflow halves."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What some steps cost."""

    steps: int = 0
    step_s: float = 0.0
    """Median of a step, its loading included, in seconds."""
    seconds: float = 0.0
    """All steps, their loading and the last one's update included."""
    cpu_s: float = 0.0
    """Processor time of all steps, over all threads: what neighbors on the machine disturb least."""
    threads: int = 1
    """That torch computes with."""
    data_share: float = 0.0
    """Share of `seconds` spent waiting for batches."""
    audio_s: float = 0.0
    """Speech trained on, in seconds."""
    text_tokens: list[int] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    """Of each clip trained on: text tokens and codes; useful arithmetic is counted from these."""
    useful_share: float = 0.0
    """Positions of clips among those computed."""
    peak_bytes: int = 0
    """Most memory: allocated on CUDA, resident on a CPU."""
    reserved_bytes: int = 0
    """Most memory reserved on CUDA."""
    loss: float = 0.0
    """Of the last step."""
    switches: dict[str, Any] = field(default_factory=dict)
    """What each optimization switch really did."""
    fault: str = ""
    """Why there is no measurement: out of memory, or what the user can fix."""

    @property
    def audio_per_second(self) -> float:
        """Seconds of speech trained on in a second."""
        return self.audio_s / self.seconds if self.seconds else 0.0


def measure_apart(config: TrainConfig, *, warmup: int, steps: int) -> Measurement:
    """Measure in a child process; what goes wrong there is reported as `fault`.

    Args:
        config: settings of a prepared project.
        warmup: first steps, which are not counted.
        steps: steps that are.
    """
    with tempfile.TemporaryDirectory() as scratch:
        settings = Path(scratch) / "settings.yaml"
        _absolute(config).save(settings)
        flags = ["--warmup", str(warmup), "--steps", str(steps)]
        command = [sys.executable, "-m", "utils.training.measure", str(settings), *flags]
        child = subprocess.run(command, capture_output=True, text=True, env=child_environment(), check=False)
    lines = child.stdout.strip().splitlines()
    if child.returncode == 0 and lines:
        return Measurement(**json.loads(lines[-1]))
    if child.returncode in (-9, 137):
        return Measurement(fault="out of memory: the system ended the process")
    return Measurement(fault=(child.stderr.strip().splitlines() or ["it failed without a word"])[-1])


def _absolute(config: TrainConfig) -> TrainConfig:
    """The same settings for a process that runs in another folder."""
    # Some paths may be names instead, such as `resume last`: those lead nowhere from here.
    paths: dict[str, Any] = {
        name: value.absolute()
        for name, value in vars(config).items()
        if isinstance(value, Path) and (name == "output" or value.exists())
    }
    if config.base not in {entry.name for entry in known_bases()} and Path(config.base).is_dir():
        paths["base"] = str(Path(config.base).absolute())
    return replace(config, **paths)


def measure_steps(config: TrainConfig, *, warmup: int, steps: int) -> Measurement:
    """Measure in this process; nothing is written but the cache of codes.

    Raises:
        UserError: as `fine_tune` does before training.
    """
    # A resumed run keeps its switches; what is measured is what these settings would do.
    plan = plan_run(replace(config, resume=None))
    with jobs.hold("preflight", device=config.device, output=config.output, folder=plan.project.folder):
        return _measured(set_up(plan), config.grad_accumulation, warmup=warmup, steps=steps)


def _measured(setup: Setup, grad_accumulation: int, *, warmup: int, steps: int) -> Measurement:
    trainer, optimizations = setup.trainer, setup.optimizations
    if trainer.device.type == "cuda":
        # Before the warm-up: it takes the largest batch, where memory is at its peak.
        torch.cuda.reset_peak_memory_stats()
    with closing(setup.loaders) as loaders:
        count = steps * grad_accumulation
        # The largest batch first: memory is at its peak there. Blocks that are compiled want to have seen each shape.
        compiled = optimizations.switches.effective.compile != "off"
        _warm_up(
            trainer,
            _groups(loaders.spread(count, largest=True), grad_accumulation),
            max(warmup, 1 + steps if compiled else 1),
        )
        loader = loaders.spread(count, largest=False)
        groups = _groups(loader, grad_accumulation)
        observed = optimizations.report(
            trainer.gpt,
            trainer.optimizer,
            scaler=trainer.scaler.is_enabled(),
            loader=loader,
        )
        return _timed(trainer, groups, steps, observed)


def _warm_up(trainer: Trainer, groups: Iterator[list[Batch]], steps: int) -> None:
    """So many steps, and more while fp16 overflows: what the optimizer does is seen only once it has run."""
    results = [trainer.step(next(groups)) for _ in range(steps)]
    while results[-1].is_overflow and len(results) < steps + MAX_OVERFLOWS:
        results.append(trainer.step(next(groups)))


def _timed(trainer: Trainer, groups: Iterator[list[Batch]], steps: int, observed: dict[str, Any]) -> Measurement:
    on_gpu = trainer.device.type == "cuda"
    if on_gpu:
        torch.cuda.synchronize()
    times, waits, batches, loss = [], [], [], 0.0
    begin_cpu = time.process_time()
    for _ in range(steps):
        begin = time.perf_counter()
        group = next(groups)
        waits.append(time.perf_counter() - begin)
        # The losses are read before the update, which may then still be under way: the next step's time has it in it.
        loss = trainer.step(group).losses.total
        times.append(time.perf_counter() - begin)
        batches += group
    seconds = sum(times) + finish_s(on_gpu=on_gpu)
    cpu_s = time.process_time() - begin_cpu
    memory = TrainingOptimizer.get_memory_stats()
    computed = sum(batch.packed.gather_indices.numel() for batch in batches)
    return Measurement(
        steps=steps,
        step_s=statistics.median(times),
        seconds=seconds,
        cpu_s=cpu_s,
        threads=torch.get_num_threads(),
        data_share=sum(waits) / seconds,
        audio_s=sum(batch.audio_seconds for batch in batches),
        text_tokens=[length for batch in batches for length in batch.text_lengths],
        codes=[length for batch in batches for length in batch.code_lengths],
        useful_share=sum(batch.packed.num_positions for batch in batches) / computed,
        peak_bytes=memory["peak_bytes"] if on_gpu else memory["peak_rss_bytes"],
        reserved_bytes=torch.cuda.max_memory_reserved() if on_gpu else 0,
        loss=loss,
        switches=observed,
    )


def finish_s(*, on_gpu: bool) -> float:
    """Seconds until the device has done all its work: of the last step, its update."""
    begin = time.perf_counter()
    if on_gpu:
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def _groups(loader: DataLoader, size: int) -> Iterator[list[Batch]]:
    """Micro-batches of one step each, again and again."""
    while True:
        group: list[Batch] = []
        for batch in loader:
            group.append(batch)
            if len(group) == size:
                yield group
                group = []
        if group:
            yield group


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", type=Path)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    flags = parser.parse_args()
    try:
        found = measure_steps(TrainConfig.load(flags.settings), warmup=flags.warmup, steps=flags.steps)
    except UserError as error:
        found = Measurement(fault=str(error))
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        found = Measurement(fault="out of memory")
    sys.stdout.write(json.dumps(asdict(found)) + "\n")


if __name__ == "__main__":
    main()
