"""The report on the page: totals, reasons, flags and links are those of report.json, and names stay text."""

import re

from utils.dataset.storage.report import EXCLUDED, ClipReport, Flag, Report
from webui import text
from webui.views import report as view

EVIL = "<img src=x onerror=alert(1)>.wav"


def clips() -> list[ClipReport]:
    used = ClipReport(
        source="/in/a.wav", clip="wavs/a.wav", status="used", split="train", text="Hello", num_samples=66_150
    )
    flagged = ClipReport(
        source="/in/b.wav",
        clip="wavs/b.wav",
        status="used",
        split="eval",
        text="There",
        num_samples=44_100,
        flags=(Flag(measure="noise", detail="12 dB over silence"),),
    )
    dropped = ClipReport(source=f"/in/{EVIL}", status="dropped", reason="too short", detail="0.1 s, at least 0.5 s")
    return [used, flagged, dropped]


def test_the_totals_are_those_of_the_report():
    shown = view.report(Report(clips=clips(), settings={}), "de")
    for value, words in (
        (2, text.CLIPS_USED),
        (1, text.CLIPS_DROPPED),
        (1, text.CLIPS_FLAGGED),
        ("1 / 1", text.TRAIN_AND_EVAL),
    ):
        assert f'<div class="value">{value}</div><div>{words}</div>' in shown
    assert "<td>Too short</td><td>1</td>" in shown


def test_every_clip_is_a_row_with_its_reason_or_flag():
    rows = view.rows(clips())
    assert [(row[5], row[1], row[3]) for row in rows] == [
        ("a", "", 3.0),
        ("b", "noise: 12 dB over silence", 2.0),
        (EVIL, "too short: 0.1 s, at least 0.5 s", 0.0),
    ]
    assert [re.sub("<.*?>", "", str(row[0])) for row in rows] == ["used", "review", "dropped"]


def test_files_that_are_no_part_of_the_dataset_are_listed():
    ignored = {"/in/cover.jpg": "image", f"/in/{EVIL}": "unknown"}
    shown = view.report(Report(clips=clips(), settings={}, ignored=ignored), "de")
    assert "<td>cover.jpg</td><td>image</td>" in shown and "<img" not in shown
    assert text.IGNORED not in view.report(Report(clips=clips(), settings={}), "de")


def test_a_clip_that_a_person_excluded_says_so_once():
    (row,) = view.rows([clips()[0].as_dropped(EXCLUDED)])
    assert row[1] == "excluded by hand"


def test_the_verdict_on_the_starter_is_practice_only():
    found = Report(clips=clips(), settings={})
    assert text.PRACTICE_ONLY in view.report(found, "de", base="starter")
    assert text.PRACTICE_ONLY not in view.report(found, "de", base="v2.0.3")


def test_names_of_files_stay_text():
    assert "<img" not in view.clip(clips()[2], has_sound=False)


def test_lengths_are_counted_by_whole_seconds():
    shown = view.lengths(Report(clips=clips(), settings={}))
    counted = re.findall(r"<title>(\d) seconds: (\d) clips</title>", shown)
    assert counted == [("0", "0"), ("1", "0"), ("2", "1"), ("3", "1")]


def test_the_full_report_is_offered_where_there_is_one(tmp_path):
    page = tmp_path / "report.html"
    assert "report.html" not in view.report(Report(clips=clips(), settings={}), "de")
    assert f'href="gradio_api/file={page}"' in view.report(Report(clips=clips(), settings={}), "de", page)
