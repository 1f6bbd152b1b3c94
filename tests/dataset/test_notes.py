"""A text that has no rule for all of its signs is used, and the report names what is read literally."""

from tests.dataset.recordings import add_row, config, make_source
from utils.bases.extend import add_language
from utils.bases.find import find_base
from utils.dataset.build import prepare
from utils.dataset.storage.report import Report
from utils.project.paths import Project


def test_each_clip_names_what_has_no_rule(tmp_path):
    base = add_language(find_base("tiny"), "sw", tmp_path, corpus=tmp_path / "none", target=0).base
    source = make_source(tmp_path / "in", 2)
    rows = (source / "metadata.csv").read_text(encoding="utf-8").splitlines()
    (source / "metadata.csv").write_text(f"{rows[0]}\n", encoding="utf-8")
    add_row(source, "wavs/demo-01.flac", "Saa 12 na 3:45")
    add_row(source, "wavs/demo-02.flac", "Habari ya leo")
    report = prepare(config(source, tmp_path / "out", language="sw", base=str(base.folder), quality=False))
    first, second = sorted(report.used, key=lambda clip: clip.name)
    assert second.notes == ()
    assert first.notes[0] == "no words for a date or time in sw: 3:45 is read number by number"
    assert "no number words for sw: 12 stays digits" in first.notes
    assert report.totals["noted"] == 1
    assert f"{first.name}: no words for a date" in report.table()
    project = Project(name="voice", output=tmp_path / "out")
    assert Report.load(project.report).clips == report.clips
    assert "no number words for sw: 12" in project.page.read_text(encoding="utf-8")
