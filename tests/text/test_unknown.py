"""Characters that a base cannot read are counted over all clips, each with what to do about it."""

import pytest

from tests.dataset.recordings import add_row, config, make_source
from utils.dataset.build import prepare
from utils.project.paths import Project
from utils.text.unknown import count_unknown, suggestion

EXTEND = "python -m utils.cli.language --project anna --language ber --base starter --corpus TEXTS --extend 2000"
LETTERS = set("abcdefghijklmnopqrstuvwxyz'\"-,. ")


@pytest.mark.parametrize(
    ("character", "expected"),
    [
        ("“", "write '\"'"),
        ("–", "write '-'"),
        ("é", "write 'e'"),
        ("ß", "write 'ss'"),
        ("ﬁ", "write 'fi'"),
        ("_", "write a space"),
        ("ⵣ", f"add the language's letters to the base: {EXTEND}"),
        ("🙂", "write it as a word, or remove it"),
    ],
)
def test_what_could_be_written_instead(character, expected):
    assert suggestion(character, lambda text: set(text) <= LETTERS, extend=EXTEND) == expected


def test_nothing_is_suggested_that_the_base_cannot_read_either():
    assert "utils.cli.language" in suggestion("é", lambda text: False)


def test_they_are_counted_over_all_clips_the_most_frequent_first():
    found = count_unknown([("a ⵣ ⵣ", {"ⵣ": "x"}), ("🙂 ⵣ", {"ⵣ": "x", "🙂": "y"})])
    assert [(item.character, item.count, item.clips) for item in found] == [("ⵣ", 3, 2), ("🙂", 1, 1)]
    assert (found[0].title, found[0].advice) == ("ⵣ (U+2D63 tifinagh letter yaz)", "3 times in 2 clips; x")


def test_the_reports_list_them_and_show_what_the_model_reads(tmp_path):
    source = make_source(tmp_path / "in", 4)
    for name, text in (("demo-01", "Sun ⵣ and ⵣ."), ("demo-02", "Only ⵣ 🙂."), ("demo-03", "It cost $5 & more.")):
        table = (source / "metadata.csv").read_text().splitlines()
        table = [f"wavs/{name}.flac|{text}|demo" if name in line else line for line in table]
        (source / "metadata.csv").write_text("\n".join(table) + "\n")
    add_row(source, "gone.wav", "Not there.")
    report = prepare(config(source, tmp_path / "out"))
    yaz, smile = report.totals["unknown_characters"]
    assert (yaz["character"], yaz["count"], yaz["clips"]) == ("ⵣ", 3, 2)
    assert (smile["character"], smile["count"], smile["clips"]) == ("🙂", 1, 1)
    assert "ⵣ (U+2D63 tifinagh letter yaz): 3 times in 2 clips; add the language's letters" in report.table()
    (read,) = (clip for clip in report.used if "$5" in clip.text)
    assert read.read == "it cost five dollars and more."
    page = Project(name="voice", output=tmp_path / "out").page.read_text(encoding="utf-8")
    assert "it cost five dollars and more." in page and "It cost $5 &amp; more." in page
    assert "unsupported characters (2)" in page
