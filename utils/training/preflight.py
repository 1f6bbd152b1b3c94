"""Measure the switches on the user's machine and clips: a few real steps of each combination."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from utils.callbacks import ProgressFn
from utils.config import TrainConfig
from utils.hardware import GIB
from utils.switches import FAST, MEASURED, SWITCHES, missed
from utils.training.measure import Measurement, measure_apart
from utils.training.optimizer.precision import make_accelerator
from utils.training.switches.compile import compiler_problem

Seen = Callable[["Row", int], None]
"""Called with each row when it is measured, and how many may follow."""
Measure = Callable[[TrainConfig], Measurement]

WARMUP, STEPS = 2, 3
BATCH_SIZES = (2, 4, 8, 16, 32)
MAX_EFFECTIVE = 16
"""Clips a step; 8 to 16 are known to train XTTS well."""
WIDTH = 66
"""Of the names of combinations; the longest one of a CPU and a batch fit."""
WORTH_IT = 1.05
"""A larger batch or another switch must be this much faster to be preferred to the plainer setting."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One combination and what it cost."""

    name: str
    config: TrainConfig
    measured: Measurement
    hours: float | None
    """Of the whole training, evaluations and checkpoints not included; None where it could not be measured."""


def preflight(
    config: TrainConfig,
    *,
    audio_s: float,
    fixed: Mapping[str, Any] | None = None,
    progress: ProgressFn | None = None,
    seen: Seen | None = None,
    measure: Measure | None = None,
) -> list[Row]:
    """Measure each combination in a process of its own.

    Args:
        config: settled settings; each combination changes some of them.
        audio_s: speech in one epoch, in seconds, for the predicted hours.
        fixed: settings that the user chose: they stay in every combination.
        progress: called with how far it is.
        seen: called with each row at once: a long measurement that is interrupted has those.
        measure: does a measurement; the real one when not given.
    """
    measure = measure or (lambda changed: measure_apart(changed, warmup=WARMUP, steps=STEPS))
    configs = _with_fixed(config, fixed or {})
    rows = []
    for number, changed in enumerate(configs):
        name = _name(changed)
        if progress:
            progress(name, number, len(configs))
        rows.append(_row(name, changed, audio_s, measure))
        if seen:
            seen(rows[-1], len(configs) - len(rows))
    return rows


def larger_batches(
    best: Row,
    *,
    audio_s: float,
    progress: ProgressFn | None = None,
    seen: Seen | None = None,
    measure: Measure | None = None,
) -> Row:
    """The batch size that trains fastest with the best combination; the effective batch stays as near as it can.

    Sizes are doubled until one does not fit or brings no more than 5 %.
    """
    measure = measure or (lambda changed: measure_apart(changed, warmup=WARMUP, steps=STEPS))
    effective = best.config.batch_size * best.config.grad_accumulation
    # More clips a step would want another learning rate.
    sizes = [size for size in BATCH_SIZES if best.config.batch_size < size <= max(effective, MAX_EFFECTIVE)]
    for number, size in enumerate(sizes):
        if progress:
            progress(f"batch {size}", number, len(sizes))
        changed = replace(best.config, batch_size=size, grad_accumulation=max(1, round(effective / size)))
        row = _row(f"{_name(changed)}, batch {size}", changed, audio_s, measure)
        needed = WORTH_IT * best.measured.audio_per_second
        is_better = not row.measured.fault and row.measured.audio_per_second > needed
        if seen:
            seen(row, len(sizes) - number - 1 if is_better else 0)
        if not is_better:
            break
        best = row
    return best


def recommended(rows: list[Row]) -> Row | None:
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


def head() -> str:
    """What stands above the lines."""
    return f"{'':{WIDTH}}{'s/step':>8}{'audio-s/s':>11}{'peak GB':>9}{'hours':>8}"


def line(row: Row) -> str:
    """A measurement."""
    seen = row.measured
    if seen.fault:
        return f"{row.name:{WIDTH}}{seen.fault}"
    off = ", ".join(missed(seen.switches))
    numbers = f"{seen.step_s:8.2f}{seen.audio_per_second:11.2f}{seen.peak_bytes / GIB:9.2f}{row.hours or 0:8.2f}"
    return f"{row.name:{WIDTH}}{numbers}" + (f"   off: {off}" if off else "")


def _with_fixed(config: TrainConfig, fixed: Mapping[str, Any]) -> list[TrainConfig]:
    """The combinations that can be with what the user chose, each once."""
    found: list[TrainConfig] = []
    for changes in _combinations(config):
        changed = replace(config, **(changes | {key: value for key, value in fixed.items() if key in changes}))
        if changed not in found and not any(switch.problem(changed) for switch in SWITCHES):
            found.append(changed)
    return found


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
        yield fast | {"gradient_checkpointing": "full", "eight_bit_optimizer": True}
    yield fast | {"gradient_checkpointing": "full", "lora_rank": 32}


def _row(name: str, config: TrainConfig, audio_s: float, measure: Measure) -> Row:
    measured = measure(config)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    seconds = None if measured.fault else (config.num_epochs or 1) * audio_s / measured.audio_per_second
    return Row(name=name, config=config, measured=measured, hours=None if seconds is None else seconds / 3600)
