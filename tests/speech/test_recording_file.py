"""A take as one file: every format holds all its lines, an audiobook has chapters, and faults are said."""

import av
import numpy as np
import pytest
import torch

from utils.audio.write import write_wav
from utils.errors import UserError
from utils.options import OUTPUT_RATE, SpeechSettings
from utils.project.paths import Project
from utils.speech.recording_file import BETWEEN_LINES_S, RECORDING_FORMATS, recording_file
from utils.speech.takes import Line, delete_take, list_takes, new_take, read_take, rename_take

SECONDS = (1.0, 2.0)


@pytest.fixture
def take(project):
    """A finished take of two lines: two tones."""
    made = new_take(project, ["First “line”", "ሁለተኛ"], model="base/tiny", settings=SpeechSettings())
    for number, (line, seconds) in enumerate(zip(made.lines, SECONDS, strict=True), 1):
        times = torch.arange(int(seconds * OUTPUT_RATE)) / OUTPUT_RATE
        write_wav(made.folder / f"{number:04}.wav", 0.3 * torch.sin(880 * number * times)[None], OUTPUT_RATE)
        made = made.with_line(Line(number=line.number, text=line.text, state="finished", file=f"{number:04}.wav"))
    made = made.changed(state="finished")
    made.save()
    return made


@pytest.mark.parametrize("kind", RECORDING_FORMATS)
def test_a_file_holds_all_lines(take, kind):
    file = recording_file(rename_take(take, "  My \n book "), kind)
    with av.open(str(file)) as opened:
        stream = opened.streams.audio[0]
        assert (stream.rate, stream.layout.nb_channels) == (OUTPUT_RATE, 1)
        chapters = [(one["metadata"]["title"], float(one["start"] * one["time_base"])) for one in opened.chapters()]
        title = opened.metadata.get("title")
        sound = np.concatenate([frame.to_ndarray().reshape(1, -1) for frame in opened.decode(audio=0)], axis=1)
    assert abs(sound.shape[1] / OUTPUT_RATE - sum(SECONDS) - BETWEEN_LINES_S) < 0.1
    if kind in ("flac", "m4b"):
        assert title == "My book"
    if kind == "m4b":
        assert [name for name, _ in chapters] == ["First “line”", "ሁለተኛ"]
        assert chapters[1][1] == pytest.approx(SECONDS[0] + BETWEEN_LINES_S, abs=0.05)


def test_faults_are_said_and_leave_no_file(take):
    with pytest.raises(UserError, match="cannot be written as 'exe'"):
        recording_file(take, "exe")
    (take.folder / "0002.wav").write_bytes(b"no sound")
    with pytest.raises(UserError, match="cannot be read"):
        recording_file(take, "mp3")
    (take.folder / "0002.wav").unlink()
    with pytest.raises(UserError, match="cannot be read"):
        recording_file(take, "mp3")
    waiting = new_take(_project(take), ["one"], model="base/tiny", settings=SpeechSettings())
    with pytest.raises(UserError, match="no line of this take"):
        recording_file(waiting, "wav")
    assert not list(take.folder.glob("recording*"))


def test_a_name_is_kept_and_a_take_is_deleted_whole(take):
    assert read_take(rename_take(take, "Tom’s ቃል").folder).name == "Tom’s ቃል"
    for name in ("x" * 81, "a\x00b", "\u202eevil"):
        with pytest.raises(UserError, match="cannot be used"):
            rename_take(take, name)
    project = _project(take)
    delete_take(take)
    assert list_takes(project) == []


def test_a_take_that_is_spoken_is_left_alone(project):
    waiting = new_take(project, ["one"], model="base/tiny", settings=SpeechSettings())
    for act in (lambda: rename_take(waiting, "name"), lambda: delete_take(waiting)):
        with pytest.raises(UserError, match="is being spoken"):
            act()


def _project(take) -> Project:
    return Project(name=take.folder.parents[1].name, output=take.folder.parents[2])
