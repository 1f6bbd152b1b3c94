"""Names of any script are safe folder names, and what cannot be read is said in words."""

import os
import time
import unicodedata

import pytest

from utils.errors import UserError
from utils.project.paths import Project, check_name, new_run_id, open_project

NAMES = ["voice", "anna_2-b", "Grüße", "हिन्दी", "ไทยดี", "العَرَبية", "አማርኛ", "한국어", "日本語", "é" * 64, "字" * 64]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_names_of_any_script_are_accepted_and_composed(tmp_path, name, form):
    name = unicodedata.normalize("NFC", name)
    project = open_project(unicodedata.normalize(form, name), tmp_path)
    assert project.name == name
    project.dataset.mkdir(parents=True)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/b",
        "a\\b",
        "COM1",
        "x" * 65,
        "𐌰" * 51,
        "\u0301",
        "\u0301a",
        "a\u200bb",
        "caf\udce9",
    ],
)
def test_unsafe_names_are_refused(name):
    with pytest.raises(UserError, match="cannot be used as a run name") as caught:
        check_name(name, kind="run")
    assert "200 bytes" in caught.value.fix


def test_a_language_file_that_is_not_text_is_named(tmp_path):
    project = Project(name="voice", output=tmp_path)
    project.dataset.mkdir(parents=True)
    project.language_file.write_bytes(b"d\xe9\n")
    with pytest.raises(UserError, match="language of the dataset cannot be read") as caught:
        project.language()
    assert caught.value.where == str(project.language_file) and caught.value.fix


def test_runs_of_one_second_have_names_of_their_own_in_order(monkeypatch):
    monkeypatch.setattr(time, "strftime", lambda _: "20260101-120000")
    names = [new_run_id() for _ in range(12)]
    assert len(set(names)) == 12 and names == sorted(names)
    assert all(check_name(name, kind="run") and str(os.getpid()) in name for name in names)
