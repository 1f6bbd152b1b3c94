"""Out of memory: the micro-batch shrinks, the result stays, and what shrinking cannot fix is reported."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.run_logs import events_of
from tests.training.test_run import config_of
from utils.errors import UserError
from utils.model.eager_adamw import EagerAdamW
from utils.model.gpt import XttsGpt
from utils.runs.checkpoints import load_checkpoint
from utils.runs.log import Event
from utils.training.recovery import Recovery
from utils.training.train import TrainResult, fine_tune

NUM_CLIPS = 6


def limit_clips(monkeypatch: pytest.MonkeyPatch, most: int, *, checkpointed: int | None = None) -> None:
    """Let the forward fail as on a small GPU: with more than `most` clips, or `checkpointed` where it checkpoints."""
    forward = XttsGpt.forward

    def limited(self, batch, cond_mels):
        recomputes = checkpointed is not None and (self.options.checkpointing != "none" or not self.training)
        allowed = checkpointed if recomputes else most
        if len(cond_mels) > allowed:
            raise torch.OutOfMemoryError(f"CUDA out of memory: {len(cond_mels)} clips")
        return forward(self, batch, cond_mels)

    monkeypatch.setattr(XttsGpt, "forward", limited)


def warnings_of(folder: Path) -> list[Event]:
    return [event for event in events_of(folder, "warning") if event["source"] == "memory"]


def assert_same_result(mine: TrainResult, theirs: TrainResult) -> None:
    assert mine.num_steps == theirs.num_steps
    assert mine.epoch_losses == pytest.approx(theirs.epoch_losses, rel=1e-5)
    ours, reference = (load_checkpoint(result.checkpoint.parent) for result in (mine, theirs))
    # Sums in another order differ in their last bits; Adam's first steps turn that into a share of the learning rate.
    assert max(float((ours[name] - reference[name]).abs().mean()) for name in ours) < 1e-5


def test_a_smaller_micro_batch_gives_the_same_run(project, monkeypatch):
    settings = config_of(project, batch_size=NUM_CLIPS, dropout=0.0, learning_rate=1e-4)
    whole = fine_tune(settings)
    limit_clips(monkeypatch, 2)
    shrunk = fine_tune(settings)
    assert_same_result(shrunk, whole)
    train = [event for event in warnings_of(shrunk.folder) if "micro_batch" in event]
    assert [(event["micro_batch"], event["pieces"]) for event in train] == [(3, 2), (2, 4)]
    assert "at step 1" in train[0]["message"] and "--gradient-checkpointing" in train[0]["message"]


@pytest.mark.slow
def test_on_a_gpu_a_run_begins_with_its_largest_batch_and_is_otherwise_the_same(project, monkeypatch):
    forward, sizes = XttsGpt.forward, list[int]()

    def watched(self, batch, cond_mels):
        if self.training:
            sizes.append(batch.num_positions)
        return forward(self, batch, cond_mels)

    def limited(self, batch, cond_mels):
        """The largest batch alone does not fit."""
        if self.training and batch.num_positions == largest:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, batch, cond_mels)

    settings = config_of(project, batch_size=2, dropout=0.1, num_epochs=1, seed=1)
    monkeypatch.setattr(XttsGpt, "forward", watched)
    whole = fine_tune(settings)
    largest = max(sizes)
    assert sizes[0] < largest, "it stands later in the epoch"
    monkeypatch.setattr("utils.training.train.REHEARSED", ("cpu",))
    monkeypatch.setattr(XttsGpt, "forward", forward)
    assert fine_tune(settings).epoch_losses == whole.epoch_losses
    monkeypatch.setattr(XttsGpt, "forward", limited)
    kinds = [event["kind"] for event in events_of(fine_tune(settings).folder)]
    assert kinds.index("warning") < kinds.index("step")


@pytest.mark.slow
def test_an_evaluation_that_does_not_fit_is_made_in_smaller_parts(project, monkeypatch):
    settings = config_of(project, batch_size=1, eval_batch_size=2, num_epochs=1)
    whole = fine_tune(settings)
    limit_clips(monkeypatch, 1)
    shrunk = fine_tune(settings)
    assert shrunk.best_loss == pytest.approx(whole.best_loss, rel=1e-6)
    assert [event["eval_batch"] for event in warnings_of(shrunk.folder)] == [1]


@pytest.mark.slow
def test_with_a_single_clip_checkpointing_is_turned_on_and_then_the_longest_clip_is_named(project, monkeypatch):
    settings = config_of(project, batch_size=2, eval_batch_size=1, num_epochs=1, dropout=0.0)
    whole = fine_tune(settings)
    with monkeypatch.context() as patch:
        limit_clips(patch, 0, checkpointed=1)
        forced = fine_tune(settings)
    assert forced.epoch_losses == pytest.approx(whole.epoch_losses, rel=1e-5)
    assert [event.get("gradient_checkpointing") for event in warnings_of(forced.folder)] == [None, True]
    limit_clips(monkeypatch, 0, checkpointed=0)
    with pytest.raises(UserError, match=r"one clip in a micro-batch and .* checkpointing on; the longest is clip"):
        fine_tune(settings)


@pytest.mark.slow
def test_checkpointing_that_is_turned_on_later_is_proven_anew(project, monkeypatch):
    forward, passes = XttsGpt.forward, iter(range(2))

    def limited(self, batch, cond_mels):
        if self.training and self.options.checkpointing == "none" and next(passes, None) is None:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, batch, cond_mels)

    monkeypatch.setattr(XttsGpt, "forward", limited)
    folder = fine_tune(config_of(project, batch_size=1, num_epochs=1)).folder
    reported = events_of(folder, "optimizations")
    states = [(event["step"], event["switches"]["gradient_checkpointing"]["state"]) for event in reported]
    assert states == [(1, "off"), (3, "on")]


@pytest.mark.slow
def test_a_resumed_run_computes_in_the_same_pieces(project, monkeypatch):
    settings = config_of(project, batch_size=NUM_CLIPS, dropout=0.1, schedule="constant")
    limit_clips(monkeypatch, 2)
    whole = fine_tune(settings)
    cut = fine_tune(replace(settings, num_epochs=1))
    resumed = fine_tune(replace(settings, resume=cut.folder))
    assert resumed.epoch_losses == whole.epoch_losses
    assert len([event for event in warnings_of(resumed.folder) if "micro_batch" in event]) == 2, "reported once"


def test_other_errors_pass(project, monkeypatch):
    def broken(self, batch, cond_mels):
        raise RuntimeError("a size does not match")

    monkeypatch.setattr(XttsGpt, "forward", broken)
    with pytest.raises(RuntimeError, match="a size does not match"):
        fine_tune(config_of(project))


def test_an_optimizer_out_of_memory_is_not_tried_again(project, monkeypatch):
    def full(*args, **kwargs):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(EagerAdamW, "step", full)
    with pytest.raises(UserError, match="out of memory in the optimizer at step 1"):
        fine_tune(config_of(project))


LIMITED = """
import resource, sys
from pathlib import Path
import psutil, torch
from utils.config import TrainConfig
from utils.training.trainer import Trainer
from utils.training.train import fine_tune
gather = Trainer.gather
def limited(self, batches):
    # What is taken now and some room: too little for all clips at once.
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + int(sys.argv[3]) * 2**20,) * 2)
    Trainer.gather = gather
    return gather(self, batches)
