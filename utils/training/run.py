"""A training run from its settings to its folder: check everything, then train, then say what is where."""

import json
import logging
import math
import shutil
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from utils.audio.decode import load_audio
from utils.audio.write import write_wav
from utils.config import SAMPLE_RATE, TrainConfig
from utils.errors import UserError, raise_problems
from utils.events import EventWriter
from utils.model.base import Base, find_base
from utils.model.gpt import ForwardOptions
from utils.model.mel import conditioning_mel
from utils.model.packing import row_length
from utils.model.xtts import load_gpt
from utils.paths import Project, new_run_id, open_project
from utils.training.batches import ClipDataset, Collate, EpochBatches, make_loader
from utils.training.clips import Limits, TrainingClip, require_clips, select_clips, within_limits
from utils.training.codes import Progress as CodeProgress
from utils.training.codes import cache_codes
from utils.training.loop import Progress, Run, fit, resume
from utils.training.optim import make_optimizer, make_schedule
from utils.training.precision import choose_precision
from utils.training.state import MODEL_FILE, Checkpoints
from utils.training.trainer import Trainer

log = logging.getLogger(__name__)

BASE_FOLDER = "base"
"""Folder in a run with the small files of its base."""
REFERENCE_FILE = "reference.wav"


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """The clips of a run."""

    train: list[TrainingClip]
    evaluate: list[TrainingClip]
    dropped: list[dict[str, Any]]
    """{clip, reason} of every clip of both manifests that is not used."""


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """What a finished run left behind."""

    folder: Path
    """runs/<id>/."""
    checkpoint: Path
    """GPT weights of the best evaluation."""
    config: Path
    vocab: Path
    speakers: Path
    reference: Path
    """The longest training clip: what the exported model speaks like."""
    num_steps: int
    num_clips: int
    num_dropped: int
    epoch_losses: list[float]
    """Mean training loss of each epoch."""
    first_loss: float
    last_loss: float
    best_loss: float
    """Lowest evaluation loss."""


@dataclass(frozen=True, kw_only=True)
class Progresses:
    """Who is told how far the run is; each may be left out."""

    codes: CodeProgress | None = None
    steps: Progress | None = None


def fine_tune(
    config: TrainConfig, *, project: Project | None = None, progress: Progresses | None = None
) -> TrainResult:
    """Train on a prepared dataset; a new run folder is made each time, and nothing older is touched.

    Args:
        config: the settings.
        project: where the run goes, when it is not the project that the settings name.
        progress: who is told how far the run is.

    Raises:
        UserError: any fault of settings, base or data, before a run folder exists; or a full disk.
    """
    config = _with_saved_settings(config.validate(where="training settings"))
    progress = progress or Progresses()
    project = project or open_project(config.project, config.output)
    base = find_base(config.base)
    settled = settle(config, project, base)
    accelerator = Accelerator(cpu=config.device == "cpu")
    precision = choose_precision(config.mixed_precision, accelerator.device)
    data = load_data(settled, project, base, accelerator, progress.codes)
    folder = config.resume or project.runs / new_run_id()
    if accelerator.is_main_process and not config.resume:
        _furnish(folder, settled, base, data)
    accelerator.wait_for_everyone()
    run = _assemble(settled, base, data, folder, accelerator, precision)
    run.progress = progress.steps
    if config.resume:
        resume(run, _last_checkpoint(config.resume))
    run.events.write(
        "started",
        base=base.name,
        config=json.loads(json.dumps(vars(settled), default=str)),
        sources=sources_of(config),
        clips=len(data.train),
        eval_clips=len(data.evaluate),
        dropped=data.dropped,
        precision=precision,
        device=str(accelerator.device),
        total_steps=run.total_steps,
    )
    _fit_to_the_end(run)
    return _result(run, folder, data)


def _with_saved_settings(config: TrainConfig) -> TrainConfig:
    """A resumed run's own settings, so that it goes on as it began; only the number of epochs may change.

    Raises:
        UserError: the folder is not a run.
    """
    if config.resume is None:
        return config
    _last_checkpoint(config.resume)
    saved = TrainConfig.load(config.resume / "config.yaml")
    return replace(saved, num_epochs=config.num_epochs or saved.num_epochs, resume=config.resume)


