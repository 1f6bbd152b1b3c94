"""A run's precision and compiling are its own switches', whatever `accelerate launch` has in its configuration."""

import logging
import os
from types import SimpleNamespace

import pytest
from accelerate.commands.launch import launch_command, launch_command_parser
from accelerate.utils import DynamoBackend

from tests.run_logs import events_of
from utils.cli.train import main
from utils.errors import UserError
from utils.training.switches.optim import UNSUPPORTED, make_accelerator


def test_an_fp32_run_under_accelerate_launch_stays_fp32_and_uncompiled(project, monkeypatch):
    launched: list[tuple[list[str], dict[str, str]]] = []

    def start(command: list[str], env: dict[str, str]) -> SimpleNamespace:
        launched.append((command, env))
        return SimpleNamespace(wait=lambda: 0, returncode=0)

    monkeypatch.setattr("accelerate.commands.launch.subprocess", SimpleNamespace(Popen=start))
    configured = ("--cpu", "--num_processes=1", "--mixed_precision=bf16", "--dynamo_backend=eager")
    place = (f"--project={project.name}", f"--output={project.output}", "--base=tiny", "--device=cpu")
    asked = ("--mixed-precision=fp32", "--num-epochs=1", "--num-workers=0", "--run-id=launched")
    launch_command(launch_command_parser().parse_args([*configured, "--module", "utils.cli.train", *place, *asked]))
    ((command, variables),) = launched
    for name in variables.keys() - os.environ.keys():
        monkeypatch.setenv(name, variables[name])
    assert os.environ["ACCELERATE_MIXED_PRECISION"] == "bf16"
    main(command[command.index("utils.cli.train") + 1 :])
    (reported,) = events_of(project.runs / "launched", "optimizations")
    precision, compiled = (reported["switches"][name] for name in ("mixed_precision", "compile"))
    assert "products float32, block outputs float32" in precision["observed"]
    assert (compiled["state"], precision["state"]) == ("off", "off")


def test_what_accelerate_is_set_to_and_a_switch_decides_is_reported_once(monkeypatch, caplog):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    monkeypatch.setenv("ACCELERATE_DYNAMO_BACKEND", "INDUCTOR")
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "1")
    with caplog.at_level(logging.WARNING, logger="utils"):
        accelerator = make_accelerator("cpu")
    assert (accelerator.mixed_precision, accelerator.native_amp) == ("no", False)
    assert accelerator.state.dynamo_plugin.backend == DynamoBackend.NO
    assert caplog.messages == [
        "ACCELERATE_MIXED_PRECISION=bf16 is not used: --mixed-precision decides",
        "ACCELERATE_DYNAMO_BACKEND=INDUCTOR is not used: --compile decides",
    ]


@pytest.mark.parametrize("variable", UNSUPPORTED)
def test_what_would_change_the_model_is_refused(variable, monkeypatch):
    monkeypatch.setenv(variable, "TE" if variable.endswith("BACKEND") else "true")
    with pytest.raises(UserError, match="cannot train this model"):
        make_accelerator("cpu")


def test_a_device_that_accelerate_overrides_is_told(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    with pytest.raises(UserError, match="cuda was asked for, but accelerate is set up for cpu"):
        make_accelerator("cuda")
