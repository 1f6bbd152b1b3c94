"""Presets of tab 2: the form comes back, what changed and what is unknown is named, a file goes to another app."""

import json
from typing import Any

import pytest

from tests.webui.app import ROOT
from utils.errors import UserError
from utils.project.measured_switches import MeasuredRow, MeasuredSwitches
from utils.project.presets import list_presets
from webui.change import TOAST, Change
from webui.handlers import live, presets, training


def form(studio, project, **settings: Any) -> dict[str, Any]:
    """What the form holds for a project, with some settings changed."""
    updates = training.show_form(studio, {"project.project": project.name})
    values = {key: one.properties["value"] if isinstance(one, Change) else one for key, one in updates.items()}
    return values | {f"train.{key}": value for key, value in settings.items()} | {"project.project": project.name}


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


def test_the_row_that_preflight_recommends_sets_the_form(studio, project):
    settings = {"batch_size": 8, "grad_accumulation": 2, "sdpa": True, "gradient_checkpointing": "selective"}
    settings |= {"eight_bit_optimizer": True, "mixed_precision": "fp32", "compile": "off"}
    MeasuredSwitches(rows=(MeasuredRow(name="SDPA", settings=settings, audio_per_second=2.0),), best=0).save(project)
    before = form(studio, project, sdpa=False, set_num_epochs="7")
    updates = presets.apply_measured(studio, before)
    assert (updates["train.set_batch_size"], updates["train.set_grad_accumulation"]) == (8, 2)
    assert updates["train.sdpa"] and updates["train.gradient_checkpointing"] and not updates["train.mixed_precision"]
    assert updates["train.recompute"] == "selective" and "train.set_num_epochs" not in updates
    assert "Measured settings: SDPA" in updates["train.recommended"]


@pytest.mark.parametrize(
    "content",
    [
        None,
        "[",
        "[]",
        '{"rows": [], "left": 0, "best": 0}',
        '{"rows": [{"name": 1}], "left": 0, "best": 0}',
        '{"rows": [], "left": "many", "best": null}',
    ],
)
def test_results_that_are_missing_or_damaged_set_nothing(studio, project, content):
    if content is not None:
        (project.folder / "preflight.json").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match="preflight has not measured"):
        presets.apply_measured(studio, form(studio, project))


@pytest.mark.parametrize("settings", [{"batch_size": -1}, {"no_such": 1}, {"project": "../x"}, {"sdpa": [1]}])
def test_results_that_were_written_by_somebody_else_are_checked(studio, project, settings):
    MeasuredSwitches(rows=(MeasuredRow(name="x", settings=settings),), best=0).save(project)
    try:
        updates = presets.apply_measured(studio, form(studio, project))
    except UserError:
        return
    assert updates["train.set_batch_size"] >= 1
