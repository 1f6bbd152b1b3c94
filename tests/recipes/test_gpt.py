"""The GPT's stage: done once, and stopped with everything behind it."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from recipes.starter import gpt
from tests.sounds import speech
from utils.audio.write import write_wav
from utils.dataset.storage.manifest import Clip, write_manifest
from utils.errors import UserError
from utils.options import DATASET_RATE
from utils.runs.checkpoints import Checkpoints, read_state
from utils.training.train import Progresses

SHORT = gpt.LrSchedule(num_epochs=2, warmup_steps=1, learning_rate=3e-4, manifest="metadata_train.csv")


@pytest.fixture
def begun(work: Path, tmp_path: Path, monkeypatch) -> Path:
    """A work folder as after the codes stage: four clips of one voice, two to a step."""
    made = tmp_path / "work"
    shutil.copytree(work, made, ignore=shutil.ignore_patterns("corpus", "gpt", "decoder"))
    clips = []
    for number in range(6):
        path = made / "corpus" / "wavs" / f"{number}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_wav(path, speech(1.5, seed=number), DATASET_RATE)
        clips.append(Clip(audio=path, text="Good morning.", speaker="adam"))
    write_manifest(made / "corpus" / "metadata_train.csv", clips[:4])
    write_manifest(made / "corpus" / "metadata_eval.csv", clips[4:])
    (made / "codes").mkdir()
    monkeypatch.setattr(gpt, "FROM_NOTHING", SHORT)
    monkeypatch.setattr(gpt, "BATCH_SIZE", 2)
    monkeypatch.setattr(gpt, "READING_WEIGHT", 0.0)
    return made


def _steps_done(work: Path) -> int:
    (run,) = (work / "gpt" / "runs").iterdir()
    last = Checkpoints(run / "checkpoints").last()
    assert last is not None
    return int(read_state(last)["step"])


def test_a_signal_ends_the_recipe_and_a_course_that_is_done_is_not_begun_again(begun: Path, monkeypatch) -> None:
    def stop(done: int, total: int, loss: float) -> None:
        if done == 1:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(gpt, "step_reports", lambda: Progresses(steps=stop))
        with pytest.raises(SystemExit) as ended:
            gpt.run(begun)
    assert ended.value.code == 128 + signal.SIGINT
    assert _steps_done(begun) < 4
    gpt.run(begun)
    assert _steps_done(begun) == 4
    gpt.run(begun)
    assert _steps_done(begun) == 4


def test_a_work_folder_goes_on_with_what_it_was_begun_with(begun: Path) -> None:
    other = begun / "seed_base"
    with pytest.raises(UserError, match="begun with random weights, not with"):
        gpt.run(begun, begin_with=other)
