"""Going on: bit for bit as if nothing had been, wherever the cut was; and what may be different, and what must not."""

import pickle
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch

from tests.configs import tiny_run
from tests.run_logs import events_of, warnings_of
from tests.saving import same
from tests.sounds import make_project
from tests.training.test_run import config_of
from utils.config import TrainConfig
from utils.errors import UserError
from utils.model.weights import read_weights, write_weights
from utils.options import LrSchedule
from utils.project.paths import Project
from utils.runs.checkpoints import Checkpoints, _mark_complete
from utils.runs.log import Event
from utils.training.plan import plan_run
from utils.training.recovery import Recovery
from utils.training.train import Progresses, TrainResult, fine_tune

CUTS = ("in mid-epoch", "at the epoch's end", "after the evaluation")


class PowerCut(BaseException):
    """Ends a run with no chance to do anything about it."""


BATCHES: dict[str, dict[str, int]] = {
    "alone": {},
    "accumulated": {"grad_accumulation": 3},
    "by positions": {"batch_tokens": 320},
}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Iterator[dict[str, TrainResult]]:
    """An uninterrupted run for each way of making batches."""
    project = make_project(tmp_path_factory.mktemp("whole"))
    yield {batches: fine_tune(settings_of(project, batches)) for batches in BATCHES}


def settings_of(project: Project, batches: str, **more) -> TrainConfig:
    return config_of(project, batch_size=1, checkpoint_every=1, dropout=0.1, **BATCHES[batches], **more)


