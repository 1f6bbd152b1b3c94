"""Settings in files: saved ones with fields that have left still load, and `--config` reads any of them."""

from pathlib import Path

import pytest
import yaml

from tests.run_logs import warnings_of
from tests.training.test_run import config_of
from utils import settings
from utils.cli.common import parse
from utils.cli.prepare import PrepareCommand
from utils.cli.train import TrainCommand
from utils.config import TrainConfig
from utils.errors import UserError
from utils.jobs.run_queue import QUEUE_FILE, enqueue, read_queue
from utils.project.paths import Project
from utils.runs.list import changed_settings
from utils.training.train import fine_tune


@pytest.fixture(autouse=True)
def retired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.RETIRED, "warp", 0)


def test_a_retired_setting_warns_unless_it_changed_nothing(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    for value, kept in ((0, {}), (9, {"warp": 9})):
        file.write_text(f"project: a\ntrim_end: true\nwarp: {value}\n", encoding="utf-8")
        config = TrainConfig.load(file)
        assert config == TrainConfig(project="a") and config.retired == kept
        config.save(file)
        assert TrainConfig.load(file).retired == kept


def test_a_run_with_a_retired_setting_resumes_without_it(project: Project) -> None:
    folder = fine_tune(config_of(project, num_epochs=1)).folder
    with (folder / "config.yaml").open("a", encoding="utf-8") as file:
        file.write("warp: 9\n")
    fine_tune(TrainConfig(project=project.name, output=project.output, resume=folder, num_epochs=2))
    warnings = warnings_of(folder)
    assert [message for message in warnings if "warp" in message] == [
        "warp 9 is not a setting any more; the run trains without it"
    ]


def test_a_run_with_a_retired_setting_shows_it(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("project: a\ntrim_end: true\nwarp: 9\nseed: 3\n", encoding="utf-8")
    assert changed_settings(tmp_path) == {"seed": 3, "warp": 9}


def test_a_queued_run_with_a_retired_setting_loads(tmp_path: Path) -> None:
    project = Project(name="a", output=tmp_path)
    project.folder.mkdir(parents=True)
    enqueue(project, TrainConfig(project="a", output=tmp_path))
    file = project.folder / QUEUE_FILE
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('"num_epochs"', '"warp": 9, "num_epochs"'), encoding="utf-8")
    (run,) = read_queue(project)
    assert run.fault == "" and run.config.retired == {"warp": 9}


def test_flags_override_a_config_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("batch_size: 3\nsdpa: false\ntrain_csv: a.csv\n", encoding="utf-8")
    command = parse(TrainCommand, None, ["--config", str(file), "--project", "a", "--batch-size", "5"])
    assert command.settings_of(TrainConfig) == TrainConfig(
        project="a", batch_size=5, sdpa=False, train_csv=Path("a.csv")
    )
    with pytest.raises(SystemExit):
        parse(TrainCommand, None, [f"--config={file}"])  # no project


def test_a_runs_own_settings_are_a_config_file(tmp_path: Path) -> None:
    folder = tmp_path / "20260101-1"
    folder.mkdir()
    TrainConfig(project="a", num_epochs=7, run_id=folder.name).save(folder / "config.yaml")
    command = parse(TrainCommand, None, ["--config", str(folder / "config.yaml")])
    assert command.settings_of(TrainConfig) == TrainConfig(project="a", num_epochs=7)


def test_config_files_work_for_preparation(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump({"input": "in", "also": ["more"], "shortest": 1.5}), encoding="utf-8")
    command = parse(PrepareCommand, None, ["--config", str(file), "--project", "a", "--language", "en"])
    assert (command.input, command.also, command.shortest) == (Path("in"), (Path("more"),), 1.5)


def test_a_config_file_writes_numbers_as_people_do(tmp_path: Path) -> None:
    # YAML 1.1 reads a power of ten without a point as text.
    (tmp_path / "a.yaml").write_text("learning_rate: 5e-6\nmax_hours: 2\nproject: 1e5\n", encoding="utf-8")
    command = parse(TrainCommand, None, ["--config", str(tmp_path / "a.yaml")])
    assert (command.learning_rate, command.max_hours, command.project) == (5e-6, 2, "1e5")


def test_a_config_file_in_json_may_have_comments(tmp_path: Path) -> None:
    text = '{\n\t"sample_text": "One // \\"two\\"", // of each epoch\n\t"seed": 3 // a number\n}'
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    command = parse(TrainCommand, None, ["--config", str(tmp_path / "a.json"), "--project", "a"])
    assert (command.sample_text, command.seed) == ('One // "two"', 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batch_sise: 3", "unknown settings: batch_sise(.|\n)*did you mean batch_size"),
        ("batch_size: four", "batch_size is 'four'; use a whole number"),
        ("learning_rate: fast", "learning_rate is 'fast'; use a number"),
        ("seed: 1e5", "seed is '1e5'; use a whole number"),
        ("sdpa: perhaps", "sdpa is 'perhaps'; use True or False"),
        ("output: 7", "output is 7; use a path"),
        ("- 1", "not a TrainCommand file"),
    ],
)
def test_faults_of_a_config_file_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        parse(TrainCommand, None, ["--project", "a", "--config", str(tmp_path / "bad.yaml")])
