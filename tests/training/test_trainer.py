"""One optimizer step: accumulation equals a large batch, precision changes little, clipping clips."""

from functools import partial

import pytest
import torch
from accelerate import Accelerator
from torch.overrides import TorchFunctionMode

from tests.configs import tiny_run
from tests.saving import same
from utils.bases.find import find_base
from utils.bases.loading import load_gpt
from utils.config import Device
from utils.model.gpt import ForwardOptions, unwatched
from utils.model.mel import conditioning_mel
from utils.options import LrSchedule
from utils.project.paths import Project
from utils.training.data.batches import ClipDataset, collate, make_loader
from utils.training.data.epoch_batches import EpochBatches
from utils.training.data.load import load_data
from utils.training.plan import settle
from utils.training.switches.optim import make_accelerator, make_optimizer
from utils.training.trainer import Trainer
from utils.training_optimizations import TrainingOptimizer


@pytest.fixture(scope="module")
def clips(prepared: Project, tmp_path_factory):
    config = tiny_run(prepared)
    base = find_base("tiny")
    return load_data(settle(config, prepared, base), prepared, base, Accelerator(cpu=True)).train


def make_trainer(
    *,
    precision: str = "fp32",
    clip_norm: float = 1e9,
    device: Device = "cpu",
    watch: TrainingOptimizer | None = None,
    **options,
) -> Trainer:
    base = find_base("tiny")
    gpt = load_gpt(base, ForwardOptions(**{"dropout": 0.0} | options)).to(device)
    optimizer = make_optimizer(gpt, learning_rate=1e-3, weight_decay=0.01)
    if watch is None:
        watch = TrainingOptimizer(device=device)
        watch._watched = gpt.options, False
    return Trainer(
        gpt=gpt,
        optimizer=optimizer,
        learning_rate=1e-3,
        schedule=LrSchedule("constant", warmup_steps=0, total_steps=10),
        mel=conditioning_mel(base.mel_stats()).to(device),
        accelerator=make_accelerator(device),
        precision=precision,
        grad_clip_norm=clip_norm,
        seed=1,
        optimizations=watch,
    )


def batches_of(clips, size: int) -> list:
    dataset = ClipDataset(clips, seed=1, training=True, crop=find_base("tiny").defaults.crop)
    places = list(EpochBatches([1] * len(clips), size, seed=None).epoch(0))
    join = partial(collate, shape=find_base("tiny").gpt_shape(), mask_conditioning=True)
    return list(make_loader(dataset, places, join, num_workers=0))


@pytest.mark.slow
def test_one_micro_batch_of_a_step_is_watched_and_the_others_compute_what_they_would(clips):
    """Also what dropout draws: a resumed run watches a step that an undisturbed one does not."""
    options = {"dropout": 0.1, "sdpa": True, "checkpointing": "full"}
    watch = TrainingOptimizer(device="cpu", dropout=0.1)
    plain, watched = make_trainer(**options), make_trainer(watch=watch, **options)
    seen: list[bool] = []
    watched.gpt.register_forward_hook(lambda *_: seen.append(watched.gpt.watch is not unwatched))
    batches = batches_of(clips, 2)
    assert watched.step(batches) == plain.step(batches) and watched.step(batches) == plain.step(batches)
    assert seen == [True, *[False] * 5] and watch.has_news
    mine, theirs = watched.gpt.state_dict(), plain.gpt.state_dict()
    assert same(mine, theirs)


@pytest.mark.parametrize("size", [1, 4])
def test_accumulated_micro_batches_equal_one_large_batch(clips, size):
    """Weighted by valid targets: a mean of means would weigh short clips more (6 clips in 4s leave a batch of 2)."""
    whole, parts = make_trainer(), make_trainer()
    one = whole.step(batches_of(clips, 6))
    many = parts.step(batches_of(clips, size))
    assert many.losses.total == pytest.approx(one.losses.total, rel=1e-5)
    assert many.grad_norm == pytest.approx(one.grad_norm, rel=1e-3)
    assert many.audio_seconds == pytest.approx(one.audio_seconds)
    # After one Adam step every weight moved by about the learning rate, so near-zero gradients show as differences.
    for mine, theirs in zip(parts.gpt.parameters(), whole.gpt.parameters(), strict=True):
        assert (mine - theirs).abs().mean() < 2e-5


class Waits(TorchFunctionMode):
    """Writes down what would wait for a GPU: reading a tensor's numbers, and copying the host's numbers there."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name in {"tolist", "item", "cpu", "numpy", "nonzero", "__bool__", "__float__", "tensor", "as_tensor"}:
            self.seen.append(name)
        return function(*args, **kwargs or {})


def test_a_step_waits_for_the_device_once(clips):
    trainer, batches = make_trainer(sdpa=True), batches_of(clips, 3)
    with Waits() as waits:
        gathered = trainer.gather(batches)
        assert waits.seen == []
        trainer.update(gathered)
    assert waits.seen == ["tolist"]


@pytest.mark.gpu
def test_gradients_are_gathered_without_waiting_for_the_gpu(clips):
    trainer = make_trainer(sdpa=True, precision="bf16", device="cuda")
    batches = [batch.pin_memory() for batch in batches_of(clips, 3)]
    trainer.step(batches)  # Kernels are chosen and loaded in the first.
    torch.cuda.set_sync_debug_mode("error")
    try:
        gathered = trainer.gather(batches)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert trainer.update(gathered).losses.total < 20


def test_the_reported_norm_is_the_one_before_clipping(clips):
    batches = batches_of(clips, 4)
    free, clipped = make_trainer(), make_trainer(clip_norm=1e-3)
    assert clipped.step(batches).grad_norm == pytest.approx(free.step(batches).grad_norm, rel=1e-4)


def test_evaluation_changes_nothing_and_repeats(clips):
    trainer = make_trainer()
    before = [parameter.clone() for parameter in trainer.gpt.parameters()]
    batches = batches_of(clips, 3)
    assert trainer.evaluate(batches) == trainer.evaluate(batches)
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.gpt.parameters(), strict=True))


def test_training_learns_the_clips(clips):
    trainer = make_trainer(clip_norm=1.0)
    batches = batches_of(clips, 6)
    first = trainer.step(batches).losses.total
    for _ in range(15):
        last = trainer.step(batches).losses.total
    assert last < 0.8 * first