Trainer.gather = limited
output, name = Path(sys.argv[1]), sys.argv[2]
settings = dict(num_epochs=1, batch_size=64, eval_batch_size=1, device="cpu", checkpoint_every=0)
print(fine_tune(TrainConfig(base="tiny", project=name, output=output, **settings)).folder)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on a process's memory")
def test_a_real_allocation_limit_shrinks_the_micro_batch(tmp_path):
    from tests.sounds import make_project

    project = make_project(tmp_path, num_train=64)
    command = [sys.executable, "-c", LIMITED, str(project.output), project.name, "700"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    folder = Path(done.stdout.strip().splitlines()[-1])
    warnings = warnings_of(folder)
    assert warnings and warnings[0]["micro_batch"] == 32
    assert events_of(folder)[-1]["kind"] == "finished"


@pytest.mark.slow
def test_an_evaluation_begins_anew_when_memory_runs_out_half_way(project, monkeypatch):
    """Batches that were scored before the failure count once, and none is skipped."""
    settings = config_of(project, batch_size=1, eval_batch_size=1, num_epochs=1)
    whole = fine_tune(settings)
    evaluate, failed = Recovery.evaluate, []

    def fails_once(self, batches):
        def interrupted():
            for number, batch in enumerate(batches()):
                if number == 1 and not failed:
                    failed.append(number)
                    raise torch.OutOfMemoryError("CUDA out of memory")
                yield batch

        return evaluate(self, interrupted)

    monkeypatch.setattr(Recovery, "evaluate", fails_once)
    monkeypatch.setattr(Recovery, "_shrink_eval", lambda self: None)
    assert fine_tune(settings).best_loss == pytest.approx(whole.best_loss, rel=1e-6)
    assert failed == [1]