def cut_run(
    settings: TrainConfig, project: Project, where: str, monkeypatch: pytest.MonkeyPatch, *, per_epoch: int = 6
) -> Path:
    """Begin a run of so many steps an epoch and lose power; returns its folder."""
    last_step = {"in mid-epoch": per_epoch // 2 + 1, "after the evaluation": per_epoch + 1}.get(where)

    def steps(done: int, total: int, loss: float) -> None:
        if done == last_step:
            raise PowerCut

    def evaluate(self, batches):
        raise PowerCut

    with monkeypatch.context() as patch, pytest.raises(PowerCut):
        if where == "at the epoch's end":
            patch.setattr(Recovery, "evaluate", evaluate)
        fine_tune(settings, progress=Progresses(steps=steps))
    (folder,) = project.runs.iterdir()
    return folder


def assert_same_end(folder: Path, whole: Path) -> None:
    for name in ("model.safetensors", "optimizer.safetensors"):
        mine, theirs = (read_weights(next(run.glob("checkpoints/step-*")) / name) for run in (folder, whole))
        assert same(mine, theirs), name


def steps_of(folder: Path) -> dict[int, Event]:
    """The log's steps; of those that were repeated, the last."""
    return {event["step"]: event for event in events_of(folder, "step")}


SHORT = [(*case, 0) for case in zip(CUTS, BATCHES, strict=True)]
LONG = [case for case in product(CUTS, BATCHES, (0, 2)) if case not in SHORT]


@pytest.mark.parametrize(
    ("where", "batches", "workers"), [*SHORT, *(pytest.param(*case, marks=pytest.mark.slow) for case in LONG)]
)
def test_a_run_that_was_cut_goes_on_as_if_it_had_not_been(project, undisturbed, monkeypatch, where, batches, workers):
    settings, whole = settings_of(project, batches, num_workers=workers), undisturbed[batches]
    assert settings.num_epochs
    per_epoch = whole.num_steps // settings.num_epochs
    folder = cut_run(settings, project, where, monkeypatch, per_epoch=per_epoch)
    resumed = fine_tune(replace(settings, resume=folder))
    assert (resumed.folder, resumed.epoch_losses) == (folder, whole.epoch_losses)
    assert_same_end(folder, whole.folder)
    mine, theirs = steps_of(folder), steps_of(whole.folder)
    same = ("step", "epoch", "loss", "lr", "grad_norm", "audio_s")
    assert [[mine[n][key] for key in same] for n in theirs] == [[theirs[n][key] for key in same] for n in theirs]


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """A run of two epochs that kept every checkpoint; its project was moved to another place since."""
    project = make_project(tmp_path_factory.mktemp("kept"))
    run = fine_tune(
        config_of(project, run_id="kept", batch_size=2, keep_checkpoints=9, checkpoint_every=1, seed=3)
    ).folder
    return project.output.rename(project.output.with_name("moved")) / run.relative_to(project.output)


@pytest.fixture
def copied(kept: Path, tmp_path: Path) -> tuple[Project, Path]:
    """A copy of the project, and of its run."""
    project = kept.parents[1]
    shutil.copytree(project, tmp_path / project.name)
    return Project(name=project.name, output=tmp_path), tmp_path / project.name / "runs" / kept.name


def names(folder: Path, prefix: str) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").glob(f"{prefix}*"))


def test_last_goes_on_with_the_run_that_saved_last_and_more_epochs_are_a_normal_case(copied):
    project, folder = copied
    with pytest.raises(UserError, match="has finished its 2 epochs") as error:
        fine_tune(tiny_run(project, resume=Path("last")))
    assert "--num-epochs 7" in error.value.fix
    assert events_of(folder)[-1]["kind"] == "finished", "what cannot continue is left alone"
    more = fine_tune(tiny_run(project, resume=Path("last"), num_epochs=3))
    assert (more.folder, more.num_steps, more.ended) == (folder, 9, "epochs")
    started = events_of(folder, "started")[-1]
    assert (started["total_steps"], started["changed"]) == (9, ["num_epochs"])
    assert started["resumed_from"].endswith("step-00000006")
    settings = TrainConfig.load(folder / "config.yaml")
    assert settings.num_epochs == 3, "the settings in force"
    assert settings.train_csv is None, "the project's own, wherever it is"
    assert TrainConfig.load(folder / "config-until-00000006.yaml").num_epochs == 2
    # The learning rates that three epochs would have had from there on.
    course = LrSchedule(settings.schedule, warmup_steps=settings.warmup_steps, total_steps=9)
    assert [steps_of(folder)[step]["lr"] for step in (7, 8, 9)] == [3e-3 * course(step) for step in (6, 7, 8)]


def test_going_back_to_an_earlier_checkpoint_keeps_the_later_ones_by_another_name(copied):
    project, folder = copied
    back = fine_tune(tiny_run(project, resume=folder / "checkpoints" / "step-00000004"))
    assert back.num_steps == 6
    assert names(folder, "left-step") == ["left-step-00000005", "left-step-00000006"]
    ends = (folder / "checkpoints" / name / "model.safetensors" for name in ("step-00000006", "left-step-00000006"))
    assert same(*map(read_weights, ends))


def test_best_goes_on_from_the_best_weights_and_says_that_moments_are_new(copied):
    project, folder = copied
    best = Checkpoints(folder).best()
    assert best is not None
    with_moments = best.with_name(best.name.replace("best", "step"))
    with_moments.rename(folder / "moved")
    result = fine_tune(tiny_run(project, resume=Path("best"), num_epochs=3))
    step = int(best.name[-8:])
    assert min(n for n in steps_of_last_part(folder)) == step + 1 and result.num_steps == 9
    reported = warnings_of(folder)
    assert any("moments start from zero" in message for message in reported)


def steps_of_last_part(folder: Path) -> list[int]:
    events = events_of(folder)
    begin = max(number for number, event in enumerate(events) if event["kind"] == "started")
    return [event["step"] for event in events[begin:] if event["kind"] == "step"]


def test_other_settings_are_named_and_refused_or_taken_when_allowed(copied):
    project, folder = copied
    other = tiny_run(project, resume=folder, num_epochs=4, learning_rate=1e-4, batch_size=1)
    with pytest.raises(
        UserError, match=r"batch_size: 2 then, 1 now\n  - learning_rate: 0.003 then, 0.0001 now"
    ) as error:
        fine_tune(other)
    assert "given again: batch_size, learning_rate" in str(error.value)
    result = fine_tune(replace(other, allow_changes=True))
    started = events_of(folder, "started")[-1]
    assert started["changed"] == ["batch_size", "learning_rate", "num_epochs"]
    # Two epochs of 3 steps are done; two of 6 are to come.
    assert result.num_steps == started["total_steps"] == 6 + 2 * 6
    assert steps_of(folder)[7]["lr"] < 1e-4
    again = plan_run(tiny_run(project, resume=folder, num_epochs=5))
    assert again.config.batch_size == 1, "the next resume keeps what was changed"


@pytest.mark.parametrize("other", [{"base": "elsewhere"}, {"lora_rank": 4}], ids=str)
def test_a_run_cannot_change_what_it_trains(copied, other):
    project, folder = copied
    before = (folder / "config.yaml").read_bytes()
    with pytest.raises(UserError, match=f"cannot change its {next(iter(other))}"):
        fine_tune(tiny_run(project, resume=folder, allow_changes=True, num_epochs=5, **other))
    assert (folder / "config.yaml").read_bytes() == before


def test_weights_that_a_kill_kept_from_becoming_the_best_do_so_on_the_next_start(copied, monkeypatch):
    project, folder = copied
    checkpoints = Checkpoints(folder)
    best, linked, link = checkpoints.best(), [], Checkpoints.link_best
    assert best is not None and best.name == "best-00000006", "the last evaluation was the best"
    shutil.rmtree(best)
    monkeypatch.setattr(Checkpoints, "link_best", lambda self, last: linked.append(last.name) or link(self, last))
    fine_tune(tiny_run(project, resume=folder, num_epochs=3))
    assert linked[0] == "step-00000006"


def test_an_epoch_whose_batches_are_others_now_begins_anew(copied):
    """Rows want clips of like length together, a packed row a mixture: the batches done are of the other kind."""
    project, folder = copied
    middle = folder / "checkpoints" / "step-00000004"
    done = fine_tune(tiny_run(project, resume=middle, sdpa=False, allow_changes=True))
    assert done.num_steps == 4 + 3 and any("epoch 2 begins again" in message for message in warnings_of(folder))


def test_with_other_clips_the_epoch_begins_anew_when_that_is_allowed(copied):
    project, folder = copied
    settings = tiny_run(project, resume=folder / "checkpoints" / "step-00000004")
    lines = project.train_csv.read_text(encoding="utf-8").splitlines(keepends=True)
    project.train_csv.write_text("".join(lines[:-2]), encoding="utf-8")
    with pytest.raises(UserError, match=r"dataset has changed.*\n  recordings removed: clip"):
        fine_tune(settings)
    done = fine_tune(replace(settings, allow_changes=True))
    assert done.num_steps == 4 + 2 and any("epoch 2 begins again" in message for message in warnings_of(folder))


def test_a_damaged_newest_checkpoint_is_passed_over_but_refused_when_named(copied):
    project, folder = copied
    spoil = {6: b"", 5: None, 4: b"not safetensors at all"}
    for step, content in spoil.items():
        file = folder / "checkpoints" / f"step-{step:08d}" / "optimizer.safetensors"
        whole = bytearray(file.read_bytes())
        whole[len(whole) // 2] ^= 1
        file.write_bytes(bytes(whole) if content is None else content)
    with pytest.raises(UserError, match=r"optimizer\.safetensors is damaged"):
        fine_tune(tiny_run(project, resume=folder / "checkpoints" / "step-00000005", num_epochs=3))
    result = fine_tune(tiny_run(project, resume=folder, num_epochs=3))
    started = events_of(folder, "started")[-1]
    assert started["resumed_from"].endswith("step-00000003") and result.num_steps == 9
    reported = " ".join(warnings_of(folder))
    assert all(f"skipped: step-0000000{step}" in reported for step in spoil)


class Payload:
    """A pickle that runs code when it is loaded."""

    def __reduce__(self) -> tuple:
        return (Path.touch, (Path("payload-ran"),))


@pytest.mark.parametrize(
    ("content", "message"), [("payload", "the weights cannot be read"), ("foreign", "are of another model")]
)
def test_a_foreign_file_with_marks_that_fit_is_refused_and_runs_no_code(
    copied, tmp_path, monkeypatch, content, message
):
    project, folder = copied
    checkpoint = folder / "checkpoints" / "step-00000006"
    if content == "payload":
        (checkpoint / "model.safetensors").write_bytes(pickle.dumps(Payload()))
    else:
        write_weights(checkpoint / "model.safetensors", {"another": torch.ones(3)})
    (checkpoint / "complete.json").unlink()
    _mark_complete(checkpoint, {})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        fine_tune(tiny_run(project, resume=folder, num_epochs=3))
    assert not (tmp_path / "payload-ran").exists()
    assert events_of(folder)[-1]["kind"] == "failed"


def test_when_no_checkpoint_is_whole_the_faults_are_told(copied):
    project, folder = copied
    for file in folder.glob("checkpoints/step-*/model.safetensors"):
        file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"no complete checkpoint to resume from; damaged: step-00000006: this is not"):
        fine_tune(tiny_run(project, resume=folder, num_epochs=3))
