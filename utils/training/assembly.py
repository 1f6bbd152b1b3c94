"""A trainer from settings, base and data: model, optimizer, schedule, on their device."""

import math

from accelerate import Accelerator

from utils.config import TrainConfig
from utils.hardware import keep_freed_memory
from utils.model.base import Base
from utils.model.mel import conditioning_mel
from utils.model.xtts import load_gpt
from utils.training.data import TrainingData
from utils.training.optim import make_schedule
from utils.training.trainer import Trainer
from utils.training_optimizations import TrainingOptimizer


def make_trainer(
    config: TrainConfig, base: Base, data: TrainingData, accelerator: Accelerator, optimizations: TrainingOptimizer
) -> Trainer:
    """The model on its device with optimizer and schedule.

    Args:
        config: settled settings.
        base: what to start from.
        data: as many clips as the schedule is to last for.
        accelerator: device and processes.
        optimizations: the switches; they are applied here.
    """
    assert config.num_epochs and config.learning_rate
    if accelerator.device.type == "cpu":
        keep_freed_memory()
    gpt = optimizations.optimize_model(load_gpt(base))
    gpt.options.reading_weight = config.reading_weight
    optimizer = optimizations.make_optimizer(gpt, learning_rate=config.learning_rate, weight_decay=config.weight_decay)
    total_steps = config.num_epochs * steps_per_epoch(config, data, accelerator.num_processes)
    return Trainer(
        model=gpt,
        optimizer=optimizer,
        schedule=make_schedule(optimizer, config.schedule, warmup_steps=config.warmup_steps, total_steps=total_steps),
        mel=conditioning_mel(base.mel_stats()).to(accelerator.device),
        accelerator=accelerator,
        precision=optimizations.switches.precision,
        grad_clip_norm=config.grad_clip_norm,
        seed=config.seed,
        watch=optimizations,
    )


def steps_per_epoch(config: TrainConfig, data: TrainingData, num_processes: int) -> int:
    """Optimizer steps of one pass over the training clips."""
    num_batches = math.ceil(len(data.train) / (config.batch_size * num_processes))
    return math.ceil(num_batches / config.grad_accumulation)
