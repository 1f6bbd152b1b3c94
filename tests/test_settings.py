"""Settings in files and as other trainers spell them; saved ones with fields that have left still load."""

import re
from pathlib import Path

import pytest
import yaml

from tests.run_logs import warnings_of
from tests.training.test_run import config_of
from utils import optimizations, settings
from utils.cli import train
from utils.cli.common import parse
from utils.cli.prepare import PrepareCommand
from utils.cli.train import TrainCommand
from utils.config import TrainConfig
from utils.errors import UserError
from utils.jobs.run_queue import QUEUE_FILE, enqueue, read_queue
from utils.project.paths import Project
from utils.runs.list import changed_settings
from utils.spellings import translate, translate_words
from utils.training.train import fine_tune


@pytest.fixture(autouse=True)
def retired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.RETIRED, "warp", 0)


def test_a_retired_setting_warns_unless_it_changed_nothing(tmp_path):
    file = tmp_path / "config.yaml"
    for value, kept in ((0, {}), (9, {"warp": 9})):
        file.write_text(f"project: a\ntrim_end: true\nwarp: {value}\n", encoding="utf-8")
        config = TrainConfig.load(file)
        assert config == TrainConfig(project="a") and config.retired == kept
        config.save(file)
        assert TrainConfig.load(file).retired == kept


def test_a_run_with_a_retired_setting_resumes_without_it(project):
    folder = fine_tune(config_of(project, num_epochs=1)).folder
    with (folder / "config.yaml").open("a", encoding="utf-8") as file:
        file.write("warp: 9\n")
    fine_tune(TrainConfig(project=project.name, output=project.output, resume=folder, num_epochs=2))
    warnings = warnings_of(folder)
    assert [message for message in warnings if "warp" in message] == [
        "warp 9 is not a setting any more; the run trains without it"
    ]


def test_a_run_with_a_retired_setting_shows_it(tmp_path):
    (tmp_path / "config.yaml").write_text("project: a\ntrim_end: true\nwarp: 9\nseed: 3\n", encoding="utf-8")
    assert changed_settings(tmp_path) == {"seed": 3, "warp": 9}


def test_a_queued_run_with_a_retired_setting_loads(tmp_path):
    project = Project(name="a", output=tmp_path)
    project.folder.mkdir(parents=True)
    enqueue(project, TrainConfig(project="a", output=tmp_path))
    file = project.folder / QUEUE_FILE
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('"num_epochs"', '"warp": 9, "num_epochs"'), encoding="utf-8")
    (run,) = read_queue(project)
    assert run.fault == "" and run.config.retired == {"warp": 9}


