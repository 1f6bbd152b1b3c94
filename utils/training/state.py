"""A run in training: its state, which a checkpoint holds, and its services, which a checkpoint does not hold."""

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from utils.callbacks import StepProgress
from utils.config import TrainConfig
from utils.jobs.stopping import StopRequest
from utils.performance_utils import PerformanceTracker
from utils.performance_utils.rank_meter import RankMeter
from utils.runs.checkpoints import Checkpoints
from utils.runs.log import RunLog
from utils.runs.saver import Saver
from utils.training.data.batches import Batch
from utils.training.data.loaders import Loaders
from utils.training.divergence import Divergence
from utils.training.optimizer.sharding import is_sharded
from utils.training.peers import Peers
from utils.training.recovery import Recovery
from utils.training.samples import SampleQueue
from utils.training.switches.base import Report
from utils.training.switches.optimizer import TrainingOptimizer
from utils.training.trainer import Trainer


@dataclass(kw_only=True)
class RunState:
    """Where a run is, as JSON values; state.json holds them beside what the services say of themselves."""

    data: str
    """Fingerprint of the clips."""
    epoch: int = 0
    batches_done: int = 0
    """Micro-batches of this epoch that all processes together have trained on."""
    losses: list[float] = field(default_factory=list)
    """Loss of each step of this epoch."""
    epoch_losses: list[float] = field(default_factory=list)
    """Mean training loss of each epoch."""
    best_loss: float = float("inf")
    """Lowest evaluation loss."""
    evals_without_gain: int = 0
    """Evaluations in a row that were no better."""
    first_loss: float = float("nan")
    last_loss: float = float("nan")
    candidate: list[float] | None = None
    """Step and evaluation loss of the newest weights that are better than the best on the disk."""

    def to_json(self) -> dict[str, Any]:
        """A copy: the lists go on growing while a thread writes it."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any], *, data: str) -> Self:
        """The state that a checkpoint holds.

        Args:
            values: from `to_json`, or of an earlier version that knew fewer of them.
            data: fingerprint of the clips there are now, whatever they were then.
        """
        known = {name: values[name] for name in (one.name for one in fields(cls)) if name in values}
        return cls(**(known | {"data": data}))


@dataclass(kw_only=True)
class Services:
    """What a run works with."""

    config: TrainConfig
    """As it was planned."""
    settings: dict[str, Any]
    """What a later resume must find the same, as JSON values."""
    trainer: Trainer
    optimizations: TrainingOptimizer
    loaders: Loaders
    """Makes the batches that train."""
    eval_loader: Iterable[Batch]
    checkpoints: Checkpoints
    saver: Saver
    log: RunLog
    sampling: SampleQueue
    """Has each evaluation's weights spoken beside training."""
    recovery: Recovery
    """Takes the trainer's steps, in smaller pieces where memory runs out."""
    divergence: Divergence
    """Counts the steps that were skipped."""
    resume_command: str
    """For the user's shell."""
    progress: StepProgress | None
    tracker: PerformanceTracker
    """Throughput of this process."""
    peers: Peers
    """The other processes of the run."""
    meter: RankMeter
    """What this process does in an epoch, beside the others."""
    stop: StopRequest = field(default_factory=StopRequest)
    begun: float = field(default_factory=time.monotonic)
    """When this process began to train, on a clock that only runs forward."""
    memory_logged: float | None = None
    """When memory was last logged, on a clock that only runs forward; None before the first step."""
    switches_logged: Report = field(default_factory=dict)
    """What was last logged of the optimization switches; empty before the first step."""

    @property
    def num_epochs(self) -> int:
        assert self.config.num_epochs
        return self.config.num_epochs

    @property
    def is_writer(self) -> bool:
        """Whether this is the process that writes the run's files."""
        return self.trainer.accelerator.is_main_process

    @property
    def is_sharded(self) -> bool:
        """Whether the weights are sharded among the processes, which then save together."""
        return is_sharded(self.trainer.gpt)

    def total_steps(self, state: RunState) -> int:
        """Steps at the end of the last epoch, from where the run is now."""
        return self.trainer.num_steps + self.loaders.steps_left(state.epoch, state.batches_done)


def best_loss_at(step: int, candidate: list[float] | None) -> float | None:
    """Evaluation loss of the weights at a step, when they are to be kept as the best."""
    return candidate[1] if candidate is not None and candidate[0] == step else None
