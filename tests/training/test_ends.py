"""How a run ends other than by its last epoch, what it leaves then, and that nothing trained is lost."""

import signal
import subprocess
import sys
from dataclasses import replace

import psutil
import pytest
import soundfile

from tests.run_logs import events_of, warnings_of
from tests.saving import Disk
from tests.training.test_run import config_of
from utils.config import DATASET_RATE, TrainConfig
from utils.errors import UserError
from utils.model.gpt import XttsGpt
from utils.project.paths import Project
from utils.runs.checkpoints import Checkpoints, verify
from utils.training import samples as sampling
from utils.training.recovery import Recovery
from utils.training.train import Progresses, TrainResult, fine_tune
from utils.training.trainer import Losses


def after(step: int, action) -> Progresses:
    def steps(done: int, total: int, loss: float) -> None:
        if done == step:
            action()

    return Progresses(steps=steps)


@pytest.mark.slow
def test_patience_ends_a_run_that_no_longer_gains_and_more_may_be_asked_for(project, monkeypatch):
    losses = iter([3.0, 2.0, 2.5, 2.0, 1.0, 1.5, 1.5, 1.5])
    monkeypatch.setattr(Recovery, "evaluate", lambda self, batches: Losses(text=0.0, codes=next(losses)))
    settings = config_of(project, num_epochs=9, batch_size=6, patience=2)
    result = fine_tune(settings)
    assert (result.ended, result.num_steps, result.best_loss) == ("patience", 4, 2.0)
    assert result.checkpoint.parent.name == "best-00000002"
    end = events_of(result.folder)[-1]
    assert (end["kind"], end["reason"]) == ("finished", "patience")
    more = fine_tune(replace(settings, resume=result.folder, patience=3))
    assert (more.ended, more.num_steps, more.best_loss) == ("patience", 8, 1.0)
    assert more.checkpoint.parent.name == "best-00000005"


def test_a_stop_while_evaluating_waits_for_no_more_of_it_and_the_run_goes_on_exactly(project, monkeypatch):
    settings = config_of(project, eval_batch_size=1)
    whole, scored, forward = fine_tune(settings), [], XttsGpt.forward

    def stopped(self, batch, cond_mels):
        if not self.training:
            scored.append(len(cond_mels))
            signal.raise_signal(signal.SIGTERM)
        return forward(self, batch, cond_mels)

    with monkeypatch.context() as patch:
        patch.setattr(XttsGpt, "forward", stopped)
        cut = fine_tune(settings)
    assert (cut.ended, cut.stop_signal, cut.num_steps, scored) == ("signal", signal.SIGTERM, 3, [1])
    assert events_of(cut.folder, "eval") == [] and events_of(cut.folder)[-1]["kind"] == "stopped"
    verify(cut.folder / "checkpoints" / "step-00000003")
    resumed = fine_tune(replace(settings, resume=cut.folder))
    assert (resumed.epoch_losses, resumed.best_loss) == (whole.epoch_losses, whole.best_loss)
    evaluated = [[event["loss"] for event in events_of(run.folder, "eval")] for run in (resumed, whole)]
    assert evaluated[0] == evaluated[1] and len(evaluated[0]) == 2


def test_a_save_is_due_by_the_clock_too(project, monkeypatch):
    result = fine_tune(config_of(project, batch_size=1, num_epochs=1, checkpoint_minutes=1e-9, keep_checkpoints=9))
    assert len(list(result.folder.glob("checkpoints/step-*"))) == 6
    end = events_of(result.folder)[-1]
    assert end["save_s"] > 0 and end["save_waited_s"] <= end["save_s"] + 1e-3


def test_a_disk_that_is_full_for_a_while_costs_a_warning_only(project, monkeypatch):
    disk = Disk(monkeypatch)
    settings = config_of(project, batch_size=2, num_epochs=3, checkpoint_every=1)

    def steps(done: int, total: int, loss: float) -> None:
        disk.fill(3 <= done <= 6)

    result = fine_tune(settings, progress=Progresses(steps=steps))
    reported = [event for event in events_of(result.folder, "warning") if event["source"] == "disk"]
    assert "the disk is full" in reported[0]["message"] and "Training continues" in reported[0]["message"]
    assert "saving works again" in reported[-1]["message"] and len(reported) == 2
    assert (result.ended, result.num_steps) == ("epochs", 9)
    verify(result.folder / "checkpoints" / "step-00000009")
    verify(result.checkpoint.parent)


