"""train_gpt as a person calls it: from a plain Python process, somewhere else, with nothing set up."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.run_logs import events_of
from tests.sounds import make_project
from utils import gpt_train
from utils.config import TrainConfig
from utils.errors import UserError
from utils.gpt_train import train_gpt
from utils.jobs.json_lines import parse_line
from utils.project.paths import Project
from utils.runs.checkpoints import Checkpoints, verify
from utils.training.child import _result

ROOT = Path(__file__).resolve().parent.parent

SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # As at a prompt: a suite in the background ignores it.
sys.path.insert(0, {root!r})
from utils.gpt_train import train_gpt
assert "torch" not in sys.modules, "the process that waits needs none"
train_gpt("", "tiny", "en", {epochs}, 2, 1, {train!r}, {evaluate!r}, {output!r},
          device="cpu", num_workers=1, dropout=0.0, checkpoint_minutes=0.0)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "projects", name="my voice (take 2)")


@pytest.fixture
def caller(project: Project, tmp_path: Path) -> Iterator[subprocess.Popen]:
    """A prompt in a folder that holds another package called utils; it trains far longer than any test."""
    (tmp_path / "elsewhere" / "utils").mkdir(parents=True)
    (tmp_path / "elsewhere" / "utils" / "__init__.py").write_text("raise ImportError('another utils')")
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "OMP_WAIT_POLICY")}
    process = subprocess.Popen(
        [sys.executable, "-u", "-"],
        cwd=tmp_path / "elsewhere",
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    paths = {"train": str(project.train_csv), "evaluate": str(project.eval_csv), "output": str(project.folder)}
    assert process.stdin is not None
    process.stdin.write(SCRIPT.format(root=str(ROOT), epochs=10_000, **paths))
    process.stdin.close()
    process.stdin = None  # Else `communicate` flushes what is closed.
    yield process
    process.kill()
    process.wait()


def wait_for_step(process: subprocess.Popen) -> list[str]:
    """The lines up to the first step after the proofs."""
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line.rstrip())
        if line.startswith("mixed precision"):
            return lines
    raise AssertionError(f"{lines}\n{process.stderr.read() if process.stderr else ''}")


def run_of(project: Project) -> Path:
    (folder,) = project.runs.iterdir()
    return folder


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 120
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the process that trains does not end"
        time.sleep(0.1)


def test_ctrl_c_saves_says_how_to_go_on_and_that_works(project, caller):
    lines = wait_for_step(caller)
    assert [line for line in lines if line.startswith("training base tiny on cpu: 6 clips, 2 for evaluation")]
    assert [line for line in lines if line.startswith("epoch 1 of 10000, step 1 of 30000: loss ")]
    assert "SDPA enabled: flash (CPU) in 4 of 4 blocks" in lines
    assert "gradient checkpointing off: not requested" in lines
    assert lines[-1] == "mixed precision off: not requested"
    folder = run_of(project)
    child = json.loads((folder / "job.json").read_text())["pid"]
    environment = psutil.Process(child).environ()
    assert (environment["OMP_WAIT_POLICY"], environment["THP_MEM_ALLOC_ENABLE"]) == ("PASSIVE", "1")

    caller.send_signal(signal.SIGINT)
    printed, errors = caller.communicate(timeout=400)
    assert caller.returncode != 0 and errors.rstrip().endswith("KeyboardInterrupt"), errors
    assert f'call train_gpt likewise with resume="{folder}"' in printed
    wait_until_gone(child)
    assert events_of(folder)[-1]["kind"] == "stopped"
    last = Checkpoints(folder).last()
    assert last is not None
    verify(last)

    # The call likewise: the same manifests, named in full, are nothing new to the run.
    settings = {"device": "cpu", "num_workers": 0, "dropout": 0.0, "checkpoint_minutes": 0.0, "max_hours": 1e-9}
    csvs = (project.train_csv, project.eval_csv)
    resumed = train_gpt(
        "", "tiny", "en", 10_000, 2, 1, *csvs, project.folder, resume=folder, in_process=True, **settings
    )
    assert Path(resumed.exp_path) == folder
    newest = Checkpoints(folder).last()
    assert newest is not None and newest.name > last.name


WORKER = """
import signal, sys, time
from utils.training import worker
def train(config, **_):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        print("begun", flush=True)
        time.sleep(120)
    finally:
        print("saving", flush=True)
        (config.output / "saved").touch()
