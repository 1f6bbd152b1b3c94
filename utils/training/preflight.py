"""Measure the switches on the user's machine and clips: a few real steps of each combination, each in its own process.

`python -m utils.training.preflight SETTINGS.yaml 2 4` measures 4 steps of one after 2 that do not count, and prints one
line of JSON, the last of its output.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from utils.config import TrainConfig
from utils.errors import UserError, is_out_of_memory
from utils.hardware.environment import child_environment
from utils.jobs.child import hold
from utils.options import LORA_RANK
from utils.performance_utils.device import settle_device
from utils.performance_utils.memory import memory_stats
from utils.switches import FAST, MEASURED, SWITCHES
from utils.training.data.batches import Batch
from utils.training.plan import plan_run
from utils.training.switches.compile import compiler_problem
from utils.training.switches.optim import make_accelerator
from utils.training.train import set_up
from utils.training.trainer import OVERFLOW, Trainer

MAX_OVERFLOWS = 16
"""fp16 begins with a scale of 2^16, which each overflow halves."""
WARMUP, STEPS = 2, 3
BATCH_SIZES = (2, 4, 8, 16, 32)
MAX_EFFECTIVE = 16
"""Clips a step; 8 to 16 are known to train XTTS well."""
WORTH_IT = 1.05
"""A larger batch or another switch must be this much faster to be preferred to the plainer setting."""


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
        config.save(settings)
        command = [sys.executable, "-m", "utils.training.preflight", str(settings), str(warmup), str(steps)]
        child = subprocess.run(command, capture_output=True, text=True, env=child_environment(), check=False)
    lines = child.stdout.strip().splitlines()
    if child.returncode == 0 and lines:
        return Measurement(**json.loads(lines[-1]))
    if child.returncode in (-9, 137):
        return Measurement(fault="out of memory: the system ended the process")
    return Measurement(fault=(child.stderr.strip().splitlines() or ["it failed without a word"])[-1])


def measure_steps(config: TrainConfig, *, warmup: int, steps: int) -> Measurement:
    """Measure in this process; nothing is written but the cache of codes.

    Raises:
        UserError: as `fine_tune` does before training.
    """
    # A resumed run keeps its switches; what is measured is what these settings would do.
    plan = plan_run(replace(config, resume=None))
    device = settle_device(config.device)[0]
    accumulation = config.grad_accumulation
    with hold("preflight", device=device, output=config.output, folder=plan.project.folder):
        _, trainer, loaders = set_up(plan)
        optimizations = trainer.optimizations
        if device == "cuda":
            # Before the warm-up: it takes the largest batch, where memory is at its peak.
            torch.cuda.reset_peak_memory_stats()
        with closing(loaders):
            count = steps * accumulation
            # Blocks that are compiled want to have seen each shape.
            is_compiled = optimizations.switches.effective.compile != "off"
            largest_first = _groups(loaders.spread(count, largest=True), accumulation)
            _warm_up(trainer, largest_first, max(warmup, 1 + steps if is_compiled else 1))
            loader = loaders.spread(count, largest=False)
            scaler = trainer.scaler.is_enabled()
            observed = optimizations.report(trainer.gpt, trainer.optimizer, scaler=scaler, loader=loader)
            return _timed(trainer, _groups(loader, accumulation), steps, observed)


def _warm_up(trainer: Trainer, groups: Iterator[list[Batch]], steps: int) -> None:
    """This many steps, and more while fp16 overflows: what the optimizer does is seen only once it has run."""
    results = [trainer.step(next(groups)) for _ in range(steps)]
    while results[-1].skipped == OVERFLOW and len(results) < steps + MAX_OVERFLOWS:
        results.append(trainer.step(next(groups)))


def _timed(trainer: Trainer, groups: Iterator[list[Batch]], steps: int, observed: dict[str, Any]) -> Measurement:
    on_gpu = trainer.device.type == "cuda"
    finish_s(on_gpu=on_gpu)
    times, waits, batches, loss = [], [], [], 0.0
    begin_cpu = time.process_time()
    for _ in range(steps):
        begin = time.perf_counter()
        group = next(groups)
        waits.append(time.perf_counter() - begin)
        # The losses are read before the update, which may then still be in progress: the next step's time has it in it.
        loss = trainer.step(group).losses.total
        times.append(time.perf_counter() - begin)
        batches += group
    seconds = sum(times) + finish_s(on_gpu=on_gpu)
    cpu_s = time.process_time() - begin_cpu
    memory = memory_stats()
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
        batches = iter(loader)
        while group := list(islice(batches, size)):
            yield group


def main() -> None:
    settings, warmup, steps = sys.argv[1:]
    try:
        found = measure_steps(TrainConfig.load(Path(settings)), warmup=int(warmup), steps=int(steps))
    except UserError as error:
        found = Measurement(fault=str(error))
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        found = Measurement(fault="out of memory")
    sys.stdout.write(json.dumps(asdict(found)) + "\n")


@dataclass(frozen=True, kw_only=True)
class PreflightRow:
    """One combination and what it cost."""

    name: str
    config: TrainConfig
    measured: Measurement
    hours: float | None
    """Of the whole training, evaluations and checkpoints not included; None where it could not be measured."""


def preflight(
    config: TrainConfig, *, audio_s: float, fixed: Mapping[str, Any] | None = None
) -> Iterator[tuple[PreflightRow, int]]:
    """Measure each combination in a process of its own; yields each row at once, and how many follow.

    Args:
        config: settled settings; each combination changes some of them.
        audio_s: speech in one epoch, in seconds, for the predicted hours.
        fixed: settings that the user chose: they stay in every combination.
    """
    configs, kept = list[TrainConfig](), fixed or {}
    for changes in _combinations(config):
        changed = replace(config, **(changes | {key: value for key, value in kept.items() if key in changes}))
        # What the user chose may make two combinations one, or one that cannot be.
        if changed not in configs and not any(switch.problem(changed) for switch in SWITCHES):
            configs.append(changed)
    for number, changed in enumerate(configs, start=1):
        yield _row(_name(changed), changed, audio_s), len(configs) - number


def larger_batches(best: PreflightRow, *, audio_s: float) -> Iterator[tuple[PreflightRow, int]]:
    """The best combination with larger batches, like `preflight`; the effective batch stays as near as it can.

    Sizes are doubled until one does not fit or brings no more than 5 %: `is_better` says so.
    """
    effective = best.config.batch_size * best.config.grad_accumulation
    # More clips a step would want another learning rate.
    sizes = [size for size in BATCH_SIZES if best.config.batch_size < size <= max(effective, MAX_EFFECTIVE)]
    for number, size in enumerate(sizes, start=1):
        changed = replace(best.config, batch_size=size, grad_accumulation=max(1, round(effective / size)))
        row = _row(f"{_name(changed)}, batch {size}", changed, audio_s)
        yield row, len(sizes) - number if is_better(row, best) else 0
        if not is_better(row, best):
            return
        best = row


def is_better(row: PreflightRow, than: PreflightRow) -> bool:
    """Whether a combination trains so much faster that it is worth another setting."""
    return not row.measured.fault and row.measured.audio_per_second > WORTH_IT * than.measured.audio_per_second


def recommended(rows: list[PreflightRow]) -> PreflightRow | None:
    """The plainest combination that is within 5 % of the fastest; None when none could be measured.

    LoRA and 8-bit moments train something less: they are for where nothing else fits, however fast they are.
    """
    measured = [row for row in rows if not row.measured.fault]
    inexact = [switch for switch in MEASURED if not switch.is_exact]
    exact = [row for row in measured if not any(switch.is_on(row.config) for switch in inexact)]
    measured = exact or measured
    if not measured:
        return None
    fastest = max(row.measured.audio_per_second for row in measured)
    return next(row for row in measured if row.measured.audio_per_second * WORTH_IT >= fastest)


def _name(config: TrainConfig) -> str:
    """The switches that are on."""
    on = [switch.row(getattr(config, switch.field)) for switch in MEASURED if switch.row and switch.is_on(config)]
    return ", ".join(on) or "no switch"


def _combinations(config: TrainConfig) -> Iterator[dict[str, Any]]:
    """From the reference to everything; each next one adds to or changes what came before."""
    device = make_accelerator(config.device).device
    plain = {switch.field: switch.off for switch in MEASURED}
    fast = plain | FAST
    yield plain
    yield plain | {"sdpa": True}
    yield fast
    yield fast | {"gradient_checkpointing": "selective"}
    yield fast | {"gradient_checkpointing": "full"}
    if compiler_problem(device) is None:
        yield fast | {"compile": "default"}
        if device.type == "cuda":
            # A fast GPU waits for the processor that starts its kernels: on an H200 this is 1.4 to 2.4 times as fast.
            yield fast | {"compile": "reduce-overhead"}
    if device.type == "cuda":
        yield fast | {"gradient_checkpointing": "full", "eight_bit_optimizer": True}
    yield fast | {"gradient_checkpointing": "full", "lora_rank": LORA_RANK}


def _row(name: str, config: TrainConfig, audio_s: float) -> PreflightRow:
    measured = measure_apart(config, warmup=WARMUP, steps=STEPS)
    hours = None if measured.fault else (config.num_epochs or 1) * audio_s / measured.audio_per_second / 3_600
    return PreflightRow(name=name, config=config, measured=measured, hours=hours)


if __name__ == "__main__":
    main()
