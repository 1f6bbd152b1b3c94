"""What training starts from: a base, or the weights that an earlier run of the project came to."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from utils.config import TrainConfig
from utils.model.base import Base, find_base
from utils.model.weights import State, read_weights
from utils.model.xtts import GPT_PREFIX
from utils.paths import Project
from utils.runs import start_checkpoint
from utils.training.run_folder import run_base
from utils.training.state import MODEL_FILE, load_checkpoint

START_FILE = "start.safetensors"
"""In the folder of a run with LoRA: the weights of another run that its additions belong to."""


@dataclass(frozen=True)
class TrainedBase(Base):
    """A run's base with the GPT that the run came to."""

    gpt: Path
    """Its weight file."""

    def state(self) -> State:
        """The base's tensors, those of the GPT replaced.

        Raises:
            UserError: the checkpoint is damaged, or gone.
        """
        gpt = read_weights(self.gpt) if self.gpt.name == START_FILE else load_checkpoint(self.gpt.parent)
        others = {name: tensor for name, tensor in super().state().items() if not name.startswith(GPT_PREFIX)}
        return others | {GPT_PREFIX + name: tensor for name, tensor in gpt.items()}

    @property
    def weight_files(self) -> list[Path]:
        return [*super().weight_files, self.gpt]


def starting_base(config: TrainConfig, project: Project, resumed: Path | None = None) -> Base:
    """What the settings' base names.

    Args:
        config: `base` is what `find_base` takes, or run/ID/best or run/ID/last for a run of the project.
        project: whose run.
        resumed: the folder of the run that is gone on with: it needs nothing of the run it started from any more.

    Raises:
        UserError: there is no such base, run or complete checkpoint.
    """
    if resumed is None:
        checkpoint = start_checkpoint(project, config.base)
        if checkpoint is None:
            return find_base(config.base)
        return TrainedBase(run_base(checkpoint.parents[1]).folder, checkpoint / MODEL_FILE)
    kept = resumed / START_FILE
    if kept.is_file():
        return TrainedBase(run_base(resumed).folder, kept)
    # All other weights come from its own checkpoint. A base in the project's folder may have moved with it.
    is_elsewhere = Path(config.base).is_absolute() and not Path(config.base).exists()
    return run_base(resumed) if config.base.startswith("run/") or is_elsewhere else find_base(config.base)


def keep_start(folder: Path, config: TrainConfig, base: Base) -> None:
    """Keep what a new run with LoRA started from: its checkpoints hold additions to just these weights.

    Args:
        folder: the new run's.
        config: its settings.
        base: what it starts from; the file is shared with its checkpoint where the disk allows that.
    """
    if not isinstance(base, TrainedBase) or not config.lora_rank:
        return
    try:
        os.link(base.gpt, folder / START_FILE)
    except OSError:
        shutil.copyfile(base.gpt, folder / START_FILE)
