"""What only shows at scale or in bad luck: many clips, many processes, divergence, full disks, two writers."""

import json
import os
import resource
import shutil
import signal
from pathlib import Path

import pytest
import torch

from tests.clip_tables import cache_codes
from tests.saving import save_last
from tests.training.test_run import config_of
from utils.audio.write import write_wav
from utils.bases.find import find_base
from utils.errors import UserError
from utils.runs.checkpoints import Checkpoints
from utils.runs.layout import COMPLETE_FILE
from utils.training.data.codes import CodeCache
from utils.training.train import fine_tune


def test_a_thousand_clips_need_no_thousand_file_handles(tmp_path):
    paths = [tmp_path / f"{number}.wav" for number in range(80)]
    for path in paths:
        write_wav(path, torch.rand(1, 11_025) - 0.5, 22_050)
    open_now, hard = len(list(Path("/proc/self/fd").iterdir())), resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 30, hard))
    try:
        codes = cache_codes(paths, find_base("tiny"), tmp_path / "codes")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert {len(clip) for clip in codes.values()} == {11}


def test_two_writers_of_one_cache_do_not_mix_their_codes(tmp_path):
    first, second = CodeCache(tmp_path), CodeCache(tmp_path)
    first.add({"a": torch.full((5,), 11, dtype=torch.int16)})
    second.add({"b": torch.full((7,), 22, dtype=torch.int16)})
    first.add({"c": torch.full((3,), 33, dtype=torch.int16)})
    cache = CodeCache(tmp_path)
    found = {audio: cache.mapped()[start : start + count].tolist() for audio, (start, count) in cache.index.items()}
    assert found == {"a": [11] * 5, "b": [22] * 7, "c": [33] * 3}


def test_weights_that_do_not_fit_leave_no_run_folder(project, tmp_path):
    base = Path(shutil.copytree(find_base("tiny").folder, tmp_path / "base"))
    vocabulary = json.loads((base / "vocab.json").read_text(encoding="utf-8"))
    vocabulary["model"]["vocab"]["zzz"] = 500
    (base / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    with pytest.raises(UserError, match="in the weights"):
        fine_tune(config_of(project, base=str(base)))
    assert not project.runs.exists()


def test_a_kill_between_removing_and_renaming_keeps_the_step(tmp_path):
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    checkpoints = Checkpoints(tmp_path)
    folder = save_last(checkpoints, 6, model, optimizer, {})
    aside = folder.rename(folder.with_name(".writing-step-00000006"))
    assert checkpoints.last() == aside
    (aside / COMPLETE_FILE).unlink()
    assert checkpoints.last() is None


@pytest.mark.skipif(os.name != "posix", reason="needs fork")
def test_what_a_kill_while_pruning_leaves_is_removed_by_the_next_save(tmp_path):
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
    assert checkpoints.tidy() == [] and not left.exists()
