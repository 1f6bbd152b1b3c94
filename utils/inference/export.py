"""Export a run as one folder, which any XTTS software loads if the base has stock's sizes."""

import json
import logging
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from utils.bases.base import ADDED_ROWS, Base, spans_of
from utils.bases.catalog import read_about
from utils.bases.find import known_name, run_base, weights_hash
from utils.bases.grow import TUNED_DVAE
from utils.callbacks import ProgressFn
from utils.config import ExportConfig, TrainConfig
from utils.dataset.storage.manifest import iter_manifest
from utils.errors import UserError, disk_errors
from utils.files import replacing, share_file, write_atomic
from utils.inference.comparison import compare_with_base
from utils.inference.engine import Synthesizer
from utils.inference.own_decoder import fit_steps, own_decoder
from utils.inference.voice_file import DIGEST, DTYPE, FACTS, FORMAT, digest, vocabulary_of
from utils.jobs.device import require_usable
from utils.model.lora import ADDED_PART, low_rank_pairs
from utils.model.weights import DECODER_PREFIX, GPT_PREFIX, State, part, read_weights, write_pickle, write_weights
from utils.model.xtts import full_state
from utils.options import LORA_RANK
from utils.project.advice import command
from utils.project.paths import Project, open_project
from utils.runs.checkpoints import load_checkpoint, marks_of, verify
from utils.runs.layout import (
    ADAPTER_FILE,
    BASE_FOLDER,
    REFERENCE,
    REFERENCE_FILE,
    VOICE_FILE,
    checkpoint_of,
    find_run,
    newest_run,
)
from utils.speech.voice_library import DEFAULT_VOICE
from utils.training.data.base import START_FILE

log = logging.getLogger(__name__)

STOCK = "any XTTS v2 software, such as coqui-tts"
OURS = "this studio only: the base has a decoder of its own"
COMPARISON = "compared_with_base"
MOST_SPEAKERS = 100
"""Of a dataset that become reference voices: each takes a second at full size."""
IN_VOICE = ("name", "language", "license", "run", "checkpoint", "exported")
"""What a voice's file says as about.json does."""
READY_FILES = ("model.pth", "config.json", "vocab.json", "speakers_xtts.pth", "reference.wav", "about.json")


@disk_errors()
def export_model(config: ExportConfig, *, progress: ProgressFn | None = None) -> Path:
    """Write the project's ready/ folder from a run; the former one is replaced once the new one is complete.

    Args:
        config: which project, run and checkpoint.
        progress: how far it is.

    Returns:
        The ready/ folder with `READY_FILES`. Where the base has stock's decoder, stock coqui-tts loads it with
        Xtts.load_checkpoint; about.json says so under `loads_in`, and under `compared_with_base` how it speaks.

    Raises:
        UserError: no such run or checkpoint, its base is gone, or a file is damaged.
    """
    progress = progress or (lambda phase, done, total: None)
    project, run, checkpoint = _chosen(config)
    # Refused before anything is written.
    fit_steps(run_base(run), config)
    require_usable(config.device)
    aside = project.folder / ".ready-writing"
    shutil.rmtree(aside, ignore_errors=True)  # what a killed export left
    aside.mkdir()
    try:
        _write_ready(aside, project, run, checkpoint, config, progress)
        _swap(aside, project.ready)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    # The model has its place before: what ends this does not cost the export.
    found = compare_with_base(run, project.ready, project, config, progress)
    _write_about(project.ready, read_about(project.ready) | {COMPARISON: found})
    return project.ready