def test_flags_override_a_config_file(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("batch_size: 3\nsdpa: false\ntrain_csv: a.csv\n", encoding="utf-8")
    command = parse(TrainCommand, None, ["--config", str(file), "--project", "a", "--batch-size", "5"])
    assert command.settings_of(TrainConfig) == TrainConfig(
        project="a", batch_size=5, sdpa=False, train_csv=Path("a.csv")
    )
    with pytest.raises(SystemExit):
        parse(TrainCommand, None, [f"--config={file}"])  # no project


def test_a_runs_own_settings_are_a_config_file(tmp_path):
    folder = tmp_path / "20260101-1"
    folder.mkdir()
    TrainConfig(project="a", num_epochs=7, run_id=folder.name).save(folder / "config.yaml")
    command = parse(TrainCommand, None, ["--config", str(folder / "config.yaml")])
    assert command.settings_of(TrainConfig) == TrainConfig(project="a", num_epochs=7)


def test_config_files_work_for_preparation(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump({"input": "in", "also": ["more"], "shortest": 1.5}), encoding="utf-8")
    command = parse(PrepareCommand, None, ["--config", str(file), "--project", "a", "--language", "en"])
    assert (command.input, command.also, command.shortest) == (Path("in"), (Path("more"),), 1.5)


def test_a_config_file_writes_numbers_as_people_do(tmp_path):
    # YAML 1.1 reads a power of ten without a point as text.
    (tmp_path / "a.yaml").write_text("learning_rate: 5e-6\nmax_hours: 2\nproject: 1e5\n", encoding="utf-8")
    command = parse(TrainCommand, None, ["--config", str(tmp_path / "a.yaml")])
    assert (command.learning_rate, command.max_hours, command.project) == (5e-6, 2, "1e5")


def test_a_config_file_in_json_may_have_comments(tmp_path):
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
        ("- 1", "(?s)not a mapping of settings.*bad.yaml.*NAME: VALUE"),
        ("use_compile: maybe", "(?s)use_compile is 'maybe'.*bad.yaml.*True or False"),
        (
            "batch_size: 2\ntraining: {batch_size: 4}",
            r"(?s)differently: batch_size \(2\) and training: batch_size \(4\).*bad",
        ),
    ],
)
def test_faults_of_a_config_file_are_named(tmp_path, text, message):
    (tmp_path / "bad.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        parse(TrainCommand, None, ["--project", "a", "--config", str(tmp_path / "bad.yaml")])


WORDS = {
    "--fp16": "--mixed-precision fp16",
    "--fp16 True --project x": "--project x --mixed-precision fp16",
    "--bf16=true --fp16 false": "--mixed-precision bf16",
    "--gradient_checkpointing --num-epochs 2": "--num-epochs 2 --gradient-checkpointing full",
    "--gradient_checkpointing False": "--gradient-checkpointing none",
    "--gradient-checkpointing selective": "--gradient-checkpointing selective",
    "--dataloader_num_workers 2 --dataloader-prefetch-factor=4": "--num-workers 2 --prefetch-factor 4",
    "--scheduler constant_with_warmup": "--schedule constant",
    "--eval_batch_size 3 --no-sdpa": "--eval_batch_size 3 --no-sdpa",
    "--num-workers 2 --dataloader_num_workers 2": "--num-workers 2",
    "--model_path voices/one --use_compile": "--base voices/one --compile default",
    "--use_compile --torch_compile_mode reduce-overhead": "--compile reduce-overhead",
    "--torch_compile_mode reduce-overhead --torch-compile": "--compile reduce-overhead",
    "--compile max-autotune --use_compile": "--compile max-autotune",
    "--grad_acumm 2 --enable_mixed_precision --bf16": "--grad-accumulation 2 --mixed-precision bf16",
    "--torch_compile_mode reduce-overhead --dtype bfloat16": "--compile reduce-overhead --mixed-precision bf16",
}


@pytest.mark.parametrize(("given", "ours"), WORDS.items(), ids=WORDS)
def test_flags_of_other_trainers_mean_ours(given, ours):
    assert translate_words(given.split())[0] == ours.split()


@pytest.mark.parametrize(
    "words",
    [
        "--fp16 --bf16",
        "--fp16 --mixed-precision bf16",
        "--bf16 false --mixed-precision bf16",
        "--num-workers 2 --dataloader_num_workers 3",
        "--gradient_checkpointing --gradient-checkpointing none",
        "--fp16 maybe",
        "--use_compile false --torch_compile_mode reduce-overhead",
        "--torch_compile --compile off",
    ],
)
def test_contradictions_are_refused(words):
    with pytest.raises(UserError, match=r"given twice, differently|fp16 is 'maybe'"):
        translate_words(words.split())


def test_what_was_given_by_another_name_is_noted():
    assert translate({"bf16": True, "seed": 3}, where="train_gpt") == (
        {"mixed_precision": "bf16", "seed": 3},
        ["mixed_precision bf16: given as bf16 True"],
    )


def test_the_way_to_be_on_is_noted_and_a_contradiction_has_the_names_that_were_given():
    ours, notes = translate({"torch_compile": True, "torch_compile_mode": "reduce-overhead"}, where="")
    assert ours == {"compile": "reduce-overhead"}
    assert notes == ["compile reduce-overhead: given as torch_compile_mode reduce-overhead"]
    with pytest.raises(UserError, match=r"torch_compile \(False\) and torch_compile_mode \(default\)"):
        translate({"torch_compile": False, "torch_compile_mode": "default"}, where="")


def test_a_value_out_of_its_limits_is_of_the_file_or_the_command_line(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text("batch_size: 0\n", encoding="utf-8")
    for more, where in ((["--config", str(tmp_path / "a.yaml")], r".*/a\.yaml"), (["--batch-size", "0"], "")):
        with pytest.raises(SystemExit):
            train.main(["--project", "a", *more])
        assert re.search(rf"batch_size is 0(.|\n)*where: command line( and {where})?$", capsys.readouterr().err, re.M)
    with pytest.raises(SystemExit):
        train.main(["--project", "a", "--profile", "1000000"])
    assert "profile is 1000000; use 0 (off) to 100" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({"fp16": "false"}, {}),
        ({"bf16": "true"}, {"mixed_precision": "bf16"}),
        ({"gradient_checkpointing": "true"}, {"gradient_checkpointing": "full"}),
        ({"gradient_checkpointing": 0}, {"gradient_checkpointing": "none"}),
    ],
)
def test_words_of_configuration_files_mean_what_they_say(given, ours):
    assert translate(given, where="train_gpt")[0] == ours


