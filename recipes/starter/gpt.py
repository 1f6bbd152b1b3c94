"""Stage D: the GPT, trained from nothing on the corpus with the project's own engine."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch

from recipes.base.gpt import CROP, make_config, make_vocabulary
from utils.bases.base import Base
from utils.bases.loading import load_gpt
from utils.bases.verify import check_files
from utils.config import TrainConfig
from utils.errors import UserError
from utils.model.gpt import XttsGpt
from utils.model.shapes import gpt_shape
from utils.model.weights import write_weights
from utils.model.xtts import full_state, initialize_gpt
from utils.project.paths import Project
from utils.runs.checkpoints import Checkpoints, read_state
from utils.text.tokenizer import Tokenizer as XttsTokenizer
from utils.training.train import Progresses, fine_tune

WIDTH, LAYERS, HEADS = 256, 6, 4
SEED = 7
BATCH_SIZE = 24
READING_WEIGHT = 0.2
"""Without it the GPT follows its text by counting positions, and says other words the longer a sentence is."""


@dataclass(frozen=True, kw_only=True)
class LrSchedule:
    """How long and how fast the GPT learns."""

    num_epochs: int
    warmup_steps: int
    learning_rate: float
    manifest: str
    """Which of the corpus' manifests it reads."""


FROM_NOTHING = LrSchedule(num_epochs=3, warmup_steps=400, learning_rate=3e-4, manifest="metadata_train.csv")
LATER = LrSchedule(num_epochs=1, warmup_steps=60, learning_rate=1.5e-4, manifest="metadata_common.csv")
"""For a GPT that speaks already: at 3e-4 its loss rose from 1.9 to 2.2 and then diverged."""


def run(work: Path, *, begin_with: Path | None = None) -> None:
    """Train, resume from the last checkpoint, or do nothing when the course is done.

    Args:
        work: the recipe's folder.
        begin_with: a base of the starter's shape whose GPT is trained on; random weights when not given.

    Raises:
        UserError: `begin_with` for a work folder whose GPT began with something else.
        SystemExit: a signal stopped the training, with its status; what it did is kept.
    """
    base = work / "seed_base"
    if not (base / "about.json").is_file():
        make_seed_base(work, base, begin_with=begin_with)
    course = _course(base, begin_with)
    project = Project(name="gpt", output=work)
    project.dataset.mkdir(parents=True, exist_ok=True)
    codes = project.dataset / "codes"
    if not codes.exists():
        codes.symlink_to(work / "codes", target_is_directory=True)
    started = sorted(project.runs.glob("*/checkpoints/step-*"))
    resume = started[-1].parents[1] if started else None
    if resume is not None and is_done(resume, course.num_epochs):
        print(f"gpt: {resume.name} is done")
        return
    ended = fine_tune(settings(work, base, course, resume=resume), project=project, progress=step_reports())
    if ended.stop_signal is not None:
        # The next stages would make a base of a GPT that is half trained.
        raise SystemExit(128 + ended.stop_signal)


def _course(base: Path, begin_with: Path | None) -> LrSchedule:
    """The course of a seed base, which says what it was begun with."""
    begun_with = json.loads((base / "about.json").read_text(encoding="utf-8")).get("begun_with")
    if begin_with is not None and begun_with != str(begin_with):
        raise UserError(
            what=f"this work folder's GPT was begun with {begun_with or 'random weights'}, not with {begin_with}",
            where=str(base),
            fix="omit --begin-with to resume, or give another --work folder",
        )
    return FROM_NOTHING if begun_with is None else LATER


def is_done(run: Path, num_epochs: int) -> bool:
    """Whether a run has come to the end of its epochs."""
    last = Checkpoints(run / "checkpoints").last()
    return last is not None and read_state(last)["epoch"] >= num_epochs


def settings(work: Path, base: Path, course: LrSchedule, *, resume: Path | None) -> TrainConfig:
    """The run's settings; a run is resumed with the course that it was begun with."""
    return TrainConfig(
        project="gpt",
        output=work,
        base=str(base),
        language="en",
        train_csv=work / "corpus" / course.manifest,
        eval_csv=work / "corpus" / "metadata_eval.csv",
        num_epochs=course.num_epochs,
        batch_size=BATCH_SIZE,
        eval_batch_size=BATCH_SIZE,
        learning_rate=course.learning_rate,
        warmup_steps=course.warmup_steps,
        mixed_precision="auto",
        dropout=0.0,
        conditioning="other",
        reading_weight=READING_WEIGHT,
        checkpoint_every=200,
        seed=SEED,
        resume=resume,
    )


def make_seed_base(work: Path, folder: Path, *, begin_with: Path | None = None) -> None:
    """A base folder with the recipe's DVAE and a GPT of random weights, or another base's; it has no decoder yet."""
    folder.mkdir(parents=True, exist_ok=True)
    make_vocabulary().save(str(folder / "vocab.json"))
    config = make_config(LAYERS, WIDTH, HEADS)
    (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    for name in ("dvae.safetensors", "mel_stats.pth"):
        shutil.copyfile(work / "dvae" / name, folder / name)
    torch.manual_seed(SEED)
    gpt = XttsGpt(gpt_shape(config, XttsTokenizer(folder / "vocab.json")))
    initialize_gpt(gpt)
    if begin_with is not None:
        begun = Base(begin_with)
        check_files(begun.folder, begun.about)
        gpt.load_state_dict(load_gpt(begun).state_dict())
    mel_stats = torch.load(folder / "mel_stats.pth", weights_only=True)
    write_weights(folder / "model.safetensors", full_state(gpt.state_dict(), {}, mel_stats))
    about = {
        "name": "starter seed",
        "kind": "starter",
        "begun_with": begin_with and str(begin_with),
        "training": {"crop": CROP, "dropout": 0.0, "conditioning": "other"},
    }
    (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")


def step_reports() -> Progresses:
    """Print every fiftieth step."""

    def steps(done: int, total: int, loss: float) -> None:
        if done % 50 == 0:
            print(f"gpt: step {done} of {total}, loss {loss:.3f}", flush=True)

    return Progresses(steps=steps)
