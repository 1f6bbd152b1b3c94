"""Tab 1 clip by clip, without a page: whose words are shown, and which fix a click starts."""

import shutil
from typing import Any

import pytest

from utils.dataset.edits.edit import FixConfig
from utils.dataset.storage.report import ClipReport, Report
from utils.errors import UserError
from utils.project.projects import ProjectSettings, create_project
from webui.handlers import clips, data
from webui.studio import Studio
from webui.views import report as report_view

EVIL = "<img src=x onerror=alert(1)>"
NAME = {"project.project": "maria"}


def shown(studio: Studio, name: str) -> dict[str, Any]:
    """The clip with this letter, as the page shows it after its row was chosen."""
    return clips.choose(studio, {**NAME, "row": ["", "", "", "", "", name]})


def test_a_chosen_clip_offers_what_can_be_done_with_it(studio):
    def offered(name: str) -> set[str]:
        updates = shown(studio, name)
        buttons = ("save", "exclude", "restore", "accept", "merge")
        # Visible, or interactive where it is always there.
        return {button for button in buttons if next(iter(updates[f"data.{button}"].values()))}

    assert offered("a") == {"save", "exclude", "merge"}
    assert offered("b") == {"save", "exclude", "accept", "merge"}
    assert offered("c") == {"restore"}
    assert offered("d") == {"save", "exclude", "restore", "merge"}


def test_a_cut_is_offered_in_the_middle(studio):
    updates = shown(studio, "a")
    assert (updates["data.at_s"], updates["data.end_s"]) == (1.5, 3.0)
    assert (updates["data.text_before"], updates["data.text_after"]) == ("One two", "three four")


@pytest.mark.parametrize(
    ("handler", "form", "wanted"),
    [
        (clips.accept, {}, {"fix": "accept"}),
        (clips.merge, {}, {"fix": "merge"}),
        (clips.trim, {"data.start_s": 0.5, "data.end_s": "1,5"}, {"fix": "trim", "start_s": 0.5, "end_s": 1.5}),
        (
            clips.split,
            {"data.at_s": 1, "data.text_before": "One", "data.text_after": "two"},
            {"fix": "split", "at_s": 1, "text_before": "One", "text_after": "two"},
        ),
    ],
)
def test_a_fix_is_a_job_for_the_clip(studio, project, started, handler, form, wanted):
    handler(studio, {**NAME, "data.clip": "wavs/a.wav", **form})
    expected = FixConfig(project="maria", output=project.output, clip="wavs/a.wav", **wanted)
    assert started == [("fix", expected)]


def test_undoing_a_cut_restores_what_was_cut(studio, started):
    for chosen, target in (("wavs/c.wav", "wavs/c.wav"), ("wavs/d.wav", "id-c")):
        clips.restore(studio, {**NAME, "data.clip": chosen})
        kind, config = started.pop()
        assert (kind, config.fix, config.clip) == ("fix", "restore", target)


@pytest.mark.parametrize(
    ("handler", "form", "said"),
    [
        (clips.trim, {"data.start_s": None, "data.end_s": None}, "is not given"),
        (clips.split, {"data.at_s": 1, "data.text_before": " ", "data.text_after": "x"}, "no transcript"),
        (clips.split, {"data.at_s": "soon", "data.text_before": "a", "data.text_after": "b"}, "soon"),
    ],
)
def test_a_fix_that_is_not_whole_is_refused_before_a_process_starts(studio, started, handler, form, said):
    with pytest.raises(UserError, match=said):
        handler(studio, {**NAME, "data.clip": "wavs/a.wav", **form})
    assert started == []


@pytest.mark.parametrize("name", ["wavs/none.wav", "../a.wav", "/etc/passwd", "a\x00", EVIL])
def test_a_clip_that_is_not_in_the_dataset_is_refused_before_a_process_starts(studio, started, name):
    for handler in (clips.accept, clips.merge):
        with pytest.raises(UserError, match="the dataset has no clip"):
            handler(studio, {**NAME, "data.clip": name})
    with pytest.raises(UserError, match="has no recording in the dataset"):
        clips.restore(studio, {**NAME, "data.clip": name})
    assert started == []


def test_what_is_typed_stays_when_the_dataset_changes(studio, project):
    seen = on_page(shown(studio, "a"))
    updates = data.show(studio, seen)
    assert updates["data.clip"] == "wavs/a.wav" and not set(clips.TYPED) & set(updates)
    assert updates["data.clip_box"] == {"visible": True}
    assert data.show(studio, {**seen, "data.clip": "wavs/gone.wav"})["data.clip_box"] == {"visible": False}


def on_page(updates: dict[str, Any]) -> dict[str, Any]:
    """What the page sends about the clip that it was asked to show."""
    return {**NAME, "data.clip": updates["data.clip"], "data.shown": updates["data.shown"]}


def test_words_that_changed_on_disk_replace_those_that_are_shown(studio, project):
    seen = on_page(shown(studio, "a"))
    project.train_csv.write_text(project.train_csv.read_text().replace("One two three four", "One, too"))
    updates = data.show(studio, seen)
    assert updates["data.transcript"]["value"] == "One, too"
    assert (updates["data.text_before"], updates["data.text_after"]) == ("One,", "too")
    assert not set(clips.TYPED) & set(data.show(studio, on_page(updates)))


def test_words_that_another_tab_changed_are_not_written_over(studio, project):
    seen = on_page(shown(studio, "a"))
    clips.save(studio, seen | {"data.transcript": "One, too"})
    with pytest.raises(UserError, match="was changed in another tab"):
        clips.save(studio, seen | {"data.transcript": "One, two"})
    assert "One, too" in project.train_csv.read_text()
    by_script = {key: value for key, value in seen.items() if key != "data.shown"}
    clips.save(studio, by_script | {"data.transcript": "One, two"})
    assert "One, two" in project.train_csv.read_text()


def test_another_project_with_the_same_recordings_never_gets_the_words_of_the_first(studio, project, started):
    other = create_project("anna", project.output, ProjectSettings(language="en", base="tiny"))
    shutil.copytree(project.dataset, other.dataset)
    seen = on_page(shown(studio, "a")) | {"project.project": "anna"}
    # Before the page has noticed that the project changed:
    cuts = {"data.start_s": 0.5, "data.end_s": 1.0, "data.transcript": "the words of maria"}
    for handler in (clips.save, clips.exclude, clips.restore, clips.trim, clips.accept, clips.go_on):
        with pytest.raises(UserError, match="belongs to another project"):
            handler(studio, {**seen, **cuts})
    assert started == [] and other.train_csv.read_text() == project.train_csv.read_text()
    # And once it has:
    updates = data.show(studio, seen)
    assert updates["data.clip_box"] == {"visible": False} and updates["data.clip"] == ""


def test_clips_of_one_name_are_told_apart_by_the_rest_of_their_row(studio, project):
    both = [
        ClipReport(source="/in/talk.wav", status="dropped", reason="too short", detail=detail, text=words)
        for detail, words in (("0.1 s", "Yes"), ("0.2 s", "No"))
    ]
    Report(clips=both, settings={}).save(project.report)
    for row in report_view.rows(both):
        assert clips.choose(studio, {**NAME, "row": row})["data.transcript"]["value"] == row[2]
