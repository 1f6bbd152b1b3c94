"""The commands end to end on a small project: what they print, leave behind, and answer to bad input."""

import gzip
import json
import re
import shutil
import subprocess
import sys

import pytest
import soundfile

from tests.sounds import make_project
from utils.bases.find import find_base
from utils.cli import base, export, synthesize, train
from utils.config import TrainConfig
from utils.hardware.gpu import find_gpus
from utils.project.paths import Project
from utils.training.data.base import other_languages


@pytest.fixture(scope="module")
def training(tmp_path_factory) -> tuple[Project, str]:
    """A project with one run, and all that the run's process wrote."""
    project = make_project(tmp_path_factory.mktemp("output"))
    command = [sys.executable, "-m", "utils.cli.train", *flags(project), "--base", "tiny", "--num-epochs", "1"]
    done = subprocess.run(
        [*command, "--batch-size", "3"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return project, done.stdout


@pytest.fixture(scope="module")
def trained(training: tuple[Project, str]) -> Project:
    return training[0]


def flags(project: Project) -> list[str]:
    return ["--project", project.name, "--output", str(project.output)]


@pytest.mark.skipif(bool(find_gpus()[0]), reason="this machine has a GPU")
def test_a_machine_without_a_gpu_is_not_told_that_something_failed(training):
    """The libraries' own output as well: Kineto wrote that gpuGetDeviceCount failed."""
    printed = training[1]
    assert "utils.cli.export" in printed
    for word in ("gpuGetDeviceCount", "failed", "ERROR", "Warning"):
        assert word not in printed, printed


def test_train_export_and_speak(training, tmp_path, capsys):
    trained, printed = training
    assert "8 used, 0 dropped" in printed and f"utils.cli.export --project {trained.name}" in printed
    export.main(flags(trained))
    printed = capsys.readouterr().out
    assert "model.pth" in printed and "It loads in: any XTTS v2 software" in printed
    wav = tmp_path / "hello.wav"
    synthesize.main([*flags(trained), "--text", "No.", "--out", str(wav)])
    assert "s of speech" in capsys.readouterr().out
    info = soundfile.info(wav)
    assert (info.samplerate, info.channels, info.subtype) == (24_000, 1, "PCM_16") and info.frames > 0


def test_train_profiles_steps_and_says_what_a_base_of_many_languages_may_lose(trained, tmp_path, capfd):
    shutil.copytree(find_base("tiny").folder, tmp_path / "many")
    (tmp_path / "many" / "about.json").write_text(json.dumps({"name": "many"}), encoding="utf-8")
    command = [*flags(trained), "--base", str(tmp_path / "many"), "--num-epochs", "1", "--sample-text", ""]
    train.main([*command, "--best-by", "loss", "--profile", "1", "--run-id", "profiled"])
    printed = capfd.readouterr().err
    assert "many reads 16 languages besides en; training all weights on one may cost it the others" in printed
    small = TrainConfig(project=trained.name, output=trained.output, base=str(tmp_path / "many"), lora_rank=2)
    assert not other_languages(small, find_base(small.base), ())
    _, found = printed.split("costliest operations of the profiled steps")
    assert len(re.findall(r"^\S.* +\d+ calls +\d+\.\d ms +\d+\.\d%$", found, re.MULTILINE)) == 10, printed
    assert "aten::addmm" in found or "aten::mm" in found
    events = json.loads(gzip.decompress((trained.folder / "runs" / "profiled" / "trace.json.gz").read_bytes()))
    assert {"ProfilerStep#1"} == {name for e in events["traceEvents"] if (name := e["name"]).startswith("ProfilerStep")}


@pytest.mark.parametrize(
    ("command", "args", "message"),
    [
        (train, ["--project", "../up"], "cannot be used as a project name"),
        (train, ["--project", "nothing"], "has no dataset yet"),
        (train, ["--project", "nothing", "--batch-size", "0"], "batch_size is 0"),
        (train, ["--project", "nothing", "--base", "v2.0.3", "--accept-license"], "has no dataset yet"),
        (synthesize, ["--model", "v2.0.3", "--text", "Hi."], "utils.cli.base download v2.0.3"),
        (export, ["--project", "nothing"], "no trained run"),
        (synthesize, ["--project", "nothing", "--text", "Hi."], "no exported model yet"),
        (synthesize, ["--text", "Hi."], "give either a project or a model"),
        (synthesize, ["--model", "tiny", "--text", " "], "text is empty"),
        (synthesize, ["--model", "tiny", "--text", "Hi."], "which language"),
        (synthesize, ["--model", "tiny", "--text", "Hi.", "--out", "."], "--out is a folder"),
        (synthesize, ["--model", "tiny", "--text", "ሰላም", "--language", "en"], "cannot read: ሰ ላ ም"),
        (synthesize, ["--model", "tiny", "--text", "Hi.", "--language", "amh"], "cannot read the language"),
        (
            synthesize,
            ["--model", "tiny", "--text", "Hi.", "--language", "en", "--reference", "missing.wav"],
            "does not exist",
        ),
        (synthesize, ["--model", "tiny", "--text", "Hi.", "--out", "no/such/folder.wav"], "folder of --out"),
    ],
)
def test_bad_input_gets_a_clear_error_and_exit_status_2(command, args, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        command.main(args)
    printed = capsys.readouterr().err
    assert message in printed and "Traceback" not in printed
    assert not list(tmp_path.rglob("*.wav"))


@pytest.mark.slow
def test_bases_are_listed_and_tiny_is_made(tmp_path, capsys):
    base.main(["list"])
    printed = capsys.readouterr().out
    assert "tiny" in printed and "utils.cli.base download v2.0.2" in printed
    base.main(["make-tiny", "--out", str(tmp_path / "mine")])
    assert (tmp_path / "mine" / "model.safetensors").is_file()
    with pytest.raises(SystemExit, match="2"):
        base.main(["make-tiny", "--out", str(tmp_path / "mine")])


def test_download_wants_the_licence_and_a_known_version(monkeypatch, capsys):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for version, message in (("v9", "v9"), ("v2.0.2", "HF_HUB_OFFLINE")):
        with pytest.raises(SystemExit, match="2"):
            base.main(["download", version])
        assert message in capsys.readouterr().err
