"""Steps of stock coqui-tts, measured in this process: its own trainer, data, DVAE and optimizer, set as in its recipe.

Two things are not stock's: recordings are read by soundfile (its loader needs a system ffmpeg), and, unless it is to
be measured as installed, torch keeps all threads (importing its dataset sets them to one).
"""

import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from utils.bases.base import Base
from utils.dataset.storage.manifest import read_manifest
from utils.model.dvae import build_dvae
from utils.model.weights import State, read_weights
from utils.options import CODE_SAMPLES, DATASET_RATE
from utils.performance_utils.memory import memory_stats
from utils.project.paths import Project
from utils.training.preflight import Measurement, finish_s


def measure_stock(
    base: Path, project: Project, *, precision: str, batch_size: int, warmup: int, steps: int, all_threads: bool = True
) -> Measurement:
    """Measure stock's training step.

    Args:
        base: from `full_base.make_base`; its GPT begins with stock's own random weights, which cost the same.
        project: whose training clips are taken in their order.
        precision: fp32 (stock's default) or bf16.
        batch_size: clips a step.
        warmup, steps: not counted, and counted.
        all_threads: keep torch's threads; else the one that importing stock's dataset leaves.
    """
    threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory() as scratch:
        trainer = _make_trainer(base, project, precision, batch_size, Path(scratch))
        loader = _loader(trainer, project, batch_size)
        torch.set_num_threads(threads if all_threads else 1)
        if torch.cuda.is_available():
            # Before the warm-up, as ours: the largest batch may be in it.
            torch.cuda.reset_peak_memory_stats()
        warm = _again(loader)
        for _ in range(warmup):
            _step(trainer, next(warm))
        # As ours is: from an epoch's beginning, with the processes that the warm-up started.
        return _timed(trainer, _again(loader), steps)


def stock_steps(
    base: Path, project: Project, *, start: State, learning_rate: float, batch_size: int, seed: int
) -> Iterator[torch.nn.Module]:
    """Train as stock does, in float32, from given weights; yields stock's GPT after each step.

    Args:
        base: sizes, vocabulary and DVAE.
        project: whose training clips are drawn at random, with replacement, as stock does.
        start: weights of the GPT.
        learning_rate: constant.
        batch_size: clips a step.
        seed: of stock's draws and dropout.
    """
    threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory() as scratch:
        trainer = _make_trainer(
            base, project, "fp32", batch_size, Path(scratch), learning_rate=learning_rate, seed=seed
        )
        torch.set_num_threads(threads)
        gpt = trainer.model.xtts.gpt
        gpt.load_state_dict(start)
        torch.manual_seed(seed)
        for batch in _again(_loader(trainer, project, batch_size, in_order=False)):
            _step(trainer, batch)
            yield gpt


