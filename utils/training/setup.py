"""A run's plan on its device: the clips, the model with its optimizer, and what reads the batches."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object

from utils.bases.base import Base
from utils.bases.loading import load_gpt
from utils.callbacks import ProgressFn
from utils.config import TrainConfig
from utils.errors import UserError
from utils.hardware import keep_freed_memory
from utils.model.mel import conditioning_mel
from utils.training.data.load import TrainingData, load_data
from utils.training.data.loaders import Loaders
from utils.training.optimizer.make import make_schedule
from utils.training.optimizer.precision import make_accelerator
from utils.training.optimizer.sharding import make_gradient_sum
from utils.training.plan import RunPlan, micro_batches_of, require_resumable
from utils.training.switches.optimizer import TrainingOptimizer
from utils.training.trainer import Trainer

PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A plan on its device: all that computes."""

    accelerator: Accelerator
    optimizations: TrainingOptimizer
    data: TrainingData
    trainer: Trainer
    loaders: Loaders


def set_up(plan: RunPlan, progress: ProgressFn | None = None) -> Setup:
    """Read and encode the clips, and put the model on the device, which this process must have claimed.

    Args:
        plan: of the run.
        progress: called while the clips are read.

    Raises:
        UserError: a fault of the clips, or the run cannot be resumed with them.
    """
    accelerator = make_accelerator(plan.config.device)
    optimizations = TrainingOptimizer.from_config(plan.config, accelerator.device)
    global_micro_batches = micro_batches_of(plan, accelerator.num_processes)
    data = load_data(plan.config, plan.project, plan.base, accelerator, progress)
    require_resumable(plan, data.fingerprint())
    if accelerator.num_processes > 1:  # the hash reads every file of the package
        require_alike({"settings": repr(plan.config), "clips": data.fingerprint(), "code": _code()})
    loaders = Loaders(plan.config, plan.base, data, accelerator, optimizations.switches, global_micro_batches)
    return Setup(
        accelerator=accelerator,
        optimizations=optimizations,
        data=data,
        trainer=make_trainer(plan.config, plan.base, accelerator, optimizations, total_steps=loaders.steps_left(0, 0)),
        loaders=loaders,
    )


def require_alike(facts: dict[str, str]) -> None:
    """Do nothing where all processes have the same; asked by all of them, before any trains.

    Args:
        facts: what has to be the same, by its name.

    Raises:
        UserError: raised in all processes: computers with another checkout or dataset would train another model each.
    """
    everywhere: list[dict[str, str]] = gather_object([facts])
    for name, value in everywhere[0].items():
        others = [rank for rank, found in enumerate(everywhere) if found[name] != value]
        if others:
            raise UserError(
                what=f"process {', '.join(map(str, others))} of {len(everywhere)} has other {name} than process 0",
                where="training in several processes",
                fix="give all computers the same checkout, packages, dataset and command",
            )


def _code() -> str:
    """Changes with the code that trains."""
    found = hashlib.sha256(torch.__version__.encode())
    for file in sorted(PACKAGE.rglob("*.py")):
        found.update(file.read_bytes())
    return found.hexdigest()


def make_trainer(
    config: TrainConfig, base: Base, accelerator: Accelerator, optimizations: TrainingOptimizer, *, total_steps: int
) -> Trainer:
    """The model on its device with optimizer and schedule.

    Args:
        config: settled settings.
        base: what to start from.
        accelerator: device and processes.
        optimizations: the switches; they are applied here.
        total_steps: that the schedule is to last for.
    """
    assert config.learning_rate
    if accelerator.device.type == "cpu":
        keep_freed_memory()
    gpt = optimizations.optimize_model(load_gpt(base))
    gpt.options.reading_weight = config.reading_weight
    # Before the optimizer: where weights are cut, it moves this process' part of each.
    gradient_sum = make_gradient_sum(gpt, accelerator, optimizations.switches.effective)
    optimizer = optimizations.make_optimizer(gpt, learning_rate=config.learning_rate, weight_decay=config.weight_decay)
    return Trainer(
        model=gpt,
        optimizer=optimizer,
        schedule=make_schedule(optimizer, config.schedule, warmup_steps=config.warmup_steps, total_steps=total_steps),
        mel=conditioning_mel(base.mel_stats()).to(accelerator.device),
        accelerator=accelerator,
        precision=optimizations.switches.effective.mixed_precision,
        grad_clip_norm=config.grad_clip_norm,
        seed=config.seed,
        watch=optimizations,
        gradient_sum=gradient_sum,
    )