@pytest.mark.parametrize(
    ("given", "ours"), [("--no-fp16", ""), ("--no-gradient_checkpointing", "--gradient-checkpointing none")]
)
def test_switches_can_be_put_off(given, ours):
    assert translate_words([given])[0] == ours.split()


def test_a_schedule_of_another_name_is_ours_by_our_own_flag_too():
    assert translate_words(["--schedule", "constant_with_warmup"])[0] == ["--schedule", "constant"]
    assert translate_words(["--schedule=constant_with_warmup"])[0] == ["--schedule=constant"]


@pytest.mark.parametrize("words", ["--fp16 --no-fp16", "--dataloader_prefetch_factor"])
def test_flags_that_say_nothing_clear_are_refused(words):
    with pytest.raises(UserError):
        translate_words(words.split())


def test_arguments_under_the_names_of_a_published_guide():
    arguments = optimizations.CustomTrainingArguments(
        dataloader_num_workers=4, dataloader_pin_memory=True, gradient_checkpointing=True, bf16=True,
        torch_compile_mode="reduce-overhead", gradient_accumulation_steps=4,
    )  # fmt: skip
    ours = {"num_workers": 4, "pin_memory": True, "gradient_checkpointing": "full", "mixed_precision": "bf16"}
    assert arguments == {**ours, "compile": "reduce-overhead", "grad_accumulation": 4}
    assert TrainConfig(project="a", **arguments).validate(where="test").grad_accumulation == 4
    assert optimizations.log_performance_info.__module__.startswith("utils.performance_utils")


def test_a_settings_file_as_other_trainers_lay_it_out(tmp_path):
    path = tmp_path / "train.yaml"
    path.write_text(
        "project: anna\ntraining:\n  dtype: bfloat16\n  batch_size: 4\n  gradient_accumulation_steps: 8\n"
        "  num_workers: 2\n  prefetch_factor: 3\n  use_compile: true\n"
    )
    found = parse(TrainCommand, None, ["--config", str(path), "--num-workers", "1"]).settings_of(TrainConfig)
    assert (found.project, found.mixed_precision, found.batch_size, found.compile) == ("anna", "bf16", 4, "default")
    assert (found.grad_accumulation, found.num_workers, found.prefetch_factor) == (8, 1, 3)
    path.write_text("project: anna\ntraining:\n  dtype: bfloat16\nmixed_precision: fp16\n")
    with pytest.raises(UserError, match="given twice, differently"):
        parse(TrainCommand, None, ["--config", str(path)])
