"""A preset goes from machine to machine: what is known is applied, what is not is named, and nothing is lost."""

import json
from pathlib import Path

import pytest

from utils.config import TrainConfig
from utils.errors import UserError
from utils.project.presets import (
    FOLDER,
    KEPT,
    MAX_BYTES,
    add_preset,
    list_presets,
    preset_file,
    read_preset,
    remove_preset,
    save_preset,
)
from webui.fields import training_fields

SLOW = TrainConfig(project="maria", base="v2.0.3", num_epochs=7, learning_rate=3e-6, compile="default", lora_rank=8)


def written(path: Path, settings: object, **other: object) -> Path:
    values = {"format": "xtts-studio-preset", "version": 1, "name": path.stem, "settings": settings} | other
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def test_a_preset_comes_back_as_it_was_saved_but_for_its_place(tmp_path):
    save_preset(tmp_path, "slow", SLOW)
    assert list_presets(tmp_path) == ["slow"]
    preset = read_preset(tmp_path, "slow")
    assert {name: getattr(preset.config, name) for name in KEPT} == {name: getattr(SLOW, name) for name in KEPT}
    assert preset.config.base != SLOW.base and preset.unknown == preset.missing == ()
    remove_preset(tmp_path, "slow")
    remove_preset(tmp_path, "slow")
    assert list_presets(tmp_path) == [] and preset_file(tmp_path, "slow") is None
    with pytest.raises(UserError, match="there is no preset 'slow'"):
        read_preset(tmp_path, "slow")


def test_a_preset_has_each_setting_that_the_form_asks_for():
    assert set(training_fields()) < KEPT


def test_a_preset_goes_to_another_machine_as_one_file(tmp_path):
    save_preset(tmp_path / "here", "slow", SLOW)
    file = preset_file(tmp_path / "here", "slow")
    assert file is not None
    there = tmp_path / "there"
    assert add_preset(there, file).name == "slow" == add_preset(there, file).name, "the same one is kept once"
    assert read_preset(there, "slow").config == read_preset(tmp_path / "here", "slow").config
    other = written(tmp_path / "slow.json", {"num_epochs": 9})
    assert add_preset(there, other).name == "slow-2", "no preset is overwritten by an upload"
    assert list_presets(there) == ["slow", "slow-2"]


def test_a_preset_of_another_version_says_what_it_cannot_apply(tmp_path):
    file = written(tmp_path / "new.json", {"num_epochs": 9, "warp": True, "base": "v9", "seed": 5})
    preset = add_preset(tmp_path, file)
    assert (preset.config.num_epochs, preset.config.seed, preset.unknown) == (9, 5, ("base", "warp"))
    assert "batch_size" in preset.missing and preset.config.batch_size == TrainConfig(project="x").batch_size
    stored = json.loads((tmp_path / FOLDER / "new.json").read_text(encoding="utf-8"))
    assert stored["settings"]["warp"] is True, "a newer version can still read it"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "cannot be read"),
        ("[1, 2]", "is no preset"),
        ('{"format": "xtts-studio-preset", "settings": []}', "is no preset"),
        ('{"settings": {"num_epochs": 3}}', "is no preset"),
        ("[" * 50_000, "cannot be read"),
        ("x" * (MAX_BYTES + 1), "larger than 64 kB"),
        ('{"format": "xtts-studio-preset", "settings": {"checkpoint_minutes": NaN}}', "NaN is no number"),
        ('{"format": "xtts-studio-preset", "settings": {"num_epochs": "x", "seed": -1}}', "num_epochs"),
        ('{"format": "xtts-studio-preset", "settings": {"batch_size": 0, "weight_decay": 5}}', "2 settings are"),
        ('{"format": "xtts-studio-preset", "settings": {"compile": ["off"], "sdpa": {}}}', "2 settings are"),
        ('{"format": "xtts-studio-preset", "name": "../evil", "settings": {}}', "preset name"),
    ],
)
def test_a_file_that_is_no_usable_preset_is_refused_and_not_kept(tmp_path, content, says):
    file = tmp_path / "bad.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=says):
        add_preset(tmp_path, file)
    assert list_presets(tmp_path) == []


@pytest.mark.parametrize("name", ["", "con", "a/b", "..", "a b", "a:b", "x" * 65, "a\n"])
def test_names_that_windows_refuses_are_refused(tmp_path, name):
    with pytest.raises(UserError, match="preset name"):
        save_preset(tmp_path, name, SLOW)


def test_two_names_that_windows_takes_for_one_are_one_preset(tmp_path):
    save_preset(tmp_path, "Slow", SLOW)
    save_preset(tmp_path, "slow", SLOW)
    assert list_presets(tmp_path) == ["slow"]


def test_foreign_files_in_the_folder_are_no_presets(tmp_path):
    save_preset(tmp_path, "slow", SLOW)
    (tmp_path / FOLDER / "not a name.json").write_text("{}", encoding="utf-8")
    (tmp_path / FOLDER / "empty.json").write_text("", encoding="utf-8")
    assert list_presets(tmp_path) == ["empty", "slow"]
    with pytest.raises(UserError, match="cannot be read"):
        read_preset(tmp_path, "empty")