@disk_errors()
def export_voice(config: ExportConfig) -> Path:
    """Write what a LoRA run learned as one small file, ready/voice.safetensors, which speaks over the run's base.

    The log says what a full export has beyond it.

    Args:
        config: which project, run and checkpoint.

    Raises:
        UserError: no such run or checkpoint, one that learned more than additions, or its base is gone or another one.
    """
    project, run, checkpoint = _chosen(config)
    settings, base = TrainConfig.load(run / "config.yaml"), run_base(run)
    fix = f"export the full model: {command('export', project=project, run=run.name)}"
    if ADAPTER_FILE not in marks_of(checkpoint):
        what = f"run {run.name} trained all weights; a voice's file holds the additions of a LoRA run"
        raise UserError(what=what, where=str(run), fix=f"{fix}; or train with --lora-rank {LORA_RANK}")
    if (run / START_FILE).is_file():
        what = f"run {run.name} started from another run: its additions belong to weights that no base has"
        raise UserError(what=what, where=str(run), fix=fix)
    verify(checkpoint, [ADAPTER_FILE])
    learned = read_weights(checkpoint / ADAPTER_FILE)
    if rows := [tensor for name, tensor in learned.items() if ADDED_PART in name]:
        raise UserError(
            what=f"run {run.name} also learned {len(rows[0])} text rows that the base's vocabulary was grown by; "
            "a voice's file does not hold them, and would misread its language without",
            where=str(run),
            fix=fix,
        )
    if not _is_over(base, learned, load_checkpoint(checkpoint)):
        what = f"base {base.name} is not what run {run.name} was trained on: its weights have changed since"
        raise UserError(what=what, where=str(base.folder), fix=fix)
    project.ready.mkdir(exist_ok=True)
    path = project.ready / VOICE_FILE
    about = {key: value for key, value in _about(project, run, checkpoint, base, settings).items() if key in IN_VOICE}
    write_voice_file(path, learned, run / REFERENCE_FILE, base, about)
    if base.defaults.decoder_steps:
        fitted = read_about(project.ready).get("decoder", {})
        shares = {key: fitted[key] for key in ("similarity_before", "similarity_after") if key in fitted}
        log.warning(
            "the voice speaks with the base's decoder; a full export fits it to the voice: same codes, nearer timbre%s",
            " (similarity {similarity_after:.2f} instead of {similarity_before:.2f})".format(**shares)
            if shares
            else "",
        )
    return path


def write_voice_file(
    path: Path, learned: Mapping[str, Tensor], reference: Path, base: Base, facts: Mapping[str, Any]
) -> None:
    """Write a voice's file, whole or not at all.

    Args:
        path: of the file.
        learned: additions of a run, from `utils.model.lora.adapter_state`.
        reference: the recording.
        base: that they are added to.
        facts: further ones for the header.

    Raises:
        OSError: the disk is full or not writable.
    """
    tensors = {REFERENCE: torch.frombuffer(bytearray(reference.read_bytes()), dtype=torch.uint8)}
    pairs = low_rank_pairs(learned, DTYPE)
    for layer, (down, up) in pairs.items():
        tensors |= {f"{layer}.A": down, f"{layer}.B": up}
    origin = {
        "name": base.name,
        "version": base.about.get("version"),
        # Of one that has no name; no path of this computer, such as a home.
        "folder": "" if known_name(base) else os.path.relpath(base.folder.resolve(), path.parent.resolve()),
        "sha256": weights_hash(base),
    }
    about = {
        **facts,
        "format": FORMAT,
        "base": origin,
        "rank": len(next(iter(pairs.values()))[0]),
        DIGEST: digest(tensors),
        **vocabulary_of(base),
    }
    with replacing(path) as temporary:
        write_weights(temporary, tensors, {FACTS: json.dumps(about, ensure_ascii=False)})


def _is_over(base: Base, learned: State, merged: State) -> bool:
    """Whether additions make a base what a checkpoint is: the run's own export may lie in the base's place by now."""
    name, (down, up) = next(iter(low_rank_pairs(learned, torch.float32).items()))
    before, delta = base.state()[f"{GPT_PREFIX}{name}.weight"].float(), down.T @ up
    error = merged[f"{name}.weight"].float() - before - delta
    # Sums are rounded by 1e-7 of themselves.
    return bool(error.norm() < 0.1 * delta.norm() + 1e-6 * before.norm())


def _chosen(config: ExportConfig) -> tuple[Project, Path, Path]:
    project = open_project(config.project, config.output)
    run = find_run(project, config.run) if config.run else newest_run(project, config.checkpoint)
    return project, run, checkpoint_of(run, config.checkpoint)


