"""A run's plan on its device: the clips, the model with its optimizer, and what reads the batches."""

from dataclasses import dataclass

from accelerate import Accelerator

from utils.bases.base import Base
from utils.bases.loading import load_gpt
from utils.callbacks import ProgressFn
from utils.config import TrainConfig
from utils.hardware import keep_freed_memory
from utils.model.mel import conditioning_mel
from utils.training.data.load import TrainingData, load_data
from utils.training.data.loaders import Loaders
from utils.training.distributed import require_alike, wrap
from utils.training.optimizer.make import make_schedule
from utils.training.optimizer.precision import make_accelerator
from utils.training.plan import RunPlan, micro_batches_of, require_resumable
from utils.training.switches.optimizer import TrainingOptimizer
from utils.training.trainer import Trainer


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
    if accelerator.num_processes > 1:
        require_alike({"settings": repr(plan.config), "clips": data.fingerprint()})
    loaders = Loaders(plan.config, plan.base, data, accelerator, optimizations.switches, global_micro_batches)
    return Setup(
        accelerator=accelerator,
        optimizations=optimizations,
        data=data,
        trainer=make_trainer(plan.config, plan.base, accelerator, optimizations, total_steps=loaders.steps_left(0, 0)),
        loaders=loaders,
    )


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
        parallel=wrap(gpt, accelerator.device) if accelerator.num_processes > 1 else None,
    )
