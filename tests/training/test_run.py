"""A whole run from its settings: the files it leaves, its log, what it refuses, and going on after a cut."""

import time
from dataclasses import fields, replace
from pathlib import Path

import pytest

from tests.configs import tiny_run
from tests.run_logs import events_of, warnings_of
from tests.saving import same
from tests.sounds import make_project
from utils.config import TrainConfig
from utils.dataset.storage.manifest import read_manifest, write_manifest
from utils.errors import UserError
from utils.model.weights import read_weights
from utils.project.paths import Project
from utils.runs import checkpoints as state_module
from utils.training import train
from utils.training.checkpointing import RunState
from utils.training.train import TrainResult, fine_tune


def config_of(project: Project, **settings) -> TrainConfig:
    return tiny_run(project, **{"num_epochs": 2, "batch_size": 2} | settings)


@pytest.fixture(scope="module")
def finished(file_project: Project) -> TrainResult:
    """A run of two epochs, two clips a batch and two batches a step, that one process made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "require_alike", lambda facts: pytest.fail("one process compared its code"))
        return fine_tune(config_of(file_project, grad_accumulation=2))


def test_a_run_leaves_exactly_these_files(finished):
    files = {str(path.relative_to(finished.folder)) for path in finished.folder.rglob("*") if path.is_file()}
    last, best = "checkpoints/step-00000004", f"checkpoints/{finished.checkpoint.parent.name}"
    assert files == {
        "config.yaml",
        "base.json",
        "job.json",
        ".alive",
        "events.jsonl",
        "recordings.txt",
        "reference.wav",
        "base/config.json",
        "base/vocab.json",
        "base/speakers_xtts.pth",
        *(f"{last}/{name}" for name in ("model.safetensors", "optimizer.safetensors", "state.json", "complete.json")),
        *(f"{best}/{name}" for name in ("model.safetensors", "state.json", "complete.json")),
    }
    assert (finished.num_steps, finished.num_clips, finished.num_dropped) == (4, 8, 0)
    assert len(finished.epoch_losses) == 2
    state = state_module.read_state(finished.folder / last)
    assert (state["epoch"], state["batches_done"], state["step"]) == (2, 0, 4), "saved with its evaluation"
    assert state["best_loss"] == finished.best_loss and {one.name for one in fields(RunState)} <= set(state)


def test_the_log_tells_every_step_and_evaluation(finished):
    events = events_of(finished.folder)
    assert (events[0]["kind"], events[-1]["kind"]) == ("started", "finished")
    steps = [event for event in events if event["kind"] == "step"]
    assert [step["step"] for step in steps] == [1, 2, 3, 4]
    wanted = {
        "time",
        "kind",
        "step",
        "epoch",
        "loss",
        "loss_text",
        "loss_mel",
        "lr",
        "grad_norm",
        "step_s",
        "data_s",
        "phases",
        "audio_s",
    }
    assert set(steps[0]) == wanted
    assert steps[0]["loss"] == pytest.approx(0.01 * steps[0]["loss_text"] + steps[0]["loss_mel"], rel=1e-4)
    computed = [steps[1]["phases"][name] for name in ("transfer", "forward", "backward", "optimizer")]
    assert set(steps[1]["phases"]) == {"data", "logging", "transfer", "forward", "backward", "optimizer"}
    assert 0.5 * steps[1]["step_s"] < sum(computed) <= steps[1]["step_s"] + 0.001
    assert len([event for event in events if event["kind"] == "eval"]) == 2
    started = events[0]
    sources = started["sources"]
    assert (sources["learning_rate"], sources["num_epochs"], sources["dropout"]) == ("base tiny", "you", "base tiny")
    assert started["config"]["learning_rate"] == 3e-3


def test_the_same_seed_gives_the_same_weights_and_a_new_run_touches_no_older_one(finished, file_project):
    before = {path: path.stat().st_mtime_ns for path in finished.folder.rglob("*")}
    second = fine_tune(config_of(file_project, grad_accumulation=2))
    assert same(read_weights(finished.checkpoint), read_weights(second.checkpoint))
    assert second.folder != finished.folder
    assert {path: path.stat().st_mtime_ns for path in finished.folder.rglob("*")} == before


def test_every_clip_that_is_not_trained_on_is_listed(project):
    text = project.train_csv.read_text(encoding="utf-8")
    text = text.replace("Still waters", "ሰላም waters").replace("Rome was", f"Rome {chr(57) * 400} was")
    project.train_csv.write_text(text, encoding="utf-8")
    result = fine_tune(config_of(project, num_epochs=1, max_audio_length=65_000))
    started = events_of(result.folder, "started")[0]
    reasons = {drop["clip"]: drop["reason"] for drop in started["dropped"]}
    assert reasons["clip2.wav"] == "the vocabulary lacks: ሰ ላ ም"
    assert "longer than 2.9 s" in reasons["clip7.wav"]
    assert "text tokens are more than 200" in reasons["clip5.wav"]
    assert result.num_clips + result.num_dropped == 8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"learning_rate": 5.0}, "learning_rate is 5.0"),
        ({"language": "amh"}, "cannot read the language 'amh'"),
        ({"base": "v2.0.2"}, "no base 'v2.0.2'"),
        ({"max_text_length": 500}, "max_text_length is 500"),
        ({"max_audio_length": 22_050}, "no clip to evaluate with"),
        ({"batch_tokens": 64}, "batch_tokens is 64 positions, but the clip clip5.wav alone takes"),
        ({"batch_tokens": 640, "max_mel_length": 300}, "exclude each other"),
        ({"mixed_precision": "fp16", "device": "cpu"}, "fp16 needs a CUDA GPU"),
        ({"resume": Path("nowhere")}, "no run to resume"),
    ],
)
def test_faults_are_told_before_a_run_folder_exists(project, settings, message):
    with pytest.raises(UserError, match=message):
        fine_tune(config_of(project, **settings))
    assert not project.runs.exists()


def test_all_faulty_settings_are_told_together(project):
    with pytest.raises(UserError) as error:
        fine_tune(config_of(project, batch_size=0, grad_clip_norm=0.0, weight_decay=2.0))
    assert all(name in str(error.value) for name in ("batch_size", "grad_clip_norm", "weight_decay"))


@pytest.mark.slow
def test_the_best_is_the_best_however_slow_the_disk(project, monkeypatch):
    sync = state_module.sync

    def slow(path: Path) -> None:
        time.sleep(0.06)
        sync(path)

    monkeypatch.setattr(state_module, "sync", slow)
    result = fine_tune(config_of(project, num_epochs=10, dropout=0.1, patience=2))
    losses = {event["loss"]: event["step"] for event in events_of(result.folder, "eval")}
    # Later evaluations are worse than the best and better than the one before it, which was on the disk already.
    assert list(losses.values()).index(losses[min(losses)]) not in (0, len(losses) - 1)
    assert [path.name for path in (result.folder / "checkpoints").glob("best-*")] == [f"best-{losses[min(losses)]:08d}"]


def test_a_speaker_with_one_clip_is_conditioned_on_it_and_reported(tmp_path):
    result = fine_tune(config_of(make_project(tmp_path, num_train=1, num_eval=1), conditioning="other"))
    warnings = warnings_of(result.folder)
    assert any("1 speaker(s) have one clip only" in message for message in warnings)


def test_word_times_teach_reading_along_and_are_shown(project):
    csv = project.train_csv
    clips = read_manifest(csv)
    times = [tuple(0.1 * number for number in range(len(clip.text.split()))) for clip in clips]
    write_manifest(csv, [replace(clip, word_times=one) for clip, one in zip(clips, times, strict=True)])
    result = fine_tune(config_of(project, num_epochs=3, learning_rate=1e-3, reading_weight=0.2, dropout=0.0))
    missed = [event["loss_reading"] for event in events_of(result.folder, "step")]
    assert missed[-1] < missed[0]


def test_reading_along_without_word_times_is_refused(project):
    with pytest.raises(UserError, match="word times"):
        fine_tune(config_of(project, reading_weight=0.2))
    with pytest.raises(UserError, match="compile off"):
        fine_tune(config_of(project, reading_weight=0.2, compile="default"))
