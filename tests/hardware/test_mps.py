"""Apple's GPU: used where it was asked for and is there, refused in words elsewhere, and what it lacks is named."""

import logging
import platform
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.training.test_run import config_of
from utils.cli import speech_server, synthesize, train
from utils.cli.common import run_command
from utils.config import DemoConfig
from utils.errors import UserError
from utils.inference.model_cache import ModelCache
from utils.inference.products import resolve_precision
from utils.jobs.device import wanted_device
from utils.performance_utils.device import settle_device
from utils.project.paths import Project
from utils.training.switches.optim import choose_precision

MPS = torch.device("mps")
MISSING = (
    "The operator 'aten::_linalg_solve_ex.result' is not currently implemented for the MPS device. If you want this op "
    "to be considered for addition please comment on an issue.\nAs a temporary fix, set the environment variable."
)


@pytest.fixture
def mac(monkeypatch) -> None:
    """A Mac with a GPU of Apple, as far as programs look."""
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)


COMMANDS: dict[str, Callable[[Project], tuple[Callable[[list[str]], None], list[str]]]] = {
    "train": lambda project: (train.main, ["--project", project.name, "--base", "tiny"]),
    "synthesize": lambda project: (synthesize.main, ["--model", "tiny", "--text", "No.", "--out", "no.wav"]),
    "server": lambda project: (speech_server.main, ["--port", "0", "--model", "tiny"]),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_it_is_refused_in_words_where_there_is_none(project, command, capsys, monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.chdir(project.folder)
    main, flags = COMMANDS[command](project)
    with pytest.raises(SystemExit) as end:
        main([*flags, "--output", str(project.output), "--device", "mps"])
    said = capsys.readouterr().err
    assert end.value.code == 2 and "Traceback" not in said
    assert "device mps was requested, but this is no Mac" in said and "--device auto or cpu" in said
    assert not project.runs.exists() and not Path("no.wav").exists()


def test_a_mac_whose_pytorch_cannot_use_it_says_so(mac, monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(UserError, match="PyTorch cannot use it here"):
        settle_device("mps")


def test_it_computes_in_float32_only_and_says_that_it_was_not_seen(mac, project, caplog):
    caplog.set_level(logging.WARNING)
    assert (ModelCache("mps").device, wanted_device("mps")) == ("mps", "mps")
    assert "we have not seen this" in caplog.text
    assert settle_device("auto")[0] != "mps" != wanted_device("auto")
    assert resolve_precision("auto", MPS) == choose_precision("auto", MPS) == choose_precision("fp32", MPS) == "fp32"
    for refused in (lambda: resolve_precision("fp16", MPS), lambda: choose_precision("bf16", MPS)):
        with pytest.raises(UserError, match="in fp32, not in"):
            refused()
    with pytest.raises(UserError, match="mps trains in one process"):
        config_of(project, device="mps", processes=2).validate(where="train")


def test_an_operation_that_it_lacks_is_named(capsys):
    def lack(error: Exception) -> Callable[[DemoConfig], None]:
        def work(config: DemoConfig) -> None:
            raise error

        return work

    float64 = TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64.")
    for error in (NotImplementedError(MISSING), float64, RuntimeError("Conv3D is not supported on MPS")):
        with pytest.raises(SystemExit) as end:
            run_command(DemoConfig, lack(error), "Try.", [])
        said = capsys.readouterr().err
        assert end.value.code == 2 and str(error).splitlines()[0] in said and "--device cpu" in said
    for error in (TypeError("a fault of ours"), RuntimeError("a fault of ours on MPS")):
        with pytest.raises(type(error), match="a fault of ours"):
            run_command(DemoConfig, lack(error), "Try.", [])
