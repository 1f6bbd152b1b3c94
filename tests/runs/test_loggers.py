"""Loggers subscribe to a run's events: TensorBoard's own reader finds curves and sounds, and no fault ends a run."""

import sys
import wave
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.configs import tiny_run
from tests.run_logs import events_of
from utils.errors import UserError
from utils.runs.log import EventWriter
from utils.runs.loggers import find_loggers
from utils.training.train import fine_tune

STEP = {"step": 3, "epoch": 0, "loss": 1.5, "lr": 1e-5}


def write_run(folder: Path, log_to: str) -> None:
    """A run of one step, one evaluation and one sample."""
    (folder / "samples").mkdir(parents=True)
    with wave.open(str(folder / "samples" / "a.wav"), "wb") as sound:
        sound.setparams((1, 2, 24_000, 0, "NONE", ""))
        sound.writeframes(bytes(4_800))
    loggers = [make(folder, {"project": "anna"}) for make in find_loggers(log_to)]
    log = EventWriter(folder / "events.jsonl", None, loggers)
    log.write("started", total_steps=3)
    log.write("step", **STEP)
    log.write("eval", step=3, loss=1.25, is_best=True)
    log.write("sample", step=3, sentence=1, text="Hello.", path="samples/a.wav")
    log.close()


def test_tensorboard_reads_curves_and_sounds(tmp_path):
    write_run(tmp_path / "run-1", "tensorboard")
    read = EventAccumulator(str(tmp_path / "run-1" / "tensorboard")).Reload()
    (loss,) = read.Scalars("step/loss")
    assert (loss.step, loss.value) == (3, 1.5)
    assert set(read.Tags()["scalars"]) == {"step/epoch", "step/loss", "step/lr", "eval/loss"}
    (sound,) = read.Audio("sample/1")
    assert (sound.step, sound.sample_rate, sound.content_type) == (3, 24_000, "audio/wav")
    assert sound.encoded_audio_string == (tmp_path / "run-1" / "samples" / "a.wav").read_bytes()


def test_wandb_gets_values_with_the_step_they_are_of(tmp_path, monkeypatch):
    logged: list[dict[str, Any]] = []
    begun: dict[str, Any] = {}
    run = SimpleNamespace(define_metric=lambda *_, **__: None, log=logged.append, finish=lambda: logged.append({}))
    fake = ModuleType("wandb")
    fake.init = lambda **options: begun.update(options) or run  # type: ignore[attr-defined]
    fake.Audio = lambda path, caption: (Path(path).name, caption)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.delitem(sys.modules, "utils.runs.loggers.wandb", raising=False)
    write_run(tmp_path / "run-1", "wandb")
    monkeypatch.delitem(sys.modules, "utils.runs.loggers.wandb")
    assert (begun["project"], begun["id"], begun["resume"]) == ("anna", "run-1", "allow")
    assert logged == [
        {"step/epoch": 0.0, "step/loss": 1.5, "step/lr": 1e-5, "trainer_step": 3},
        {"eval/loss": 1.25, "trainer_step": 3},
        {"sample/1": ("a.wav", "Hello."), "trainer_step": 3},
        {},
    ]


def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.delitem(sys.modules, "utils.runs.loggers.wandb", raising=False)
    with pytest.raises(UserError, match="wandb is not installed") as caught:
        find_loggers("tensorboard, wandb")
    assert "python -m pip install wandb" in caught.value.fix
    with pytest.raises(UserError, match="no logger 'paper'") as caught:
        find_loggers("paper")
    assert caught.value.fix == "use tensorboard or wandb"
    assert find_loggers(None) == []


def test_a_logger_that_fails_is_given_up_and_the_run_goes_on(tmp_path):
    class Failing:
        calls = 0

        def event(self, kind: str, fields: dict[str, Any]) -> None:
            Failing.calls += 1
            raise ConnectionError("no route to host")

        def close(self) -> None:
            raise AssertionError("it was given up")

    log = EventWriter(tmp_path / "events.jsonl", None, [Failing()])  # type: ignore[list-item]
    log.write("step", **STEP)
    log.write("step", **STEP)
    log.close()
    kinds = [event["kind"] for event in events_of(tmp_path)]
    assert kinds == ["step", "warning", "step"] and Failing.calls == 1


def test_a_training_shows_in_tensorboard_and_a_wrong_name_ends_it_before_anything_is_made(project):
    settings = tiny_run(project, num_epochs=1, device="cpu", log_to="tensorboard")
    run = fine_tune(settings).folder
    read = EventAccumulator(str(run / "tensorboard")).Reload()
    events = events_of(run, "step")
    assert [curve.step for curve in read.Scalars("step/loss")] == [event["step"] for event in events]
    runs = set(project.runs.iterdir())
    with pytest.raises(UserError, match="no logger 'paper'"):
        fine_tune(replace(settings, log_to="paper"))
    assert set(project.runs.iterdir()) == runs
