"""Checkpoints are whole or absent."""

import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from tests.saving import save_best, save_last
from utils.errors import UserError
from utils.runs import checkpoints as state
from utils.runs.checkpoints import Checkpoints, is_complete, load_checkpoint, read_state
from utils.runs.layout import ModelRef


@pytest.fixture
def model() -> torch.nn.Module:
    return torch.nn.Linear(3, 2)


def trained(model: torch.nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return optimizer


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_saved_comes_back(model, tmp_path):
    checkpoints = Checkpoints(tmp_path)
    folder = save_last(checkpoints, 7, model, trained(model), {"epoch": 2})
    assert names(folder) == ["complete.json", "model.safetensors", "optimizer.safetensors", "state.json"]
    loaded = load_checkpoint(folder)
    assert all(torch.equal(loaded[name], tensor) for name, tensor in model.state_dict().items())
    assert read_state(folder) == {"epoch": 2, "step": 7}
    assert checkpoints.last() == folder and checkpoints.best() is None


def test_the_newest_last_and_best_are_kept_and_no_others(model, tmp_path):
    checkpoints, optimizer = Checkpoints(tmp_path), trained(model)
    for step in (1, 2, 10):
        save_last(checkpoints, step, model, optimizer, {})
    for step in (1, 2):
        save_best(checkpoints, step, model, {})
    assert names(checkpoints.folder) == ["best-00000002", "step-00000010"]


@pytest.mark.parametrize("file", ["model.safetensors", "complete.json"])
def test_a_truncated_checkpoint_is_not_taken_for_one(model, tmp_path, file):
    checkpoints, optimizer = Checkpoints(tmp_path), trained(model)
    good = save_last(checkpoints, 1, model, optimizer, {})
    bad = checkpoints.folder / "step-00000002"
    shutil.copytree(good, bad)
    (bad / file).write_bytes((bad / file).read_bytes()[:-5])
    assert not is_complete(bad)
    assert checkpoints.last() == good
    with pytest.raises(UserError, match="not a complete checkpoint"):
        load_checkpoint(bad)


def test_a_flipped_bit_is_refused(model, tmp_path):
    folder = save_best(Checkpoints(tmp_path), 1, model, {})
    file = folder / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises(UserError, match="damaged"):
        load_checkpoint(folder)


@pytest.mark.parametrize("place", ["_mark_complete", "sync", "_discard"])
def test_a_kill_while_another_step_becomes_the_best_leaves_a_complete_best(model, tmp_path, monkeypatch, place):
    """Also one of an earlier step than the best so far."""
    checkpoints, optimizer = Checkpoints(tmp_path, keep=9), trained(model)
    early, late = (save_last(checkpoints, step, model, optimizer, {}) for step in (1, 2))
    checkpoints.link_best(late)

    def cut(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(state, place, cut)
        checkpoints.link_best(early, loss_to_beat=1.5)
    best = checkpoints.best()
    assert best is not None and load_checkpoint(best)
    checkpoints.tidy()
    chosen = checkpoints.link_best(early, loss_to_beat=1.5)
    assert checkpoints.best() == chosen and read_state(chosen)["loss_to_beat"] == 1.5
    assert names(checkpoints.folder) == ["best-00000001", "step-00000001", "step-00000002"]


@pytest.mark.parametrize(
    ("text", "kind", "which"),
    [
        ("ready", "ready", ""),
        ("run/first try/best", "run", "best"),
        ("run/first try/120", "run", "120"),
        ("run/first try/worst", "base", ""),
        ("tiny", "base", ""),
    ],
)
def test_a_model_is_named_in_one_way(text, kind, which):
    ref = ModelRef.parse(text)
    assert (ref.kind, ref.which, str(ref)) == (kind, which, text)
