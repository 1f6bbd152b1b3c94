"""The form of tab 2: a refresh brings back all that the newest run was given, and another project gets none of it."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.hardware.machines import GIB, make_gpu, make_machine
from tests.webui.small_project import add_checkpoint
from utils.config import TrainConfig
from utils.errors import UserError
from utils.project.paths import Project
from utils.project.projects import ProjectSettings, create_project, find_project
from webui.change import TOAST, Change
from webui.fields import training_fields
from webui.handlers import live, recommend, settings_file, training
from webui.studio import Studio


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    for name in ("maria", "bert"):
        project = create_project(name, tmp_path, ProjectSettings(language="en", base="tiny"))
        project.ready.mkdir()
        (project.ready / "model.pth").write_bytes(b"")
    return Studio(output=tmp_path)


def make_run(project: Project, config: TrainConfig, sources: dict[str, str]) -> str:
    run = project.runs / "20260101-000000-1-000"
    run.mkdir(parents=True)
    config.save(run / "config.yaml")
    line = {"time": 1.0, "kind": "started", "sources": sources}
    (run / "events.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    return run.name


def page(studio: Studio, project: str) -> dict[str, Any]:
    """What the form holds once the project was chosen."""
    updates = training.show_form(studio, {"project.project": project})
    return {key: value["value"] if isinstance(value, Change) else value for key, value in updates.items()}


def started(studio: Studio, project: str) -> TrainConfig:
    """What Step 2 would train with then."""
    values = page(studio, project) | {"project.base": "tiny"}
    return training.training_config(find_project(project, studio.output), values)


def test_a_refresh_brings_back_every_setting_of_the_newest_run(studio):
    project = find_project("maria", studio.output)
    given = TrainConfig(
        project="maria",
        output=studio.output,
        base=str(project.ready),
        learning_rate=3e-6,
        num_epochs=7,
        max_audio_length=255_995,
        gradient_checkpointing="selective",
        sdpa=False,
        mixed_precision="fp16",
        compile="default",
        eight_bit_optimizer=True,
        lora_rank=8,
        freeze_conditioning=True,
        pin_memory=False,
        patience=3,
        sample_text="One. | Two.",
        use_amharic_g2p=True,
        dropout=0.1,
    )
    make_run(
        project, given, {"learning_rate": "you", "num_epochs": "you", "max_audio_length": "you", "dropout": "base"}
    )
    shown = started(studio, "maria")
    different = {key for key, value in vars(given).items() if value != getattr(shown, key)}
    assert different == {"dropout"} and shown.dropout is None, "what was left to the base is left to it again"


@pytest.mark.parametrize(("own", "asked", "given"), [(10, "3", None), (10, "", None), (3, "8", 8), (None, "8", 8)])
def test_a_run_goes_on_to_more_epochs_and_is_never_cut_short_by_another_ones_form(
    studio, monkeypatch, own, asked, given
):
    run = make_run(find_project("maria", studio.output), TrainConfig(project="maria", num_epochs=own), {})
    begun: list[TrainConfig] = []
    monkeypatch.setattr(Studio, "start_alone", lambda self, kind, config: begun.append(config) or "")
    values = {"project.project": "maria", "train.run": run, "train.set_num_epochs": asked}
    reported = training.resume(studio, values)[TOAST]
    assert [config.num_epochs for config in begun] == [given] and ("up to epoch 8" in reported) == (given == 8)


def test_a_project_without_runs_gets_what_is_recommended(studio):
    run = make_run(find_project("maria", studio.output), TrainConfig(project="maria", lora_rank=8, num_epochs=7), {})
    found = started(studio, "bert")
    assert found.num_epochs is None
    values = page(studio, "bert") | {"project.project": "bert", "project.base": "tiny", "train.use_case": None}
    assert "The form had these settings already." in recommend.recommend(studio, values)["train.recommended"]
    assert page(studio, "bert")["train.run"] == page(studio, "bert")["train.start_from"] == ""
    with pytest.raises(UserError, match="select one of this project's runs"):
        training.stop(studio, {"project.project": "bert", "train.run": run})


def test_a_settings_file_goes_from_the_form_and_back(studio, tmp_path):
    project = find_project("maria", studio.output)
    values = page(studio, "maria") | {"project.project": "maria", "project.base": "tiny", "train.set_seed": "9"}
    shown = settings_file.show_command(studio, values)
    assert "--seed 9" in shown["train.command"]
    file = Path(shown["train.settings_file"]["value"])
    assert TrainConfig.load(file) == training.training_config(project, values)
    file.write_text(file.read_text() + "gradient_release: true\n")
    given = page(studio, "bert") | {"project.project": "bert", "train.settings_upload": str(file)}
    updates = settings_file.load(studio, given)
    assert updates["train.set_seed"] == "9" or updates["train.set_seed"] == 9
    assert "<td>9</td>" in updates["train.recommended"] and "gradient_release" in updates["train.recommended"]
    for content, said in (
        ("speed: 3\n", "unknown settings: speed"),
        ("seed: many\n", "seed is 'many'"),
        ("- a\n", "not a"),
    ):
        file.write_text(content)
        with pytest.raises(UserError, match=said):
            settings_file.load(studio, given)
    with pytest.raises(UserError, match="no settings file"):
        settings_file.load(studio, given | {"train.settings_upload": None})


def test_a_training_can_start_from_an_earlier_run(studio):
    project = find_project("maria", studio.output)
    run = make_run(project, TrainConfig(project="maria"), {})
    with pytest.raises(UserError, match="no complete best checkpoint"):
        training.training_config(project, page(studio, "maria") | {"train.start_from": f"run/{run}/best"})
    for name in ("step-00000004", "best-00000002"):
        add_checkpoint(project.runs / run, name)
    offered = dict(training.starts(project))
    assert list(offered.values()) == ["", "ready", f"run/{run}/best", f"run/{run}/last"]
    for start in list(offered.values())[2:]:
        config = training.training_config(project, page(studio, "maria") | {"train.start_from": start})
        assert config.base == start
        config.save(project.runs / run / "config.yaml")
        assert page(studio, "maria")["train.start_from"] == start, "a refresh brings it back"
    for bad in (f"run/{run}/newest", "run/../best", "/etc", f"run/{run}"):
        with pytest.raises(UserError):
            training.training_config(project, page(studio, "maria") | {"train.start_from": bad})
    with pytest.raises(UserError, match="no run"):
        training.training_config(
            find_project("bert", studio.output), page(studio, "bert") | {"train.start_from": f"run/{run}/best"}
        )


def test_the_form_holds_what_the_page_asks_for(studio):
    assert {f"{training.FORM}{name}" for name in training_fields()} < page(studio, "bert").keys()


def test_nothing_is_offered_that_a_prepared_dataset_cannot_have():
    """Word times are a column of manifests that preparing never writes: the run would be refused."""
    assert "reading_weight" not in training_fields()


@pytest.mark.parametrize(("language", "reads_latin"), [("amh", True), ("am", True), ("en", False)])
def test_a_base_made_for_the_latin_form_is_trained_in_it_without_another_click(studio, language, reads_latin):
    project = create_project("abebe", studio.output, ProjectSettings(language=language, base="tiny"))
    made = project.folder / "base-amh"
    made.mkdir()
    for name, content in (("config.json", "{}"), ("model.safetensors", ""), ("about.json", '{"amharic_g2p": true}')):
        (made / name).write_text(content, encoding="utf-8")
    values = page(studio, "abebe") | {"project.base": str(made)}
    assert training.training_config(project, values).use_amharic_g2p == reads_latin
    assert not training.training_config(project, values | {"project.base": "tiny"}).use_amharic_g2p


def test_a_recommendation_is_for_the_base_and_shows_what_it_changed(studio):
    values = page(studio, "maria") | {"project.project": "maria", "project.base": "starter", "train.use_case": None}
    updates = recommend.recommend(studio, values)
    panel = updates["train.recommended"]
    assert "Planned for base starter, 9.3 M parameters." in panel
    again = recommend.recommend(studio, values | updates)
    assert "The form had these settings already." in again["train.recommended"]
    wanted = updates["train.set_batch_size"]
    changed = recommend.recommend(studio, values | updates | {"train.set_batch_size": "3"})["train.recommended"]
    assert "<td>3</td>" in changed and f"<td>{wanted}</td>" in changed
    unknown = recommend.recommend(studio, values | {"project.base": "v2.0.3"})["train.recommended"]
    assert "Planned for XTTS v2: v2.0.3 is not on this machine yet." in unknown


def test_a_recommendation_includes_whether_the_training_fits(studio, monkeypatch):
    monkeypatch.setattr(recommend, "this_machine", lambda: make_machine(make_gpu(8, (8, 6), used_bytes=GIB)))
    values = page(studio, "maria") | {"project.project": "maria", "project.base": "starter", "train.use_case": None}
    panel = recommend.recommend(studio, values)["train.recommended"]
    assert "It should fit." in panel and panel.count("GB by calculation") == 1
    alone = recommend.recommend(studio, values | {"project.project": ""})["train.recommended"]
    assert alone.count("GB by calculation") == 1
    monkeypatch.setattr(recommend, "this_machine", lambda: make_machine(make_gpu(1, (8, 6), used_bytes=GIB)))
    assert "It probably does not fit" in recommend.recommend(studio, values)["train.recommended"]


def test_a_run_is_queued_moved_and_removed_where_the_page_shows_it(studio):
    project = find_project("maria", studio.output)
    values = page(studio, "maria") | {"project.project": "maria", "project.base": "tiny"}
    with pytest.raises(UserError, match="no dataset yet"):
        training.queue_run(studio, values)
    project.dataset.mkdir()
    project.train_csv.write_text("audio_file|text|speaker_name\n", encoding="utf-8")
    assert live.poll(studio, values)["train.queue_group"] == Change(visible=False)
    training.queue_run(studio, values)
    queued = training.queue_run(studio, values | {"train.set_seed": 7, "train.set_sample_text": "<b>"})
    assert queued["train.queue_group"] == Change(visible=True) and "&lt;b&gt;" in queued["train.queue"]
    first, second = (name for _, name in queued["train.queued"]["choices"])
    moved = training.queue_earlier(studio, values | {"train.queued": second})
    assert [name for _, name in moved["train.queued"]["choices"]] == [second, first]
    polled = live.poll(studio, values)
    assert polled["train.queue"] == moved["train.queue"] and polled["train.enqueue"] == Change(visible=True)
    for name in (first, second):
        left = training.queue_remove(studio, values | {"train.queued": name})
    assert left["train.queue_group"] == Change(visible=False) and left["train.queue"] == ""
    with pytest.raises(UserError, match="not in the queue any more"):
        training.queue_remove(studio, values | {"train.queued": first})


def test_a_press_of_train_while_a_run_goes_on_offers_the_queue(studio, monkeypatch):
    def refuse(self: Studio, kind: str, config: TrainConfig) -> str:
        raise UserError(what="Training is already running", where="runs", fix="wait until it has ended, or stop it")

    project = find_project("maria", studio.output)
    project.dataset.mkdir()
    project.train_csv.write_text("audio_file|text|speaker_name\n", encoding="utf-8")
    monkeypatch.setattr(Studio, "start_alone", refuse)
    values = page(studio, "maria") | {"project.project": "maria", "project.base": "tiny"}
    for kind, offers in (("train", True), ("export", False)):
        monkeypatch.setattr(training, "holder", lambda config, kind=kind: SimpleNamespace(kind=kind))
        with pytest.raises(UserError, match="already running") as caught:
            training.start(studio, values)
        assert ("Add to queue" in caught.value.fix) == offers