def _last_checkpoint(folder: Path) -> Path:
    found = Checkpoints(folder / "checkpoints").last() if (folder / "config.yaml").is_file() else None
    if found is None:
        raise UserError(
            what="there is no complete checkpoint to go on from", where=str(folder), fix="name a run's folder"
        )
    return found


def settle(config: TrainConfig, project: Project, base: Base) -> TrainConfig:
    """The settings with every open value filled in from the project and the base.

    Raises:
        UserError: the base cannot read the language, a limit exceeds the model's, or there is no dataset.
    """
    language = base.tokenizer().check_language(config.language or project.language())
    defaults = base.defaults
    settled = replace(
        config,
        language=language,
        train_csv=config.train_csv or project.train_csv,
        eval_csv=config.eval_csv or project.eval_csv,
        num_epochs=config.num_epochs or defaults.num_epochs,
        learning_rate=config.learning_rate or defaults.learning_rate,
        dropout=defaults.dropout if config.dropout is None else config.dropout,
    )
    raise_problems(_limits(settled).problems(base.gpt_shape()), where=f"base {base.name}")
    return settled


def sources_of(config: TrainConfig) -> dict[str, str]:
    """For each setting that may be left open: who chose it, "you" or "base"."""
    return {
        name: "base" if getattr(config, name) is None else "you" for name in ("learning_rate", "num_epochs", "dropout")
    }


def load_data(
    config: TrainConfig, project: Project, base: Base, accelerator: Accelerator, progress: CodeProgress | None = None
) -> TrainingData:
    """Read, check, tokenize and encode the clips of both manifests.

    Raises:
        UserError: see `select_clips` and `cache_codes`; or no clip is left to train or evaluate on.
    """
    assert config.train_csv and config.eval_csv and config.language
    tokenizer, limits = base.tokenizer(), _limits(config)
    kept: dict[str, list[TrainingClip]] = {}
    dropped: list[dict[str, Any]] = []
    for purpose, csv in (("train on", config.train_csv), ("evaluate with", config.eval_csv)):
        kept[purpose], lost = within_limits(select_clips(csv, tokenizer, config.language), limits)
        require_clips(kept[purpose], lost, csv=csv, purpose=purpose)
        dropped += lost
    audio = [clip.audio for clips in kept.values() for clip in clips]
    with accelerator.main_process_first():
        codes = cache_codes(audio, base, project.dataset / "codes", device=accelerator.device, progress=progress)
    train, evaluate = ([replace(clip, codes=codes[clip.audio]) for clip in clips] for clips in kept.values())
    for drop in dropped:
        log.warning("not trained on: %s: %s", drop["clip"], drop["reason"])
    return TrainingData(train=train, evaluate=evaluate, dropped=dropped)


def _limits(config: TrainConfig) -> Limits:
    return Limits(max_audio_length=config.max_audio_length, max_text_length=config.max_text_length)


def _furnish(folder: Path, config: TrainConfig, base: Base, data: TrainingData) -> None:
    """Make the run folder with its settings, the base's small files and the reference recording."""
    folder.mkdir(parents=True)
    config.save(folder / "config.yaml")
    own = folder / BASE_FOLDER
    own.mkdir()
    for name in ("config.json", "vocab.json", "speakers_xtts.pth"):
        if (base.folder / name).is_file():
            shutil.copyfile(base.folder / name, own / name)
    if not (own / "speakers_xtts.pth").is_file():
        # v2.0.2 has no studio speakers; stock reads an empty list of them just as well.
        torch.save({}, own / "speakers_xtts.pth")
    origin = {"name": base.name, "folder": str(base.folder.absolute())}
    (folder / "base.json").write_text(json.dumps(origin), encoding="utf-8")
    longest = max(data.train, key=lambda clip: clip.num_samples)
    write_wav(folder / REFERENCE_FILE, load_audio(longest.audio, SAMPLE_RATE), SAMPLE_RATE)


