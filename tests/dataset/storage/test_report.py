"""The report says what became of every clip, on disk and in the terminal."""

import pytest

from utils.dataset.storage.report import ClipReport, Report
from utils.errors import UserError


def _report(num_dropped: int = 2) -> Report:
    used = [
        ClipReport(source=f"/in/{n}.wav", status="used", split="eval" if n == 0 else "train", num_samples=22_050 * 30)
        for n in range(4)
    ]
    dropped = [
        ClipReport(source=f"/in/bad{n}.wav", status="dropped", reason="too short", detail="0.10 s")
        for n in range(num_dropped)
    ]
    return Report(clips=used + dropped, settings={"language": "en"}, added=3, unchanged=1, splits={"ab": "eval"})


def test_it_is_read_back_as_it_was(tmp_path):
    _report().save(tmp_path / "report.json")
    assert Report.load(tmp_path / "report.json") == _report()


def test_fields_of_later_versions_are_ignored(tmp_path):
    _report().save(tmp_path / "report.json")
    text = (tmp_path / "report.json").read_text().replace('"source":', '"loudness": -23, "source":')
    (tmp_path / "report.json").write_text(text)
    assert Report.load(tmp_path / "report.json") == _report()


def test_totals_add_up():
    totals = _report().totals
    assert totals["clips"] == totals["used"] + totals["dropped"] == 6
    assert totals["used"] == totals["train"] + totals["eval"] == 4
    assert totals["seconds"] == 120
    assert totals["reasons"] == {"too short": 2}


def test_the_table():
    assert _report().table() == "\n".join(
        [
            "                           clips   minutes",
            "given                          6",
            "used                           4       2.0",
            "  for training                 3       1.5",
            "  for evaluation               1       0.5",
            "dropped                        2",
            "  too short                    2",
            "",
            "dropped",
            "  bad0.wav: too short: 0.10 s",
            "  bad1.wav: too short: 0.10 s",
        ]
    )


def test_a_long_list_is_cut_in_the_terminal_only():
    assert _report(30).table().splitlines()[-1] == "  and 10 more, all in report.json"


def test_a_missing_report_is_refused(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        Report.load(tmp_path / "report.json")
