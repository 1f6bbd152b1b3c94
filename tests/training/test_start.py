"""How a run starts: with its device, and from an earlier run's weights, which it needs only to begin."""

import shutil

import pytest
import torch

from tests.training.test_run import config_of
from utils import jobs
from utils.bases.loading import load_gpt
from utils.config import ExportConfig, TrainConfig
from utils.errors import UserError
from utils.inference.export import export_model
from utils.model.weights import read_weights
from utils.training.data.base import START_FILE, starting_base
from utils.training.train import fine_tune


def test_training_goes_on_from_an_earlier_runs_weights(project):
    first = fine_tune(config_of(project, num_epochs=1))
    start = f"run/{first.folder.name}/best"
    begun = load_gpt(starting_base(config_of(project, base=start), project)).state_dict()
    trained = read_weights(first.checkpoint)
    assert all(torch.equal(begun[name], trained[name]) for name in trained)
    second = fine_tune(config_of(project, base=start, num_epochs=1, learning_rate=1e-9))
    assert second.first_loss < first.first_loss, "what the first run learned is there"
    shutil.rmtree(first.folder)
    resumed = fine_tune(TrainConfig(project=project.name, output=project.output, resume=second.folder, num_epochs=2))
    assert resumed.num_steps == 2 * second.num_steps, "the run it started from is not needed any more"
    ready = export_model(ExportConfig(project=project.name, output=project.output, run=second.folder.name))
    assert (ready / "model.pth").is_file()


def test_additions_of_a_run_keep_the_weights_they_belong_to(project):
    first = fine_tune(config_of(project, num_epochs=1))
    second = fine_tune(config_of(project, base=f"run/{first.folder.name}/last", num_epochs=1, lora_rank=4))
    kept = second.folder / START_FILE
    assert kept.samefile(first.folder / "checkpoints" / "step-00000003" / "model.safetensors"), "without another copy"
    shutil.rmtree(first.folder)
    again = starting_base(config_of(project, base=f"run/{first.folder.name}/last"), project, second.folder)
    own, weights = load_gpt(again).state_dict(), read_weights(kept)
    assert all(torch.equal(own[name], weights[name]) for name in weights)


def test_a_run_that_is_not_there_is_named(project, tmp_path):
    for base in ("run/gone/best", "run/../best"):
        with pytest.raises(UserError, match="run"):
            fine_tune(config_of(project, base=base))


class Reached(Exception):
    """Training reached the place where it uses the device."""


def test_nothing_uses_the_device_before_it_is_claimed_and_it_is_free_after_any_end(project, monkeypatch):
    def reached(*_: object) -> None:
        raise Reached

    config = config_of(project, device="cpu")
    monkeypatch.setattr("utils.training.train.make_accelerator", reached)
    with pytest.raises(Reached):
        fine_tune(config)
    held = jobs.hold("train", device="cpu", output=project.output, folder=project.folder)
    with held, pytest.raises(UserError, match="the CPU is in use by the train job"):
        fine_tune(config)
    assert not project.runs.exists() or not list(project.runs.iterdir())
