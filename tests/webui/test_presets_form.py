"""Presets of tab 2: the form comes back, what changed and what is unknown is named, a file goes to another app."""

import json
from typing import Any

import pytest

from tests.webui.app import ROOT
from utils.errors import UserError
from utils.project.presets import list_presets
from webui.change import TOAST, Change
from webui.handlers import live, presets, training


def form(studio, project, **settings: Any) -> dict[str, Any]:
    """What the form holds for a project, with some settings changed."""
    updates = training.show_form(studio, {"project.project": project.name})
    values = {key: one.properties["value"] if isinstance(one, Change) else one for key, one in updates.items()}
    return values | {f"train.{key}": value for key, value in settings.items()}


def test_a_form_that_was_saved_comes_back(studio, project):
    given = form(studio, project, sdpa=False, set_num_epochs="7", set_learning_rate="3e-6", set_seed=5, preset="slow")
    saved = presets.save(studio, given)
    assert saved["train.preset"] == Change(choices=["slow"], value="slow")
    assert saved["train.preset_file"].properties["visible"] and "slow" in saved[TOAST]
    applied = presets.apply(studio, form(studio, project, preset="slow"))
    shown = (given.keys() & applied) - {"train.origins"}
    assert {key: str(applied[key]) for key in shown} == {key: str(given[key]) for key in shown}
    assert '"origin": "preset"' in applied["train.origins"]
    assert "<td>Epochs</td><td>automatic</td><td>7</td>" in applied["train.preset_shown"]
    again = presets.apply(studio, given | {key: value for key, value in applied.items() if key != "train.preset_shown"})
    assert "The form had these settings already." in again["train.preset_shown"]
    assert live.poll(studio, {"project.project": "", "project.base": "", "train.run": ""})["train.preset"] == Change(
        choices=["slow"]
    )
    removed = presets.remove(studio, {"train.preset": "slow"})
    assert removed["train.preset"] == Change(choices=[], value="") and list_presets(studio.output) == []


def test_a_form_with_faults_is_not_saved(studio, project):
    with pytest.raises(UserError) as caught:
        presets.save(studio, form(studio, project, set_num_epochs="many", preset="slow"))
    assert "Epochs" in str(caught.value) and list_presets(studio.output) == []
    for act in (presets.save, presets.apply, presets.remove):
        with pytest.raises(UserError, match="no preset is named"):
            act(studio, form(studio, project, preset=" "))


def test_a_preset_of_another_version_is_applied_but_for_what_is_unknown(studio, project, tmp_path):
    file = tmp_path / "new.json"
    content = {"format": "xtts-studio-preset", "settings": {"num_epochs": 9, "<b>warp</b>": 1}}
    file.write_text(json.dumps(content), encoding="utf-8")
    added = presets.upload(studio, {"train.preset_upload": str(file)})
    assert added["train.preset"].properties["value"] == "new" and "warp" in added[TOAST]
    applied = presets.apply(studio, form(studio, project, preset="new"))
    assert applied["train.set_num_epochs"] == 9
    shown = applied["train.preset_shown"]
    assert "no such setting: &lt;b&gt;warp&lt;/b&gt;." in shown and "set to the default: " in shown
    assert presets.upload(studio, {"train.preset_upload": None}) == {}
    with pytest.raises(UserError, match="the preset cannot be read"):
        presets.upload(studio, {"train.preset_upload": str(ROOT / "README.md")})
