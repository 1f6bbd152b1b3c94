"""report.html stands alone, shows every clip with its reason, and takes no text for markup."""

import re

from tests.dataset.recordings import add_row, config, make_source
from utils.dataset.build import prepare
from utils.dataset.page import write_page
from utils.dataset.storage.report import ClipReport, Flag, Report


def test_every_clip_is_on_the_page_and_nothing_from_outside(tmp_path):
    source = make_source(tmp_path / "in", 4)
    add_row(source, "gone.wav", "Not there.")
    report = prepare(config(source, tmp_path / "out", quality=True, check_speakers=False))
    page = (tmp_path / "out" / "voice" / "dataset" / "report.html").read_text(encoding="utf-8")
    assert all(clip.name in page for clip in report.clips)
    assert "missing file: metadata.csv, line 6 names" in page
    assert page.count("<svg") >= 6, "histograms of length, text, rate, loudness, noise and speech"
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", page)
    for clip in report.used:
        assert f'src="{clip.clip}"' in page and (tmp_path / "out" / "voice" / "dataset" / clip.clip).is_file()


def test_texts_and_names_are_not_markup(tmp_path):
    evil = "<script>alert('x')</script>\" onload=\""
    clip = ClipReport(
        source=f"/in/{evil}.wav", clip=f"wavs/{evil}.wav", status="used", text=evil, flags=(Flag("noise", evil),)
    )
    write_page(tmp_path / "report.html", Report(clips=[clip], settings={"input": evil}), evil)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page and 'onload="' not in page


def test_an_empty_report_has_a_page_too(tmp_path):
    write_page(tmp_path / "report.html", Report(clips=[], settings={}), "voice")
    assert "Dataset of voice" in (tmp_path / "report.html").read_text(encoding="utf-8")