def test_the_best_weights_are_the_best_on_disk_also_when_their_first_save_failed(project, monkeypatch):
    disk = Disk(monkeypatch)
    disk.once = True
    result = fine_tune(config_of(project, batch_size=2), progress=after(6, disk.fill))
    assert [event["source"] for event in events_of(result.folder, "warning")].count("disk") == 2, "full, then not"
    assert result.checkpoint.parent.name == "best-00000006" and result.best_loss < 99
    verify(result.checkpoint.parent)


@pytest.mark.slow
def test_a_disk_that_stays_full_is_a_failure_that_keeps_what_was_saved(project, monkeypatch):
    disk = Disk(monkeypatch)
    settings = config_of(project, batch_size=2, checkpoint_every=2)
    with pytest.raises(UserError, match=r"come to step 6, but only what it was at step 2 is saved") as error:
        fine_tune(settings, progress=after(3, disk.fill))
    assert "free some space, then continue with --resume" in error.value.fix
    assert f"python -m utils.cli.train --project {project.name} --output {project.output} --resume " in error.value.fix
    (folder,) = project.runs.iterdir()
    assert events_of(folder)[-1]["kind"] == "failed"
    disk.fill(False)
    assert fine_tune(replace(settings, resume=folder)).num_steps == 6
    (resumed,) = [event for event in events_of(folder, "started") if event["resumed_from"]]
    assert resumed["resumed_from"].endswith("step-00000002")


def test_a_run_that_saved_nothing_is_not_resumed(project, monkeypatch):
    disk = Disk(monkeypatch)
    with pytest.raises(UserError, match="come to step 3, but nothing is saved") as error:
        fine_tune(config_of(project, batch_size=2, num_epochs=1), progress=after(1, disk.fill))
    assert "start the run again" in error.value.fix and "--resume" not in error.value.fix


@pytest.fixture(scope="module")
def undisturbed(file_project: Project) -> TrainResult:
    """Two epochs of one clip a step."""
    return fine_tune(config_of(file_project, batch_size=1, num_epochs=2))


@pytest.mark.parametrize(("workers", "fault"), [(2, "gone"), pytest.param(0, "shorter", marks=pytest.mark.slow)])
def test_a_recording_lost_in_mid_run_is_named_and_what_was_trained_is_saved(project, undisturbed, workers, fault):
    path = project.dataset / "wavs" / "clip4.wav"
    original = path.read_bytes()

    def lose() -> None:
        path.unlink()
        if fault == "shorter":
            soundfile.write(path, [0.0] * 100, DATASET_RATE)

    settings = config_of(project, batch_size=1, num_epochs=2, num_workers=workers)
    with pytest.raises(UserError, match=r"cannot be read any more: clip4\.wav"):
        fine_tune(settings, progress=after(2, lose))
    folder = max(project.runs.iterdir())
    end, last = events_of(folder)[-1], Checkpoints(folder).last()
    assert end["kind"] == "failed" and last is not None
    assert last.name == f"step-{end['step']:08d}", "every step that was taken is saved"
    path.write_bytes(original)
    assert fine_tune(replace(settings, resume=folder)).epoch_losses == undisturbed.epoch_losses


def test_no_loading_process_outlives_its_run(project):
    def loaders() -> list[psutil.Process]:
        return [child for child in psutil.Process().children() if "pt_data_worker" in child.name()]

    def spoil() -> None:
        assert len(loaders()) == 2
        raise UserError(what="enough")

    with pytest.raises(UserError, match="enough"):
        fine_tune(config_of(project, num_epochs=1, num_workers=2, device="cpu"), progress=after(2, spoil))
    assert not loaders()


