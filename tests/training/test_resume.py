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
from utils.gpt_train import train_gpt
from utils.model.weights import read_weights, write_weights
from utils.project.paths import Project
from utils.runs.checkpoints import Checkpoints, _mark_complete
from utils.runs.log import Event
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


SHORT = [
    *((CUTS[0], "alone", 0), (CUTS[1], "accumulated", 0), (CUTS[2], "alone", 0), (CUTS[0], "accumulated", 2)),
    (CUTS[0], "by positions", 0),
]
LONG = [case for case in product(CUTS, BATCHES, (0, 2)) if case not in SHORT]


@pytest.mark.parametrize(
    ("where", "batches", "workers"), [*SHORT, *(pytest.param(*case, marks=pytest.mark.slow) for case in LONG)]
)
def test_a_run_that_was_cut_goes_on_as_if_it_had_not_been(
    project: Project, undisturbed, monkeypatch, where: str, batches: str, workers: int
) -> None:
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
def kept(tmp_path_factory) -> tuple[Project, TrainResult]:
    """A run of two epochs that kept every checkpoint."""
    project = make_project(tmp_path_factory.mktemp("kept"))
    return project, fine_tune(config_of(project, batch_size=2, keep_checkpoints=9, checkpoint_every=1, seed=3))


def copy_of(kept: tuple[Project, TrainResult], folder: Path) -> tuple[Project, Path]:
    shutil.copytree(kept[0].folder, folder / kept[0].name)
    project = Project(name=kept[0].name, output=folder)
    return project, project.runs / kept[1].folder.name


def names(folder: Path, prefix: str) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").glob(f"{prefix}*"))


def test_last_goes_on_with_the_run_that_saved_last_and_more_epochs_are_a_normal_case(kept, tmp_path: Path) -> None:
    project, folder = copy_of(kept, tmp_path)
    with pytest.raises(UserError, match="has finished its 2 epochs") as error:
        fine_tune(tiny_run(project, resume=Path("last")))
    assert "--num-epochs 7" in error.value.fix
    assert events_of(folder)[-1]["kind"] == "finished", "what cannot continue is left alone"
    more = fine_tune(tiny_run(project, resume=Path("last"), num_epochs=3))
    assert (more.folder, more.num_steps, more.ended) == (folder, 9, "epochs")
    started = events_of(folder, "started")[-1]
    assert (started["total_steps"], started["changed"]) == (9, ["num_epochs"])
    assert started["resumed_from"].endswith("step-00000006")
    assert TrainConfig.load(folder / "config.yaml").num_epochs == 3, "the settings in force"
    assert TrainConfig.load(folder / "config-until-00000006.yaml").num_epochs == 2


def test_more_epochs_have_the_learning_rates_they_would_have_had_from_there_on(kept, tmp_path: Path) -> None:
    project, folder = copy_of(kept, tmp_path)
    fine_tune(tiny_run(project, resume=folder, num_epochs=4))
    reference = fine_tune(config_of(project, batch_size=2, num_epochs=4, seed=3))
    rates, wanted = ({n: event["lr"] for n, event in steps_of(f).items() if n > 6} for f in (folder, reference.folder))
    assert rates == wanted and 7 in rates


def test_going_back_to_an_earlier_checkpoint_keeps_the_later_ones_by_another_name(kept, tmp_path: Path) -> None:
    project, folder = copy_of(kept, tmp_path)
    back = fine_tune(tiny_run(project, resume=folder / "checkpoints" / "step-00000004"))
    assert back.num_steps == 6
    assert names(folder, "left-step") == ["left-step-00000005", "left-step-00000006"]
    assert_same_end_of(folder / "checkpoints", "step-00000006", "left-step-00000006")


def assert_same_end_of(checkpoints: Path, one: str, other: str) -> None:
    mine, theirs = (read_weights(checkpoints / name / "model.safetensors") for name in (one, other))
    assert same(mine, theirs)


def test_best_goes_on_from_the_best_weights_and_says_that_moments_are_new(kept, tmp_path: Path) -> None:
    project, folder = copy_of(kept, tmp_path)
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


def test_other_settings_are_named_and_refused_or_taken_when_allowed(kept, tmp_path: Path) -> None:
    project, folder = copy_of(kept, tmp_path)
    other = tiny_run(project, resume=folder, num_epochs=4, learning_rate=1e-4, batch_size=1)
    with pytest.raises(UserError, match=r"batch_size: 2 then, 1 now\n  - learning_rate: 0.003 then, 0.0001 now"):
        fine_tune(other)
    result = fine_tune(replace(other, allow_changes=True))
    started = events_of(folder, "started")[-1]
    assert started["changed"] == ["batch_size", "learning_rate", "num_epochs"]
    # Two epochs of 3 steps are done; two of 6 are to come.
    assert result.num_steps == started["total_steps"] == 6 + 2 * 6
    assert steps_of(folder)[7]["lr"] < 1e-4
    again = fine_tune(tiny_run(project, resume=folder, num_epochs=5))
    assert again.settings.batch_size == 1, "the next resume keeps what was changed"


