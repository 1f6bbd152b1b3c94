"""What only shows at scale or in bad luck: many clips, many processes, divergence, full disks, two writers."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.clip_tables import cache_codes
from tests.configs import tiny_run
from tests.run_logs import events_of
from tests.saving import save_last
from tests.sounds import speech
from tests.training.test_run import config_of
from utils.audio.write import write_wav
from utils.bases.find import find_base
from utils.errors import UserError
from utils.gpt_train import train_gpt
from utils.project.paths import Project
from utils.runs.checkpoints import Checkpoints
from utils.runs.layout import COMPLETE_FILE
from utils.training.data.codes import CodeCache
from utils.training.train import fine_tune


def test_a_thousand_clips_need_no_thousand_file_handles(tmp_path: Path) -> None:
    paths = []
    for number in range(80):
        paths.append(tmp_path / f"{number}.wav")
        write_wav(paths[-1], speech(0.5, seed=number), 22_050)
    open_now, hard = len(list(Path("/proc/self/fd").iterdir())), resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 30, hard))
    try:
        codes = cache_codes(paths, find_base("tiny"), tmp_path / "codes")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert {len(clip) for clip in codes.values()} == {11}


def test_two_writers_of_one_cache_do_not_mix_their_codes(tmp_path: Path) -> None:
    first, second = CodeCache(tmp_path), CodeCache(tmp_path)
    first.add({"a": torch.full((5,), 11, dtype=torch.int16)})
    second.add({"b": torch.full((7,), 22, dtype=torch.int16)})
    first.add({"c": torch.full((3,), 33, dtype=torch.int16)})
    cache = CodeCache(tmp_path)
    found = {audio: cache.mapped()[start : start + count].tolist() for audio, (start, count) in cache.index.items()}
    assert found == {"a": [11] * 5, "b": [22] * 7, "c": [33] * 3}


@pytest.mark.slow
def test_two_processes_under_torchs_launcher_share_one_run(project: Project) -> None:
    """Each of three processes loads torch; tests/training/test_processes.py has the same run without the launcher."""
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"),
        *("-m", "utils.cli.train", "--base", "tiny", "--project", project.name, "--output", str(project.output)),
        *("--num-epochs", "1", "--batch-size", "2", "--device", "cpu"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (folder,) = project.runs.iterdir()
    events = events_of(folder)
    assert [event["kind"] for event in events].count("started") == 1 and events[-1]["kind"] == "finished"
    # 6 clips, 2 processes, 2 clips each: two steps, and the first covers 4 different clips.
    assert [event["step"] for event in events if event["kind"] == "step"] == [1, 2]
    alone = fine_tune(config_of(project, num_epochs=1, batch_size=4, device="cpu"))
    assert events[1]["loss"] == pytest.approx(alone.first_loss, rel=0.1)


def test_cuda_that_is_not_there_is_not_replaced_in_silence(project: Project) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA GPU")
    with pytest.raises(UserError, match="device cuda was requested, but"):
        fine_tune(config_of(project, device="cuda"))
    assert not project.runs.exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schedule": "exponential"}, "schedule is 'exponential'; use linear or cosine"),
        ({"eval_batch_size": "3"}, "eval_batch_size is '3'; use a whole number"),
        ({"dropout": "0.1"}, "dropout is '0.1'; use a number or None"),
        ({"device": "gpu"}, "device is 'gpu'"),
        ({"sdpa": True}, "given twice: sdpa"),
        ({"colour": 1}, "unknown settings: colour"),
        ({"resume": "nowhere"}, "no run to resume"),
    ],
)
def test_odd_values_from_python_are_told(prepared: Project, tmp_path: Path, settings: dict, message: str) -> None:
    csvs = (prepared.train_csv, prepared.eval_csv)
    with pytest.raises(UserError, match=message):
        train_gpt(None, "tiny", "en", 1, 2, 1, *csvs, tmp_path, in_process=True, **settings)


def test_odd_values_of_a_settings_file_are_told(project: Project) -> None:
    folder = fine_tune(config_of(project, num_epochs=1)).folder
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("batch_size: 2", "batch_size: four", 1))
    with pytest.raises(UserError, match="batch_size is 'four'"):
        fine_tune(tiny_run(project, resume=folder))


def test_weights_that_do_not_fit_leave_no_run_folder(project: Project, tmp_path: Path) -> None:
    base = Path(shutil.copytree(find_base("tiny").folder, tmp_path / "base"))
    vocabulary = json.loads((base / "vocab.json").read_text(encoding="utf-8"))
    vocabulary["model"]["vocab"]["zzz"] = 500
    (base / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    with pytest.raises(UserError, match="in the weights"):
        fine_tune(config_of(project, base=str(base)))
    assert not project.runs.exists()


def test_resuming_with_other_settings_or_clips_is_refused(project: Project) -> None:
    result = fine_tune(config_of(project, num_epochs=1))
    again = tiny_run(project, resume=result.folder, num_epochs=2)
    with pytest.raises(UserError, match="given again: grad_accumulation, learning_rate"):
        fine_tune(replace(again, learning_rate=1e-4, grad_accumulation=2))
    lines = project.train_csv.read_text(encoding="utf-8").splitlines(keepends=True)
    project.train_csv.write_text("".join(lines[:-1]), encoding="utf-8")
    with pytest.raises(UserError, match="dataset has changed"):
        fine_tune(again)
    project.train_csv.write_text("".join(lines), encoding="utf-8")
    assert fine_tune(again).num_steps == 2 * result.num_steps


def test_damaged_moments_are_refused(project: Project) -> None:
    result = fine_tune(config_of(project, num_epochs=1))
    file = next(result.folder.glob("checkpoints/step-*")) / "optimizer.safetensors"
    content = bytearray(file.read_bytes())
    content[-100:] = bytes(100)
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"optimizer\.safetensors is damaged"):
        fine_tune(tiny_run(project, resume=result.folder, num_epochs=2))


def test_a_kill_between_removing_and_renaming_keeps_the_step(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    checkpoints = Checkpoints(tmp_path)
    folder = save_last(checkpoints, 6, model, optimizer, {})
    aside = folder.rename(folder.with_name(".writing-step-00000006"))
    assert checkpoints.last() == aside
    (aside / COMPLETE_FILE).unlink()
    assert checkpoints.last() is None


@pytest.mark.skipif(os.name != "posix", reason="needs fork")
def test_what_a_kill_while_pruning_leaves_is_removed_by_the_next_save(tmp_path: Path) -> None:
    """A real kill -9 after the first file of the former checkpoint is gone."""
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    checkpoints = Checkpoints(tmp_path)
    save_last(checkpoints, 1, model, optimizer, {})
    if (child := os.fork()) == 0:
        unlink = os.unlink

        def then_die(*args, **kwargs) -> None:
            unlink(*args, **kwargs)
            os.kill(os.getpid(), signal.SIGKILL)

        os.unlink = then_die
        save_last(checkpoints, 2, model, optimizer, {})
        os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    (left,) = checkpoints.folder.glob(".removing-*")
    assert checkpoints.last() == checkpoints.folder / "step-00000002"
    assert [path.name for path in checkpoints.folder.glob("step-*")] == ["step-00000002"], (
        "nothing half gone under its own name"
    )
    save_last(checkpoints, 3, model, optimizer, {})
    assert [path.name for path in checkpoints.folder.iterdir()] == ["step-00000003"]
    left.mkdir()
    assert checkpoints.tidy() == [left.name] and not left.exists()