def _timed(trainer: Any, batches: Iterator[dict[str, Any]], steps: int) -> Measurement:
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated if on_gpu else _peak_resident
    times, waits, texts, codes, samples, computed, loss = [], [], [], [], 0, 0, 0.0
    begin_cpu = time.process_time()
    for _ in range(steps):
        begin = time.perf_counter()
        batch = next(batches)
        waits.append(time.perf_counter() - begin)
        texts += batch["text_lengths"].tolist()
        codes += (-(-batch["wav_lengths"] // CODE_SAMPLES)).tolist()
        samples += int(batch["wav_lengths"].sum())
        longest = int(batch["text_lengths"].max()) + 2 + int(batch["wav_lengths"].max()) // CODE_SAMPLES + 4
        computed += len(batch["text_lengths"]) * (32 + longest)
        loss = _step(trainer, batch)
        times.append(time.perf_counter() - begin)
    seconds = sum(times) + finish_s(on_gpu=on_gpu)
    useful = sum(32 + text + 1 + code + 4 for text, code in zip(texts, codes, strict=True))
    return Measurement(
        steps=steps,
        step_s=statistics.median(times),
        seconds=seconds,
        cpu_s=time.process_time() - begin_cpu,
        threads=torch.get_num_threads(),
        data_share=sum(waits) / seconds,
        audio_s=samples / DATASET_RATE,
        text_tokens=texts,
        codes=codes,
        useful_share=useful / computed,
        peak_bytes=peak(),
        reserved_bytes=torch.cuda.max_memory_reserved() if on_gpu else 0,
        loss=loss,
    )


def _peak_resident() -> int:
    """The most this process has held, in bytes."""
    peak: int = memory_stats()["peak_rss_bytes"]
    return peak


def _step(trainer: Any, batch: dict[str, Any]) -> float:
    """One optimizer step as Trainer.train_step takes it, without its logging."""
    batch = trainer.format_batch(batch)
    _, losses, _ = trainer.optimize(
        batch, trainer.optimizer[0], trainer.scaler, trainer.criterion[0], trainer.scheduler[0]
    )
    return float(losses["loss"])


def _loader(trainer: Any, project: Project, batch_size: int, *, in_order: bool = True) -> DataLoader:
    """Stock's own samples and padding over the clips: in their order or as stock draws them."""
    from TTS.tts.layers.xtts.trainer import dataset as stock

    stock.load_audio = _load_audio
    samples = _samples(project)
    model = trainer.model
    # As for evaluation, clips come in order; for training stock draws them with replacement.
    data = stock.XTTSDataset(model.config, samples, model.xtts.tokenizer, DATASET_RATE, in_order)
    assert len(data) == len(read_manifest(project.train_csv)), "stock refuses some of the clips"
    workers = 4 if torch.cuda.is_available() else 0
    return DataLoader(
        data,
        batch_size=batch_size,
        collate_fn=data.collate_fn,
        num_workers=workers,
        # Starting them again in each epoch, as stock does, would be timed with its few steps.
        persistent_workers=workers > 0,
    )


def _again(loader: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Its batches, epoch after epoch."""
    while True:
        yield from loader


def _samples(project: Project) -> list[dict[str, str]]:
    """The training clips as stock's formatters give them."""
    return [
        {"text": clip.text, "audio_file": str(clip.audio), "speaker_name": clip.speaker, "language": "en"}
        for clip in read_manifest(project.train_csv)
    ]


def _load_audio(path: str, sample_rate: int) -> Tensor:
    sound, rate = soundfile.read(path, dtype="float32")
    assert rate == sample_rate
    return torch.from_numpy(np.asarray(sound)).unsqueeze(0)


def _make_trainer(
    base: Path,
    project: Project,
    precision: str,
    batch_size: int,
    scratch: Path,
    *,
    learning_rate: float = 5e-6,
    seed: int = 1,
) -> Any:
    """Stock's trainer with the settings of its XTTS v2 recipe (recipes/ljspeech/xtts_v2/train_gpt_xtts.py)."""
    from trainer import Trainer, TrainerArgs
    from TTS.tts.configs.xtts_config import XttsAudioConfig
    from TTS.tts.layers.xtts.trainer.gpt_trainer import GPTArgs, GPTTrainer, GPTTrainerConfig

    dvae, settings = scratch / "dvae.pth", Base(base).config["model_args"]
    # Stock builds one size only, and needs a file of it; the base's own takes its place below.
    torch.save({}, dvae)
    sizes = {name: value for name, value in settings.items() if name.startswith("gpt_") and value is not None}
    arguments = GPTArgs(
        **sizes | {"gpt_use_masking_gt_prompt_approach": True},
        max_conditioning_length=132_300,
        min_conditioning_length=66_150,
        debug_loading_failures=True,
        max_wav_length=260_000,
        max_text_length=200,
        mel_norm_file=str(base / "mel_stats.pth"),
        dvae_checkpoint=str(dvae),
        tokenizer_file=str(base / "vocab.json"),
    )
    config = GPTTrainerConfig(
        output_path=str(scratch),
        model_args=arguments,
        audio=XttsAudioConfig(sample_rate=DATASET_RATE, dvae_sample_rate=DATASET_RATE, output_sample_rate=24_000),
        batch_size=batch_size,
        eval_batch_size=batch_size,
        run_eval=False,
        optimizer="AdamW",
        optimizer_wd_only_on_weights=True,
        optimizer_params={"betas": [0.9, 0.96], "eps": 1e-8, "weight_decay": 1e-2},
        lr=learning_rate,
        training_seed=seed,
        grad_clip=1.0,
        mixed_precision=precision != "fp32",
        precision=precision if precision != "fp32" else "fp16",
        dashboard_logger="tensorboard",
    )
    model = GPTTrainer.init_from_config(config)
    model.dvae = build_dvae(read_weights(base / "dvae.safetensors"))
    samples = _samples(project)
    trainer = Trainer(
        TrainerArgs(skip_train_epoch=True),
        config,
        output_path=str(scratch),
        model=model,
        train_samples=samples,
        eval_samples=samples[:1],
        parse_command_line_args=False,
    )
    model.on_train_epoch_start(trainer)
    return trainer
