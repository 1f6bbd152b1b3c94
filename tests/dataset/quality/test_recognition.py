"""The transcript check: a real recognizer of toy size transcribes each clip once, and where it disagrees is flagged."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.dataset.recordings import SENTENCE, config, make_source
from utils.audio.recognizer import Transcriber, TranscriberSettings
from utils.dataset.build import prepare
from utils.dataset.storage.manifest import read_manifest, write_manifest
from utils.dataset.storage.report import Report
from utils.errors import UserError
from utils.project.paths import Project
from utils.text.error_rate import disagreement

SAID = " ".join(SENTENCE)


def _source(folder: Path) -> Path:
    """Four clips; the first says what the recognizer recognizes, the second nearly so, written otherwise."""
    source = make_source(folder, 4)
    lines = (source / "metadata.csv").read_text().splitlines()
    lines[1:3] = [f"wavs/demo-01.flac|{SAID}|demo", "wavs/demo-02.flac|good morning -- dear FRIEND!|demo"]
    (source / "metadata.csv").write_text("\n".join(lines) + "\n")
    return source


def _prepare(source: Path, output: Path, whisper: Path, **more: object) -> Report:
    checked = {"quality": True, "check_speakers": False, "check_transcripts": True, "transcriber": str(whisper)}
    quick = {"transcriber_device": "cpu", "compute_type": "float32", "beam_size": 1, "workers": 1}
    return prepare(config(source, output, **(checked | quick | more)))


def _flagged(report: Report) -> list[str]:
    return [Path(clip.source).stem for clip in report.used if any(flag.measure == "transcript" for flag in clip.flags)]


def test_clips_that_say_something_else_are_flagged_with_what_was_recognized(tmp_path, whisper):
    report = _prepare(_source(tmp_path / "in"), tmp_path / "out", whisper)
    assert {clip.heard for clip in report.used} == {SAID}
    assert [clip.measures["cer"] for clip in report.used][:2] == [0.0, pytest.approx(1 / 21, abs=1e-4)]
    assert _flagged(report) == ["demo-03", "demo-04"]
    (flag,) = (flag for flag in report.used[2].flags if flag.measure == "transcript")
    assert SAID in flag.detail and "%" in flag.detail
    assert "transcript: " in report.table() and "character error rate" in (
        Project(name="voice", output=tmp_path / "out").page.read_text(encoding="utf-8")
    )


def test_no_clip_is_transcribed_twice_and_a_corrected_text_is_compared_again(tmp_path, whisper, monkeypatch):
    source, project = _source(tmp_path / "in"), Project(name="voice", output=tmp_path / "out")
    before = _prepare(source, project.output, whisper)
    monkeypatch.setattr(Transcriber, "transcribe", None)
    for csv in (project.train_csv, project.eval_csv):
        clips = read_manifest(csv)
        write_manifest(csv, [replace(clip, text=SAID) if "demo-03" in clip.audio.name else clip for clip in clips])
    after = _prepare(source, project.output, whisper)
    assert _flagged(before) == ["demo-03", "demo-04"] and _flagged(after) == ["demo-04"]


def test_the_limit_is_the_one_asked_for_and_flagged_clips_can_be_dropped(tmp_path, whisper):
    source = _source(tmp_path / "in")
    assert _flagged(_prepare(source, tmp_path / "out", whisper, max_cer=2.0)) == []
    report = _prepare(source, tmp_path / "other", whisper, drop_flagged=True)
    assert [clip.reason for clip in report.dropped] == ["flagged", "flagged"]
    assert all(clip.detail.startswith("transcript: ") for clip in report.dropped)


def test_missing_weights_are_reported_before_any_clip_is_made(tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    source = _source(tmp_path / "in")
    with pytest.raises(UserError, match="not on this machine and cannot be downloaded") as caught:
        _prepare(source, tmp_path / "out", Path("tiny"))
    assert "use its folder" in caught.value.fix
    assert not list((tmp_path / "out").glob("*"))


def test_a_language_that_the_recogniser_does_not_know_is_refused(tmp_path, whisper):
    settings = TranscriberSettings(model=str(whisper), language="xx", device="cpu", compute_type="float32")
    with pytest.raises(UserError, match="does not support the language 'xx'"):
        Transcriber(settings).transcribe(np.zeros(16_000, dtype=np.float32))


@pytest.mark.parametrize("more", [{"transcriber": None}, {"quality": False}])
def test_a_check_that_could_not_be_made_is_refused(tmp_path, more):
    given = {"quality": True, "check_transcripts": True, "transcriber": "tiny"} | more
    (problem,) = config(tmp_path, tmp_path / "out", **given).problems()
    assert problem.startswith("check_transcripts ")


@pytest.mark.parametrize(
    ("text", "recognized", "expected"),
    [
        ("Eighteen.", "18", 0.0),
        ("It cost 18.", "it cost eighteen", 0.0),
        ("Hello.", "", 1.0),
        ("...", "anything", 0.0),
        ("abcd", "abxd", 0.25),
    ],
)
def test_numbers_may_be_written_either_way(text, recognized, expected):
    read = {"18": "eighteen", "It cost 18.": "it cost eighteen."}
    assert disagreement(text, recognized, lambda words: read.get(words, words)) == pytest.approx(expected)