def test_a_clip_that_changed_gets_new_codes_and_a_resumed_run_is_told(project):
    first = fine_tune(config_of(project, num_epochs=1))
    path = project.dataset / "wavs" / "clip0.wav"
    wav, _ = soundfile.read(path, dtype="int16")
    soundfile.write(path, wav[::-1], DATASET_RATE)
    with pytest.raises(UserError, match=r"dataset has changed.*\n  recordings changed: clip0\.wav"):
        fine_tune(config_of(project, num_epochs=2, resume=first.folder))
    second = fine_tune(config_of(project, num_epochs=1))
    assert second.first_loss != first.first_loss, "the new sound is what is trained on"

    # The conditioning audio is read from the file itself: the run's steps change with it, also where the codes do not.
    wav[-100] += 1
    soundfile.write(path, wav[::-1], DATASET_RATE)
    settings = config_of(project, num_epochs=2, resume=second.folder)
    with pytest.raises(UserError, match=r"\n  recordings changed: clip0\.wav"):
        fine_tune(settings)
    fine_tune(replace(settings, allow_changes=True))
    warnings = warnings_of(second.folder)
    assert "recordings changed: clip0.wav" in warnings
    assert not any("begins again" in message for message in warnings), "the codes, and so the batches, are the same"
    assert fine_tune(replace(settings, num_epochs=3)).num_steps == 9


def test_a_finished_run_says_how_fast_it_was(project, caplog):
    with caplog.at_level("INFO", logger="utils.performance_utils"):
        result = fine_tune(config_of(project, batch_size=2))
    end = events_of(result.folder)[-1]
    steps = events_of(result.folder, "step")
    seconds = sum(event["step_s"] + event["data_s"] for event in steps)
    assert end["audio_per_second"] == pytest.approx(sum(event["audio_s"] for event in steps) / seconds)
    assert end["data_share"] == pytest.approx(sum(event["data_s"] for event in steps) / seconds)
    assert f"in all: {result.num_steps} steps" in caplog.text
    reported = [line for line in caplog.messages if line.startswith("in all:")]
    assert 0 < float(reported[0].partition("% of the device's peak")[0].split()[-1]) < 100
    # On what machine, with which settings, and how long evaluations took.
    for name in ("cpu  ", "threads  ", "evaluation: "):
        assert any(line.startswith(name) for line in caplog.messages), name


def test_no_share_of_the_peak_is_told_where_less_is_computed_than_its_formula_counts(project, caplog):
    with caplog.at_level("INFO", logger="utils.performance_utils"):
        fine_tune(config_of(project, num_epochs=1, lora_rank=4))
    assert "in all:" in caplog.text and "peak arithmetic" not in caplog.text


def test_an_output_folder_that_may_not_be_written_is_told(project, tmp_path):
    place = tmp_path / "ro"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small file system")
    try:
        csvs = {"train_csv": project.train_csv, "eval_csv": project.eval_csv, "language": "en"}
        config = TrainConfig(base="tiny", project="voice", output=place, num_epochs=1, **csvs)
        with pytest.raises(UserError, match="not permitted: Read-only file system"):
            fine_tune(config)
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_project_without_a_dataset_is_told(tmp_path):
    with pytest.raises(UserError, match="has no dataset yet"):
        fine_tune(TrainConfig(base="tiny", project="empty", output=tmp_path))


SPEAKER = """
import glob, json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    def tell(kind, **fields):
        print(json.dumps({"kind": kind, "id": request["id"], **fields}), flush=True)
    kept = f"*-{request['model']['checkpoint']}"
    assert request["id"] == 0 or glob.glob(os.path.join(sys.argv[1], "checkpoints", kept, "complete.json"))
    for line in request["lines"]:
        file = str(line["number"])
        open(os.path.join(request["folder"], file), "wb").close()
        tell("line", line=line["number"], file=file)
    tell("done")
"""


def test_each_evaluation_is_spoken_beside_training_and_the_last_one_is_waited_for(project, monkeypatch):
    worker = sampling.SampleWorker

    def make(run, sentences, **more):
        return worker(run, sentences, **more, command=[sys.executable, "-S", "-c", SPEAKER, str(run)])

    monkeypatch.setattr(sampling, "SampleWorker", make)
    result = fine_tune(config_of(project, sample_text="One. | Two."))
    events = events_of(result.folder)
    samples = [event for event in events if event["kind"] == "sample"]
    dropped = [event for event in events if event["kind"] == "warning" and event["source"] == "samples"]
    assert [sample["text"] for sample in samples][-2:] == ["One.", "Two."] and samples[-1]["step"] == 6
    assert [sample["step"] for sample in samples[:2]] == [0, 0], "the base speaks first"
    assert len(samples) // 2 + len(dropped) == 3, "each evaluation is spoken, or said to be skipped"
    assert events[-1]["kind"] == "finished", "the samples come before the end"
