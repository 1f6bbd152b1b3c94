"""The list of clips on tab 1: found, sorted, paged, changed together, undone."""

from typing import Any

import pytest

from utils.dataset.edits.edit import FixConfig, current_clips
from utils.errors import UserError
from webui import text
from webui.change import TOAST
from webui.handlers import clip_list, clips, data

NAME = {"project.project": "maria"}


def named(updates: dict[str, Any]) -> str:
    """The clips of the table."""
    return "".join(row[-1] for row in updates["data.clips"]["value"])


def test_the_list_follows_search_filter_and_order(studio):
    assert named(data.show(studio, NAME)) == "abcd"
    assert named(clip_list.find(studio, {**NAME, "data.find": "one FOUR"})) == "a"
    assert named(clip_list.find(studio, {**NAME, "data.kind": "review"})) == "b"
    assert named(clip_list.find(studio, {**NAME, "data.order": "text"})) == "badc"
    nothing = clip_list.find(studio, {**NAME, "data.find": "nowhere"})
    assert named(nothing) == "" and "No clip matches" in nothing["data.found"]


def test_a_filter_that_finds_nothing_any_more_gives_way_to_all(studio):
    updates = data.show(studio, {**NAME, "data.kind": "reason:too short"})
    assert named(updates) == "abcd" and updates["data.kind"]["value"] == ""


@pytest.mark.parametrize("value", [None, 3, [1], float("nan"), "x" * 9_000])
def test_values_that_no_field_sends_find_everything_or_nothing(studio, value):
    fields = dict.fromkeys(clip_list.QUERY, value)
    assert named(clip_list.find(studio, {**NAME, **fields})) in ("abcd", "")
    assert named(data.show(studio, {**NAME, **fields})) in ("abcd", "")


def test_pages_are_turned(studio, monkeypatch):
    monkeypatch.setattr("webui.handlers.clip_list.PAGE_SIZE", 3)
    first = clip_list.find(studio, {**NAME, "data.page": 7})
    assert named(first) == "abc" and not first["data.page_back"]["interactive"]
    second = clip_list.turn_on(studio, {**NAME, "data.page": 0})
    assert named(second) == "d" and not second["data.page_on"]["interactive"]
    assert named(clip_list.turn_back(studio, {**NAME, "data.page": 1})) == "abc"


def test_all_that_were_found_are_excluded_restored_and_that_is_undone(studio, project):
    def used() -> str:
        return "".join(clip.id[3:] for clip in current_clips(project) if clip.status == "used")

    updates = clip_list.exclude_found(studio, {**NAME, "data.find": "five"})
    assert used() == "ad" and updates[TOAST] == text.changed(1)
    clip_list.restore_found(studio, {**NAME, "data.kind": "reason:excluded"})
    assert used() == "abd"
    said = [clip_list.undo(studio, NAME)[TOAST] for _ in range(2)]
    assert used() == "abd" and said == [text.undone("restored", 1), text.undone("excluded", 1)]


def test_nothing_is_changed_where_a_set_would_be_empty_or_nothing_fits(studio, project):
    with pytest.raises(UserError, match="last"):
        clip_list.exclude_found(studio, NAME)
    for handler in (clip_list.restore_found, clip_list.accept_found):
        with pytest.raises(UserError, match="none of the clips found"):
            handler(studio, {**NAME, "data.find": "four"})
    assert sum(clip.status == "used" for clip in current_clips(project)) == 3


def test_all_that_were_found_are_kept_by_one_job(studio, project, started):
    clip_list.accept_found(studio, NAME)
    assert started == [
        ("fix", FixConfig(project="maria", output=project.output, clip="id-b", fix="accept")),
    ]


def test_the_chosen_clip_is_shown_as_it_is_after_an_undo(studio):
    chosen = clips.choose(studio, {**NAME, "row": ["a"]})
    here = {**NAME, **{name: chosen[name] for name in ("data.clip", "data.shown")}}
    saved = clips.save(studio, {**here, "data.transcript": "Other words"})
    undone = clip_list.undo(studio, {**here, "data.shown": saved["data.shown"]})
    assert undone["data.transcript"]["value"] == "One two three four"


def test_uploads_are_listed_with_what_became_of_them_and_removed_one_by_one(studio, project, tmp_path):
    files = [tmp_path / name for name in ("a.wav", "a.txt", "<b>.wav", "metadata.csv")]
    for file in files:
        file.write_bytes(b"content")
    shown = data.upload(studio, {**NAME, "data.files": [str(file) for file in files]})
    names = shown["data.chosen_files"]["choices"]
    assert len(names) == 4 and {"a.wav", "a.txt", "metadata.csv"} < set(names)
    listed = data.show(studio, NAME)["data.files_list"]
    assert text.clips_of_file(1, 0) in listed and "<b>.wav" not in listed
    left = data.remove(studio, {**NAME, "data.chosen_files": ["a.wav", "../../metadata_train.csv", None, 3]})
    assert left["data.chosen_files"]["choices"] == [name for name in names if name != "a.wav"]
    assert project.train_csv.is_file()
    for value in ([], None, "a.txt", ["a.wav"], {"a": 1}):
        with pytest.raises(UserError, match="no uploaded file"):
            data.remove(studio, {**NAME, "data.chosen_files": value})
    data.clear(studio, NAME)
    assert data.show(studio, NAME)["data.chosen_files"]["choices"] == []
