"""Tab 1, the edges of a clip, without a page: what is drawn, which job a click starts, and what is refused before."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.webui.test_clips_handlers import NAME, on_page, shown
from utils.dataset.edits.edit import FixConfig
from utils.dataset.storage.report import Report
from utils.errors import UserError
from webui.handlers import clips, data, recut

RATE = 22_050


@pytest.fixture
def recording(project, tmp_path: Path) -> Iterator[Path]:
    """Five seconds, of which clip a is second 1 to 4 without half a second of silence."""
    path = tmp_path / "take.wav"
    soundfile.write(path, np.sin(np.arange(5 * RATE) / 20) * 0.5, RATE)
    change(project, "id-a", source=str(path), start_s=1.0, end_s=4.5, trimmed_s=0.3)
    yield path


def change(project, name: str, **values: Any) -> None:
    report = Report.load(project.report)
    found = [replace(clip, **values) if clip.id == name else clip for clip in report.clips]
    replace(report, clips=found).save(project.report)


def test_a_chosen_clip_is_drawn_with_its_edges(studio, recording):
    updates = shown(studio, "a")
    drawn = updates["data.waveform"]
    assert drawn["visible"] and "<svg" in drawn["value"] and drawn["value"].count('class="edge"') == 2
    assert "Cut at 1.00 to 4.50 s of 5.00 s." in drawn["value"]
    assert "Silence removed: 0.30 s at the start, 0.20 s at the end." in drawn["value"]
    assert drawn["value"].count('class="around"') == drawn["value"].count('class="removed"') == 2
    assert (updates["data.recording_start_s"], updates["data.recording_end_s"]) == (1.0, 4.5)
    assert shown(studio, "b")["data.waveform"]["visible"] is False, "there is no sound to draw"


def test_edges_are_moved_by_a_job(studio, project, started, recording):
    clips.move_edges(
        studio, {**NAME, "data.clip": "wavs/a.wav", "data.recording_start_s": "0,5", "data.recording_end_s": 4.8}
    )
    wanted = FixConfig(project="maria", output=project.output, clip="wavs/a.wav", fix="recut", start_s=0.5, end_s=4.8)
    assert started == [("fix", wanted)]


def test_one_button_saves_whatever_the_form_changed(studio, project, started, recording):
    seen = on_page(shown(studio, "a")) | {key: shown(studio, "a")[key] for key in recut.EDGES} | {"data.at_s": 1.2}
    common = {"project": "maria", "output": project.output, "clip": "wavs/a.wav"}
    clips.apply(studio, seen | {"data.transcript": "One two | three four"})
    split = FixConfig(fix="split", at_s=1.2, text_before="One two", text_after="three four", **common)
    assert started.pop() == ("fix", split)
    clips.apply(studio, seen | {"data.transcript": "One two three five"})
    assert started == [] and "One two three five" in project.train_csv.read_text()
    seen = on_page(shown(studio, "a")) | {"data.recording_start_s": 0.5, "data.recording_end_s": 4.5}
    updates = clips.apply(studio, seen | {"data.transcript": "One two three six"})
    assert started == [("fix", FixConfig(fix="recut", start_s=0.5, end_s=4.5, **common))]
    assert "One two three six" in project.train_csv.read_text() and not set(recut.EDGES) & set(updates)
    started.clear()
    with pytest.raises(UserError, match="its edges are moved as well"):
        clips.apply(studio, seen | {"data.transcript": "One | two", "data.at_s": 1})
    with pytest.raises(UserError, match="no transcript"):
        edges = {key: shown(studio, "a")[key] for key in recut.EDGES}
        clips.apply(studio, seen | edges | {"data.transcript": "| three four", "data.at_s": 1})
    assert started == []


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        (3, 2, "is not a part of take.wav, which is 5.00 s long"),
        (-1, 2, "is not a part of take.wav"),
        (1, 4.5, "has these edges already"),
        (None, 4, "start_s is not given"),
        ("nan", 4, "nan"),
        (["1"], {"a": 1}, "2 settings are not usable"),
        (True, 4, r"From \(s\) is True"),
    ],
)
def test_bad_edges_are_refused_before_a_process_starts(studio, started, recording, start, end, said):
    with pytest.raises(UserError, match=said):
        clips.move_edges(
            studio,
            {**NAME, "data.clip": "wavs/a.wav", "data.recording_start_s": start, "data.recording_end_s": end},
        )
    assert started == []


def test_without_the_recording_edges_are_not_moved(studio, started, recording):
    recording.unlink()
    form = {"data.recording_start_s": 1.5, "data.recording_end_s": 4}
    with pytest.raises(UserError, match=r"the recording of take.wav .* is missing"):
        clips.move_edges(studio, {**NAME, "data.clip": "wavs/a.wav", **form})
    assert started == []


def test_a_clip_that_another_tab_cut_is_followed_and_not_cut_again(studio, project, started, recording):
    seen = on_page(shown(studio, "a"))
    change(project, "id-a", status="dropped", reason="replaced", detail="cut again at 0:00.50-0:04.00", split="")
    change(project, "id-b", made_from=("id-a",), text="One two three four")
    project.train_csv.write_text("audio_file|text|speaker_name\nwavs/b.wav|One two three four|one\n")
    for handler, times in (
        (clips.move_edges, {"data.recording_start_s": 1.5, "data.recording_end_s": 4}),
        (clips.trim, {"data.start_s": 0, "data.end_s": 1}),
        (clips.merge, {}),
    ):
        with pytest.raises(UserError, match="no longer in use: cut again"):
            handler(studio, {**seen, **times})
    assert started == []
    updates = data.show(studio, seen)
    assert updates["data.clip"] == "wavs/b.wav"
    assert "value" not in updates["data.transcript"], "what is being typed stays"
    # Once the cut is undone, what it was made from is shown again.
    cut = on_page(updates)
    report = Report.load(project.report)
    kept = [clip for clip in report.clips if clip.id != "id-b"]
    replace(report, clips=kept).save(project.report)
    assert data.show(studio, cut)["data.clip"] == "wavs/a.wav"
    report.save(project.report)
    # Who looks at the old clip on purpose is left there.
    old = on_page(shown(studio, "a"))
    assert data.show(studio, old)["data.clip"] == "wavs/a.wav"


def test_a_clip_that_is_saved_is_drawn_once(studio, project, recording, monkeypatch):
    seen, drawn = on_page(shown(studio, "a")) | {key: shown(studio, "a")[key] for key in recut.EDGES}, []
    outline = recut.outline
    monkeypatch.setattr(recut, "outline", lambda *about: drawn.append(about) or outline(*about))
    clips.apply(studio, seen | {"data.transcript": "One two three five"})
    assert len(drawn) == 1
