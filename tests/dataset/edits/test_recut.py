"""The edges of a clip move within its recording and back, cut by cut; what is drawn is the sound between them."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.dataset.recordings import config, fix_clip, make_source
from utils.dataset.build import prepare
from utils.dataset.edits.edit import FixKind
from utils.dataset.edits.recut import AROUND_S, outline
from utils.dataset.storage.report import ClipReport, Report
from utils.errors import UserError
from utils.project.paths import Project


@pytest.fixture
def source(tmp_path) -> Path:
    return make_source(tmp_path / "in", 4)


def _cuts(project: Project) -> list[ClipReport]:
    """Clips of the second recording that are in use."""
    return [clip for clip in Report.load(project.report).used if "demo-02" in clip.source]


def test_edges_move_inwards_outwards_and_back_cut_by_cut(project, source):
    (whole,) = _cuts(project)
    before = Path(whole.source).read_bytes()
    fix_clip(project, "text", whole.id, text="Words of my own.")
    fix_clip(project, "recut", whole.id, start_s=0.5, end_s=1.5)
    (short,) = _cuts(project)
    fix_clip(project, "recut", short.clip, start_s=0.2, end_s=2.0)
    (wider,) = _cuts(project)
    assert (wider.start_s, wider.end_s, wider.text) == (0.2, 2.0, "Words of my own.")
    assert wider.seconds == pytest.approx(1.8, abs=0.001)
    (wav,) = [project.dataset / wider.clip]
    cut, rate = soundfile.read(wav)
    given, given_rate = soundfile.read(whole.source)
    assert rate == given_rate and np.allclose(cut, given[round(0.2 * rate) :][: len(cut)], atol=1e-4)
    prepare(config(source, project.output))
    assert [clip.id for clip in _cuts(project)] == [wider.id]
    with pytest.raises(UserError, match="an earlier cut of this clip had these edges"):
        fix_clip(project, "recut", wider.id, start_s=0.5, end_s=1.5)
    fix_clip(project, "restore", short.id)
    assert [clip.id for clip in _cuts(project)] == [short.id]
    fix_clip(project, "restore", whole.id)
    assert [clip.id for clip in _cuts(project)] == [whole.id]
    assert Path(whole.source).read_bytes() == before


def test_restoring_the_first_of_several_cuts_leaves_none_of_the_others(project):
    (whole,) = _cuts(project)
    fix_clip(project, "recut", whole.id, start_s=0.5, end_s=1.5)
    fix_clip(project, "recut", _cuts(project)[0].id, start_s=0.2, end_s=2.0)
    report = fix_clip(project, "restore", whole.id)
    assert [clip.id for clip in report.clips if "demo-02" in clip.source] == [whole.id]


def test_a_clip_that_another_tab_cut_is_not_cut_again(project):
    (whole,) = _cuts(project)
    fix_clip(project, "recut", whole.id, start_s=0.5, end_s=1.5)
    state = project.report.read_bytes()
    kinds: tuple[FixKind, FixKind] = ("recut", "trim")
    for again in kinds:
        with pytest.raises(UserError, match="no longer in use"):
            fix_clip(project, again, whole.id, start_s=0.2, end_s=2.0)
    assert project.report.read_bytes() == state


def test_without_its_recording_a_clip_keeps_its_edges(project):
    (whole,) = _cuts(project)
    Path(whole.source).unlink()
    with pytest.raises(UserError, match=r"the recording of demo-02.* is missing"):
        fix_clip(project, "recut", whole.id, start_s=0.5, end_s=1.5)
    drawn = outline(project.dataset, whole)
    assert drawn is not None and drawn.recording_s is None and drawn.end_s == pytest.approx(whole.seconds)


def test_a_cut_clip_is_drawn_with_its_surroundings_and_what_was_removed(tmp_path, source):
    rate = 22_050
    voice, _ = soundfile.read(source / "wavs" / "demo-02.flac")
    padded = np.concatenate([np.zeros(rate), voice, np.zeros(rate)])
    soundfile.write(source / "wavs" / "demo-02.flac", padded, rate)
    prepare(config(source, tmp_path / "out", trim=True))
    project = Project(name="voice", output=tmp_path / "out")
    (whole,) = _cuts(project)
    drawn = outline(project.dataset, whole)
    assert drawn is not None and drawn.recording_s == pytest.approx(len(padded) / rate)
    assert (drawn.begin_s, drawn.start_s) == (0, 0) and 0.5 < drawn.kept_start_s < 1.2
    assert drawn.kept_stop_s == pytest.approx(drawn.kept_start_s + whole.seconds) and drawn.kept_stop_s < drawn.stop_s
    quiet = drawn.peaks[: round(len(drawn.peaks) * 0.8 / drawn.end_s)]
    assert max(quiet) == 0 and max(drawn.peaks) == pytest.approx(abs(voice).max(), abs=0.01)
    fix_clip(project, "recut", whole.id, start_s=1.5, end_s=2.5)
    (short,) = _cuts(project)
    drawn = outline(project.dataset, short)
    assert drawn is not None and (drawn.begin_s, drawn.end_s) == (1.5 - AROUND_S, 2.5 + AROUND_S)


@pytest.mark.parametrize("content", [b"", b"sound", b"RIFF\x00\x00\x00\x00WAVEfmt "])
def test_what_is_no_sound_is_not_drawn(project, content):
    (whole,) = _cuts(project)
    Path(whole.source).write_bytes(content)
    (project.dataset / whole.clip).write_bytes(content)
    assert outline(project.dataset, whole) is None