worker.train = train
worker.main()
"""
CALLER = """
import sys
from pathlib import Path
from utils.jobs.json_lines import JsonChild
child = JsonChild([sys.executable, "-c", sys.argv[1]], env=None)
child.send({"config": {"project": "a", "output": sys.argv[2]}, "accept_license": False})
while next(iter(child))["line"] != "begun\\n":
    pass
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_when_the_caller_is_killed_the_run_is_asked_to_stop_and_may_still_print(tmp_path):
    """As by Ctrl-C: what a real run then saves, the test above shows."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", CALLER, WORKER, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as caller:
        assert caller.stdout is not None
        child = int(caller.stdout.readline())
        caller.kill()
    wait_until_gone(child)
    assert (tmp_path / "saved").is_file()


@pytest.mark.slow
def test_a_fault_in_the_child_is_the_same_fault_here(project):
    project.eval_csv.unlink()
    with pytest.raises(UserError) as caught:
        train_gpt("", "tiny", "en", 1, 2, 1, project.train_csv, project.eval_csv, project.folder)
    error = caught.value
    assert (error.what, error.where) == ("the table of clips does not exist", str(project.eval_csv))
    assert error.fix == "correct its path" and not project.runs.exists()


def test_a_base_that_is_not_here_is_refused_with_each_way_to_agree_to_its_license(project, monkeypatch):
    monkeypatch.delenv("COQUI_TOS_AGREED", raising=False)
    csvs = (project.train_csv, project.eval_csv)
    with pytest.raises(UserError) as caught:
        train_gpt("", "v2.0.2", "en", 1, 2, 1, *csvs, project.folder, in_process=True)
    error = caught.value
    assert "no base 'v2.0.2'" in error.what and "Coqui Public Model License" in error.what
    assert error.where.endswith("v2.0.2")
    for way in ("accept_license=True", "--accept-license", "COQUI_TOS_AGREED=1", "utils.cli.base download v2.0.2"):
        assert way in error.fix
    assert not project.runs.exists()


def test_a_child_that_was_killed_or_crashed_is_told_as_such():
    with pytest.raises(UserError, match="was ended by signal 9") as caught:
        _result(None, -9)
    assert "smaller batch_size" in caught.value.fix and 'resume="last"' in caught.value.fix
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        _result({"kind": "error", "traceback": "Traceback ...\nZeroDivisionError"}, 1)


@pytest.mark.parametrize("line", ["a library says hello\n", '{"kind": "ste{"kind": "event"}\n', "[1, 2]\n", "\n"])
def test_a_line_that_is_no_answer_is_shown_and_ends_nothing(line):
    assert parse_line(line) == {"kind": "stderr", "line": line.strip() and line}
    assert parse_line('{"kind": "step", "done": 1}\n')["kind"] == "step"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_size": "two"}, "batch_size is 'two'; use a whole number"),
        ({"grad_acumm": 2.5}, "grad_accumulation is 2.5; use a whole number"),
        ({"num_epochs": [1]}, r"num_epochs is \[1\]; use a whole number"),
        ({"max_audio_length": "long"}, "max_audio_length is 'long'; use a whole number"),
        ({"learning_rate": "fast"}, "learning_rate is 'fast'; use a number"),
        ({"train_csv": None}, "train_csv is None; use a path"),
        ({"output_path": 5, "use_compile": "yes"}, "use_compile is 'yes'; use True or False\n.*output_path is 5"),
        ({"enable_mixed_precision": "bf16"}, "enable_mixed_precision is 'bf16'; use True or False"),
        ({"resume": 7}, "resume is 7; use a path"),
        ({"schedule": "exponential"}, "schedule is 'exponential'; use linear or cosine"),
        ({"eval_batch_size": "3"}, "eval_batch_size is '3'; use a whole number"),
        ({"dropout": "0.1"}, "dropout is '0.1'; use a number or None"),
        ({"device": "gpu"}, "device is 'gpu'"),
        ({"sdpa": True}, "sdpa is True; use enable_sdpa"),
        ({"project": "b"}, "project is 'b'; use output_path"),
        ({"colour": 1}, "unknown settings: colour"),
    ],
)
def test_values_of_another_type_are_named(tmp_path, values, message):
    arguments = {"custom_model": "", "version": "tiny", "language": "en", "num_epochs": 1, "batch_size": 1}
    arguments |= {"grad_acumm": 1, "train_csv": "a.csv", "eval_csv": "b.csv", "output_path": tmp_path / "voice"}
    with pytest.raises(UserError, match=message):
        train_gpt(**(arguments | values))
    assert list(tmp_path.iterdir()) == []


def test_names_of_guides_and_other_trainers_are_settings(project, monkeypatch):
    seen: list[TrainConfig] = []

    def see(config: TrainConfig, **_: object) -> None:
        seen.append(config)
        raise UserError(what="seen")

    monkeypatch.setattr(gpt_train, "train_in_child", see)
    tables = (project.train_csv, project.eval_csv, project.folder)
    switches = {"enable_grad_checkpoint": True, "enable_mixed_precision": True, "use_compile": True}
    with pytest.raises(UserError, match="seen"):
        train_gpt("", "tiny", "en", 1, 2, 1, *tables, gradient_accumulation_steps=4, model_path="starter", **switches)
    assert (seen[0].grad_accumulation, seen[0].base) == (4, "starter")
    assert (seen[0].gradient_checkpointing, seen[0].mixed_precision, seen[0].compile) == ("full", "auto", "default")
    assert seen[0].sdpa and seen[0].resume is None
    for custom, accumulation, given, message in (
        ("", 2, {"gradient_accumulation_steps": 4}, "grad_acumm (2) and gradient_accumulation_steps (4)"),
        ("tiny", 1, {"model_path": "starter"}, "custom_model (tiny) and model_path (starter)"),
        ("", 1, {"per_device_train_batch_size": 4}, "batch_size (2) and per_device_train_batch_size (4)"),
        ("", 1, {"enable_mixed_precision": False, "bf16": True}, "enable_mixed_precision (False) and bf16 (True)"),
        (
            "",
            1,
            {"enable_grad_checkpoint": False, "gradient_checkpointing": True},
            "enable_grad_checkpoint (False) and gradient_checkpointing (True)",
        ),
    ):
        with pytest.raises(UserError, match=re.escape(f"given twice, differently: {message}")):
            train_gpt(custom, "tiny", "en", 1, 2, accumulation, *tables, **given)
    for given, ours in (
        ({"bf16": True, "gradient_checkpointing": True}, ("full", "bf16", "off")),
        ({"enable_grad_checkpoint": True, "gradient_checkpointing": "selective"}, ("selective", "fp32", "off")),
        ({"enable_mixed_precision": True, "bf16": True, "compile": "off"}, ("none", "bf16", "off")),
        (
            {"gradient_accumulation_steps": 1, "use_compile": True, "compile": "max-autotune"},
            ("none", "fp32", "max-autotune"),
        ),
        ({"enable_mixed_precision": False, "use_compile": False}, ("none", "fp32", "off")),
    ):
        with pytest.raises(UserError, match="seen"):
            train_gpt("", "tiny", "en", None, 2, 1, *tables, **given)
        assert (seen[-1].gradient_checkpointing, seen[-1].mixed_precision, seen[-1].compile) == ours