def _write_ready(
    folder: Path, project: Project, run: Path, checkpoint: Path, config: ExportConfig, progress: ProgressFn
) -> None:
    base, settings, gpt = run_base(run), TrainConfig.load(run / "config.yaml"), load_checkpoint(checkpoint)
    state = base.state()
    own = part(state, DECODER_PREFIX)
    decoder, facts = own_decoder(run, base, gpt, own, project, settings, config, progress)
    progress("writing the model", 0, 1)
    mel_stats = state.get("mel_stats", base.mel_stats())
    write_pickle(folder / "model.pth", {"model": full_state(gpt, decoder, mel_stats)})
    for name in ("config.json", "vocab.json", "speakers_xtts.pth"):
        shutil.copyfile(run / BASE_FOLDER / name, folder / name)
    shutil.copyfile(run / REFERENCE_FILE, folder / "reference.wav")
    if TUNED_DVAE in base.about:
        # Its codes are those of a DVAE that no other model has: further training needs it.
        shutil.copyfile(base.dvae, folder / base.dvae.name)
        write_pickle(folder / "mel_stats.pth", base.mel_stats())
    about = _about(project, run, checkpoint, base, settings) | facts
    _write_about(folder, about)
    _add_own_voices(folder, project.name, settings.train_csv or project.train_csv)
    progress("writing the model", 1, 1)


def _write_about(folder: Path, about: dict[str, Any]) -> None:
    write_atomic(folder / "about.json", json.dumps(about, indent=2, ensure_ascii=False))


def _about(project: Project, run: Path, checkpoint: Path, base: Base, settings: TrainConfig) -> dict[str, Any]:
    return {
        "name": project.name,
        "kind": "fine-tuned",
        "language": settings.language,
        "amharic_g2p": base.amharic_g2p,
        "license": base.license or "see the base model",
        "base": base.as_origin(project.ready),
        "run": run.name,
        "checkpoint": checkpoint.name,
        "exported": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "loads_in": loads_in(base),
        "training": base.about.get("training", {}),
        **({ADDED_ROWS: spans_of(rows)} if (rows := base.added_rows()) is not None else {}),
        **{key: base.about[key] for key in (TUNED_DVAE,) if key in base.about},
        **({"speaks": False} if not base.can_speak else {}),
    }


def loads_in(base: Base) -> str:
    """Which software can build what is exported from a base; one that stock cannot says so itself, more exactly."""
    loads_in = base.about.get("loads_in")
    return str(loads_in) if loads_in else (STOCK if base.decoder_shape().is_stock else OURS)


def _add_own_voices(folder: Path, name: str, train_csv: Path) -> None:
    """Put the trained voice, and those of several speakers, beside the base's, encoded by the fine-tuned weights."""
    synthesizer = Synthesizer(Base(folder))
    voices = synthesizer.speakers()
    try:
        clips = _longest_clips(train_csv)
    except (UserError, OSError) as error:
        clips = {}
        log.warning("no reference voices of the dataset's speakers: %s", error)
    if clips.pop(DEFAULT_VOICE, None):
        log.warning("no reference voice of speaker %r: that name asks for the model's own voice", DEFAULT_VOICE)
    for speaker, clip in clips.items():
        try:
            voices[speaker] = synthesizer.voice(clip)
        except UserError as error:
            log.warning("no reference voice of %s: %s", speaker, error)
    voices[name] = synthesizer.voice(folder / "reference.wav")
    write_pickle(folder / "speakers_xtts.pth", {name: voice.as_speaker() for name, voice in voices.items()})


def _longest_clips(train_csv: Path) -> dict[str, Path]:
    """A clip of each speaker of a dataset of several, of `MOST_SPEAKERS` at most; none where the dataset is gone."""
    found: dict[str, tuple[int, Path]] = {}
    for clip in iter_manifest(train_csv) if train_csv.is_file() else ():
        if clip.audio.is_file():
            size = clip.audio.stat().st_size
            found[clip.speaker] = max(found.get(clip.speaker, (0, clip.audio)), (size, clip.audio))
    longest = sorted(found.items(), key=lambda item: -item[1][0])[:MOST_SPEAKERS]
    if len(found) > MOST_SPEAKERS:
        log.warning("reference voices of %d of %d speakers: those with the longest clips", MOST_SPEAKERS, len(found))
    return {speaker: clip for speaker, (_, clip) in longest} if len(found) > 1 else {}


def _swap(aside: Path, ready: Path) -> None:
    """Put a new ready/ in place of the former one, whose LoRA voice stays: only `export_voice` makes another."""
    aside.chmod(0o755)
    if (ready / VOICE_FILE).is_file():
        share_file(ready / VOICE_FILE, aside / VOICE_FILE)
    former = ready.with_name(f".{ready.name}-former")
    shutil.rmtree(former, ignore_errors=True)
    if ready.exists():
        ready.rename(former)
    aside.rename(ready)
    shutil.rmtree(former, ignore_errors=True)
