"""Steps without a usable gradient: the weights stay, the log tells, and a run of nothing else ends with advice."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from tests.clip_tables import listed
from tests.run_logs import events_of
from tests.training.test_run import config_of
from tests.training.test_trainer import batches_of, clips, make_trainer
from utils.errors import UserError
from utils.options import DATASET_RATE
from utils.project.paths import Project
from utils.runs.checkpoints import load_checkpoint
from utils.training.data.batches import Batch
from utils.training.recovery import MAX_IN_A_ROW, Recovery
from utils.training.train import Progresses, fine_tune
from utils.training.trainer import OVERFLOW, Losses, StepResult, Trainer

__all__ = ["clips"]


def breaking(project: Project, *numbers: int) -> Progresses:
    """Break recordings after the first step: before a run starts, such ones are refused."""

    def steps(done: int, total: int, loss: float) -> None:
        for number in numbers if done == 1 else ():
            path = project.dataset / "wavs" / f"clip{number}.wav"
            wav, _ = soundfile.read(path, dtype="float32")
            soundfile.write(path, np.full_like(wav, np.inf), DATASET_RATE, subtype="FLOAT")

    return Progresses(steps=steps)


def weights_of(trainer: Trainer) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in trainer.gpt.parameters()]


def moments_of(trainer: Trainer) -> list[torch.Tensor]:
    states = trainer.optimizer.state.values()
    return [value.clone() for values in states for value in values.values() if isinstance(value, torch.Tensor)]


def same(before: list[torch.Tensor], after: list[torch.Tensor]) -> bool:
    return len(before) == len(after) and all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def broken(batch: Batch) -> Batch:
    batch.conditioning_audio[:] = float("inf")
    return batch


def halves(batch: Batch, most: int) -> list[Batch]:
    return [batch]


def recovery_of(trainer: Any, warned: list[str]) -> Recovery:
    def warn(message: str, **facts: Any) -> None:
        warned.append(message)

    return Recovery(trainer, split_train=halves, split_eval=halves, warn=warn)


def test_a_step_whose_loss_is_not_a_number_moves_nothing(clips):
    trainer, reference = make_trainer(), make_trainer()
    good = batches_of(clips, 3)
    trainer.step(good)
    weights, moments = weights_of(trainer), moments_of(trainer)
    result = trainer.step([broken(batch) for batch in batches_of(clips, 3)])
    assert result.skipped == "the loss is not a number" and trainer.num_steps == 2
    assert same(weights, weights_of(trainer)) and same(moments, moments_of(trainer))
    assert trainer.step(good).skipped == ""
    reference.step(good)
    reference.num_steps = 2
    reference.step(good)
    assert same(weights_of(reference), weights_of(trainer)), "what comes after is as if the step had not been"


def test_a_gradient_that_is_not_a_number_moves_nothing_though_the_loss_is_fine(clips):
    trainer = make_trainer()
    weights = weights_of(trainer)
    hook = trainer.gpt.mel_head.weight.register_hook(lambda gradient: gradient * float("nan"))
    result = trainer.step(batches_of(clips, 6))
    assert result.skipped == "the gradient is not a number" and result.losses.total < 20
    assert same(weights, weights_of(trainer))
    hook.remove()
    assert trainer.step(batches_of(clips, 6)).skipped == ""


def test_fp16_that_overflows_moves_nothing_warns_of_nothing_and_finds_its_scale(clips):
    trainer, warned = make_trainer(precision="fp16"), []
    trainer.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18)
    recovery = recovery_of(trainer, warned)
    weights, batches, lowered = weights_of(trainer), batches_of(listed(clips[:1]), 1), 0
    while (result := trainer.step(batches)).skipped:
        lowered += 1
        assert result.skipped == OVERFLOW and same(weights, weights_of(trainer))
        assert trainer.state()["scaler"]["scale"] == 2.0 ** (18 - lowered), "halved, and saved with the run"
        for _ in range(MAX_IN_A_ROW + 1):
            recovery.count_skipped(result, ["clip0.wav"])
    assert lowered > 0 and not same(weights, weights_of(trainer))
    assert recovery.num_skipped == lowered * (MAX_IN_A_ROW + 1) and warned == []


def test_fp16_that_overflows_without_a_scale_to_lower_is_a_fault(clips):
    trainer = make_trainer(precision="fp16")
    trainer.scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
    trainer.gpt.mel_head.weight.register_hook(lambda gradient: gradient * float("inf"))
    assert trainer.step(batches_of(listed(clips[:1]), 1)).skipped == "the gradient is not a number"


@pytest.mark.slow
def test_one_broken_recording_costs_its_own_steps_only_and_is_named(project):
    result = fine_tune(config_of(project, batch_size=1, num_epochs=3), progress=breaking(project, 3))
    events = events_of(result.folder)
    skipped = [event for event in events if event["kind"] == "step" and "skipped" in event]
    warnings = [event for event in events if event["kind"] == "warning"]
    assert 2 <= len(skipped) <= 3 and len(warnings) == len(skipped)
    assert all(event["clips"] == ["clip3.wav"] and event["source"] == "numbers" for event in warnings)
    assert events[-1]["kind"] == "finished" and events[-1]["skipped_steps"] == len(skipped)
    assert all(torch.isfinite(tensor).all() for tensor in load_checkpoint(result.checkpoint.parent).values())


def test_a_run_of_nothing_but_broken_steps_ends_with_advice(project):
    settings = config_of(project, batch_size=2, num_epochs=60)
    with pytest.raises(UserError, match="is not a number in 10 steps in a row, up to step 11") as error:
        fine_tune(settings, progress=breaking(project, *range(6)))
    assert "lower learning_rate" in error.value.fix and "fp32" not in error.value.fix
    assert ".wav" in error.value.what
    (folder,) = project.runs.iterdir()
    events = events_of(folder)
    in_a_row = [event["in_a_row"] for event in events if event["kind"] == "warning" and event["source"] == "numbers"]
    assert events[-1]["kind"] == "failed" and in_a_row[-1] == MAX_IN_A_ROW
    assert events[-1]["skipped_steps"] == len(in_a_row)


def test_the_advice_of_a_run_in_half_precision_is_full_precision():
    recovery = recovery_of(SimpleNamespace(precision="bf16", num_steps=12), [])
    broken = StepResult(
        losses=Losses(text=1.0, codes=1.0),
        grad_norm=1.0,
        learning_rate=1e-3,
        audio_seconds=1.0,
        skipped="the loss is not a number",
    )
    with pytest.raises(UserError) as error:
        for _ in range(MAX_IN_A_ROW):
            recovery.count_skipped(broken, ["clip0.wav"])
    assert "fp32 instead of bf16" in error.value.fix