@pytest.mark.parametrize("other", [{"base": "elsewhere"}, {"lora_rank": 4}], ids=str)
def test_a_run_cannot_change_what_it_trains(kept, tmp_path: Path, other: dict) -> None:
    project, folder = copy_of(kept, tmp_path)
    before = (folder / "config.yaml").read_bytes()
    with pytest.raises(UserError, match=f"cannot change its {next(iter(other))}"):
        fine_tune(tiny_run(project, resume=folder, allow_changes=True, num_epochs=5, **other))
    assert (folder / "config.yaml").read_bytes() == before


def test_weights_that_a_kill_kept_from_becoming_the_best_do_so_on_the_next_start(kept, tmp_path, monkeypatch) -> None:
    project, folder = copy_of(kept, tmp_path)
    checkpoints = Checkpoints(folder)
    best, linked, link = checkpoints.best(), [], Checkpoints.link_best
    assert best is not None and best.name == "best-00000006", "the last evaluation was the best"
    shutil.rmtree(best)
    monkeypatch.setattr(Checkpoints, "link_best", lambda self, last: linked.append(last.name) or link(self, last))
    fine_tune(tiny_run(project, resume=folder, num_epochs=3))
    assert linked[0] == "step-00000006"


def test_an_epoch_whose_batches_are_others_now_begins_anew(project: Project, monkeypatch) -> None:
    """Rows want clips of like length together, a packed row a mixture: the batches done are of the other kind."""
    settings = config_of(project, batch_size=2, checkpoint_every=1, dropout=0.1)
    with monkeypatch.context() as patch, pytest.raises(PowerCut):

        def cut(done: int, total: int, loss: float) -> None:
            if done == 3:
                raise PowerCut

        patch.setattr(Recovery, "evaluate", lambda *_: pytest.fail("the cut comes before"))
        fine_tune(settings, progress=Progresses(steps=cut))
    (folder,) = project.runs.iterdir()
    done = fine_tune(replace(settings, resume=folder, sdpa=False, allow_changes=True))
    reported = warnings_of(folder)
    assert any("epoch 1 begins again" in message for message in reported) and done.num_steps == 2 + 6


def test_a_project_that_was_moved_goes_on_with_its_runs(kept, tmp_path: Path) -> None:
    project, folder = copy_of(kept, tmp_path / "here")
    moved = Project(name=project.name, output=tmp_path / "there")
    moved.output.mkdir()
    project.folder.rename(moved.folder)
    result = fine_tune(tiny_run(moved, resume=moved.runs / folder.name, num_epochs=3))
    assert result.num_steps == 9 and not project.folder.exists()
    assert TrainConfig.load(result.folder / "config.yaml").train_csv is None, "the project's own, wherever it is"


def test_with_other_clips_the_epoch_begins_anew_when_that_is_allowed(project: Project, monkeypatch) -> None:
    settings = settings_of(project, "alone")
    folder = cut_run(settings, project, "in mid-epoch", monkeypatch)
    lines = project.train_csv.read_text(encoding="utf-8").splitlines(keepends=True)
    project.train_csv.write_text("".join(lines[:-1]), encoding="utf-8")
    with pytest.raises(UserError, match=r"dataset has changed.*\n  recordings removed: clip"):
        fine_tune(replace(settings, resume=folder))
    done = fine_tune(replace(settings, resume=folder, allow_changes=True))
    # The run was cut in the fourth step, before it was saved; then two epochs of 5 clips.
    assert done.num_steps == 3 + 10
    reported = warnings_of(folder)
    assert any("epoch 1 begins again" in message for message in reported)


def test_a_damaged_newest_checkpoint_is_passed_over_but_refused_when_named(kept, tmp_path: Path) -> None:
    project, folder = copy_of(kept, tmp_path)
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
    kept, tmp_path: Path, monkeypatch, content: str, message: str
) -> None:
    project, folder = copy_of(kept, tmp_path)
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
    again = fine_tune(tiny_run(project, resume=folder / "checkpoints" / "step-00000005", num_epochs=3))
    assert again.num_steps == 9, "an earlier one can be named"


def test_when_no_checkpoint_is_whole_the_faults_are_told(kept, tmp_path: Path) -> None:
    project, folder = copy_of(kept, tmp_path)
    for file in folder.glob("checkpoints/step-*/model.safetensors"):
        file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"no complete checkpoint to resume from; damaged: step-00000006: this is not"):
        fine_tune(tiny_run(project, resume=folder, num_epochs=3))


def test_python_resumes_too(kept, tmp_path: Path) -> None:
    project, folder = copy_of(kept, tmp_path)
    csvs = (project.train_csv, project.eval_csv)
    plain = TrainConfig.load(folder / "config.yaml")
    moved = replace(plain, train_csv=csvs[0], eval_csv=csvs[1], output=project.output)
    moved.save(folder / "config.yaml")
    options = {"resume": "last", "allow_changes": True, "patience": 2, "in_process": True}
    model = train_gpt(None, "tiny", "en", 3, 2, 1, *csvs, project.folder, **options)
    assert Path(model.exp_path) == folder and max(steps_of(folder)) == 9