def _assemble(
    config: TrainConfig, base: Base, data: TrainingData, folder: Path, accelerator: Accelerator, precision: str
) -> Run:
    assert config.num_epochs and config.learning_rate and config.dropout is not None
    gpt = load_gpt(
        base,
        ForwardOptions(
            attention="sdpa" if config.sdpa else "explicit",
            checkpointing=config.gradient_checkpointing,
            dropout=config.dropout,
        ),
    )
    gpt.to(accelerator.device)
    batches = EpochBatches(
        [row_length(len(clip.tokens), len(clip.codes)) for clip in data.train],
        config.batch_size,
        seed=config.seed,
        rank=accelerator.process_index,
        world=accelerator.num_processes,
    )
    eval_batches = EpochBatches([0] * len(data.evaluate), config.eval_batch_size, seed=None)
    steps_per_epoch = math.ceil(len(batches) / config.grad_accumulation)
    optimizer = make_optimizer(gpt, learning_rate=config.learning_rate, weight_decay=config.weight_decay)
    schedule = make_schedule(
        optimizer,
        config.schedule,
        warmup_steps=config.warmup_steps,
        total_steps=config.num_epochs * steps_per_epoch,
    )
    trainer = Trainer(
        model=gpt,
        optimizer=optimizer,
        schedule=schedule,
        mel=conditioning_mel(base.mel_stats()).to(accelerator.device),
        accelerator=accelerator,
        precision=precision,
        grad_clip_norm=config.grad_clip_norm,
        seed=config.seed,
    )
    return Run(
        trainer=trainer,
        make_train_loader=partial(_loader, config, data.train, batches, base),
        eval_loader=_loader(config, data.evaluate, eval_batches, base, 0, 0),
        checkpoints=Checkpoints(folder / "checkpoints"),
        events=EventWriter(folder / "events.jsonl"),
        num_epochs=config.num_epochs,
        steps_per_epoch=steps_per_epoch,
        grad_accumulation=config.grad_accumulation,
        checkpoint_every=config.checkpoint_every,
        is_main=accelerator.is_main_process,
    )


def _loader(
    config: TrainConfig, clips: list[TrainingClip], batches: EpochBatches, base: Base, epoch: int, start: int
) -> DataLoader:
    """Micro-batches of an epoch; only shuffled ones, those of training, are cropped at random and masked."""
    training = batches.seed is not None
    return make_loader(
        ClipDataset(clips, seed=config.seed, training=training, crop=base.defaults.crop),
        list(batches.epoch(epoch, start=start)),
        Collate(base.gpt_shape(), mask_heard=training),
        num_workers=config.num_workers if training else 0,
        pin=torch.cuda.is_available() and config.device != "cpu",
    )


def _fit_to_the_end(run: Run) -> None:
    """Train; whatever ends the run is the last event of its log."""
    try:
        fit(run)
    except BaseException as error:
        run.events.write("failed", step=run.trainer.num_steps, error=f"{type(error).__name__}: {error}")
        raise
    else:
        run.events.write("finished", step=run.trainer.num_steps, best_loss=run.best_loss)
    finally:
        run.events.close()


def _result(run: Run, folder: Path, data: TrainingData) -> TrainResult:
    best = run.checkpoints.best()
    assert best is not None, "each epoch ends with an evaluation, and the first one is the best so far"
    return TrainResult(
        folder=folder,
        checkpoint=best / MODEL_FILE,
        config=folder / BASE_FOLDER / "config.json",
        vocab=folder / BASE_FOLDER / "vocab.json",
        speakers=folder / BASE_FOLDER / "speakers_xtts.pth",
        reference=folder / REFERENCE_FILE,
        num_steps=run.trainer.num_steps,
        num_clips=len(data.train) + len(data.evaluate),
        num_dropped=len(data.dropped),
        epoch_losses=run.epoch_losses,
        first_loss=run.first_loss,
        last_loss=run.last_loss,
        best_loss=run.best_loss,
    )
