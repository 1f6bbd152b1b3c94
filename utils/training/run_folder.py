"""A run's folder: made with all it needs to be exported, claimed by the process that trains in it."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list

from utils import jobs
from utils.audio.decode import load_audio
from utils.audio.write import write_wav
from utils.bases.base import Base, where_it_lies
from utils.bases.find import find_base
from utils.checkpoints.layout import MODEL_FILE, ModelRef
from utils.checkpoints.store import load_checkpoint, read_state, sync
from utils.config import SAMPLE_RATE, TrainConfig
from utils.errors import UserError
from utils.model.weights import State, read_weights, write_pickle
from utils.model.xtts import GPT_PREFIX
from utils.project.paths import Project, new_run_id
from utils.training.data.load import TrainingData
from utils.training.resuming import Resumed
from utils.training.settings import portable

BASE_FOLDER = "base"
"""Folder in a run with the small files of its base."""
REFERENCE_FILE = "reference.wav"
SETTINGS_FILE = "config.yaml"


def make_folder(
    config: TrainConfig,
    project: Project,
    base: Base,
    data: TrainingData,
    accelerator: Accelerator,
    resumed: Resumed | None,
) -> Path:
    """The run's folder, the same for all processes: the resumed run's, or a new one that the first process makes.

    Args:
        config: settled settings.
        project, base, data: what is trained.
        accelerator: its first process makes the folder.
        resumed: what is gone on from, if anything.

    Raises:
        UserError: the run exists already, or another run has the device.
    """
    name = [str(resumed.run if resumed else project.runs / (config.run_id or new_run_id()))]
    broadcast_object_list(name)
    folder = Path(name[0])
    if accelerator.is_main_process:
        if not resumed:
            _furnish(folder, portable(config, project), base, data)
        _claim(folder, config, project, is_new=not resumed)
    accelerator.wait_for_everyone()
    return folder


def run_base(run: Path) -> Base:
    """The base a run started from, also where it was moved together with the project.

    Raises:
        UserError: its folder is gone.
    """
    try:
        origin = json.loads((run / "base.json").read_text(encoding="utf-8"))
        folder = Path(origin["folder"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(what=f"the run does not say which base it started from: {error}", where=str(run)) from error
    project = run.absolute().parent.parent
    folder = where_it_lies(folder, project, project / "dataset")
    if not folder.is_dir():
        raise UserError(
            what=f"the run's base {origin['name']} is gone", where=str(folder), fix="download or make it again there"
        )
    return Base(folder)


def _claim(folder: Path, config: TrainConfig, project: Project, *, is_new: bool) -> None:
    """Make the run known as the one on its device.

    Raises:
        UserError: another run has the device; a folder that was just made for nothing is taken away again.
    """
    try:
        jobs.register(folder, "train", device=config.device, output=project.output)
    except UserError:
        if is_new:
            shutil.rmtree(folder)
        raise


def renew_settings(config: TrainConfig, resumed: Resumed) -> None:
    """Write changed settings into config.yaml; the former ones stay beside them, named by the step they reached.

    Args:
        config: portable settings.
        resumed: a run that was taken up: one that cannot go on keeps its settings as they are.
    """
    if not resumed.changed:
        return
    file = resumed.run / SETTINGS_FILE
    former = resumed.run / f"config-until-{read_state(resumed.checkpoint)['step']:08d}.yaml"
    if not former.exists():
        shutil.copyfile(file, former)
    aside = file.with_suffix(".part")
    config.save(aside)
    sync(aside)
    aside.replace(file)
    sync(file.parent)


def _furnish(folder: Path, config: TrainConfig, base: Base, data: TrainingData) -> None:
    """Make the run folder with its settings, the base's small files and the reference recording."""
    # A job's folder is made by who starts the job, with the settings in it; a run's own files come with the run.
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "base.json").exists():
        raise UserError(what=f"run {folder.name!r} exists already", where=str(folder), fix="choose another run_id")
    config.save(folder / SETTINGS_FILE)
    own = folder / BASE_FOLDER
    own.mkdir()
    for name in ("config.json", "vocab.json", "speakers_xtts.pth"):
        if (base.folder / name).is_file():
            shutil.copyfile(base.folder / name, own / name)
    if not (own / "speakers_xtts.pth").is_file():
        # v2.0.2 has no studio speakers; stock reads an empty list of them just as well.
        write_pickle(own / "speakers_xtts.pth", {})
    origin = {"name": base.name, "folder": str(base.folder.absolute())}
    (folder / "base.json").write_text(json.dumps(origin), encoding="utf-8")
    longest = max(data.train, key=lambda clip: clip.num_samples)
    write_wav(folder / REFERENCE_FILE, load_audio(longest.audio, SAMPLE_RATE), SAMPLE_RATE)


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
        config: `base` is a `ModelRef`.
        project: whose run.
        resumed: the folder of the run that is gone on with: it needs nothing of the run it started from any more.

    Raises:
        UserError: there is no such base, run or complete checkpoint.
    """
    if resumed is None:
        ref = ModelRef.parse(config.base)
        if ref.kind == "base":
            return find_base(config.base)
        checkpoint = ref.resolve(project)
        if ref.kind == "ready":
            return find_base(str(checkpoint))
        return TrainedBase(run_base(checkpoint.parents[1]).folder, checkpoint / MODEL_FILE)
    kept = resumed / START_FILE
    if kept.is_file():
        return TrainedBase(run_base(resumed).folder, kept)
    # All other weights come from its own checkpoint. A base in the project's folder may have moved with it.
    is_elsewhere = Path(config.base).is_absolute() and not Path(config.base).exists()
    is_own = ModelRef.parse(config.base).kind == "base" and not is_elsewhere
    return find_base(config.base) if is_own else run_base(resumed)


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
