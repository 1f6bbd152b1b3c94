"""A run's folder: made with all it needs to be exported, claimed by the process that trains in it."""

import json
import os
import shutil
from pathlib import Path

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list

from utils.audio.decode import load_audio
from utils.audio.write import write_wav
from utils.config import TrainConfig
from utils.errors import UserError
from utils.files import replacing, share_file, write_atomic
from utils.jobs.child import register
from utils.model.weights import write_pickle
from utils.options import DATASET_RATE
from utils.project.paths import new_run_id
from utils.runs.layout import BASE_FOLDER, REFERENCE_FILE
from utils.training.data.base import START_FILE, TrainedBase
from utils.training.data.load import TrainingData
from utils.training.distributed import is_restart
from utils.training.plan import Resumed, RunPlan, portable
from utils.training.recovery import listed

SETTINGS_FILE = "config.yaml"
RECORDINGS_FILE = "recordings.txt"
"""A line for each recording of the run: the hash of its content, and its name."""
MOST_NAMED = 5


def make_folder(plan: RunPlan, data: TrainingData, accelerator: Accelerator) -> Path:
    """The run's folder, the same for all processes: the resumed run's, or a new one that the first process makes.

    Args:
        plan: of the run.
        data: its longest clip becomes the reference recording.
        accelerator: its first process makes the folder.

    Raises:
        UserError: the run exists already, or another run has the device.
    """
    shared = [str(plan.resumed.run if plan.resumed else plan.project.runs / (plan.config.run_id or new_run_id()))]
    broadcast_object_list(shared)
    folder = Path(shared[0])
    if accelerator.is_main_process:
        if not plan.resumed:
            # A job's folder is made by who starts the job, with the settings in it; a run's own files come now.
            folder.mkdir(parents=True, exist_ok=True)
            if (folder / "base.json").exists() and not is_restart():
                fix = "choose another run_id"
                raise UserError(what=f"run {folder.name!r} exists already", where=str(folder), fix=fix)
            base, own = plan.base, folder / BASE_FOLDER
            portable(plan).save(folder / SETTINGS_FILE)
            own.mkdir(exist_ok=True)
            for name in ("config.json", "vocab.json", "speakers_xtts.pth"):
                if (base.folder / name).is_file():
                    shutil.copyfile(base.folder / name, own / name)
            if not (own / "speakers_xtts.pth").is_file():
                # v2.0.2 has no studio speakers; stock reads an empty list of them just as well.
                write_pickle(own / "speakers_xtts.pth", {})
            about = {"name": base.name, "folder": str(base.folder.absolute()), "version": base.about.get("version")}
            (folder / "base.json").write_text(json.dumps(about), encoding="utf-8")
            keep_recordings(folder, data)
            write_wav(folder / REFERENCE_FILE, load_audio(data.longest.audio, DATASET_RATE), DATASET_RATE)
        try:
            register(folder, device=accelerator.device.type, output=plan.project.output)
        except UserError:
            if not plan.resumed:
                shutil.rmtree(folder)  # it was made for nothing
            raise
        if not plan.resumed and plan.config.lora_rank and isinstance(plan.base, TrainedBase):
            # Its checkpoints will hold additions to just these weights.
            share_file(plan.base.gpt, folder / START_FILE)
    accelerator.wait_for_everyone()
    return folder


def renew_settings(config: TrainConfig, resumed: Resumed) -> None:
    """Write changed settings into config.yaml; the former ones stay beside them, named by the step they reached.

    Args:
        config: portable settings.
        resumed: a resumed run: one that cannot resume keeps its settings as they are.
    """
    if not resumed.changed:
        return
    file = resumed.run / SETTINGS_FILE
    former = resumed.run / f"config-until-{resumed.state['step']:08d}.yaml"
    if not former.exists():
        shutil.copyfile(file, former)
    with replacing(file, durable=True) as temporary:
        config.save(temporary)


def keep_recordings(folder: Path, data: TrainingData) -> None:
    """Note the content of each recording, for `changed_recordings`."""
    write_atomic(folder / RECORDINGS_FILE, os.fsencode("\n".join(sorted(data.recordings()))))


def changed_recordings(folder: Path, data: TrainingData) -> list[str]:
    """The recordings that are not what they were when the run had its last start; empty where all are.

    Args:
        folder: of the run; one of an earlier version has no note of its recordings.
        data: the clips there are.
    """
    if not (folder / RECORDINGS_FILE).is_file():
        return []
    lines = os.fsdecode((folder / RECORDINGS_FILE).read_bytes()).split("\n")
    then, now = set(lines), data.recordings()
    before, after = ({line[17:] for line in some} for some in (then - now, now - then))
    groups = {"changed": before & after, "removed": before - after, "added": after - before}
    return [f"recordings {word}: {listed(sorted(names), MOST_NAMED)}" for word, names in groups.items() if names]
