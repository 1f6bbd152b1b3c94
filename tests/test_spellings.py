"""Settings as other trainers spell them: what each means in ours, and contradictions that are refused."""

from pathlib import Path

import pytest

from utils import optimizations
from utils.cli.common import parse
from utils.cli.train import TrainCommand
from utils.config import TrainConfig
from utils.errors import UserError
from utils.spellings import translate, translate_words

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
    "--torch_compile_mode reduce-overhead --dtype bfloat16": "--compile reduce-overhead --mixed-precision bf16",
}


@pytest.mark.parametrize(("given", "ours"), WORDS.items(), ids=WORDS)
def test_flags_of_other_trainers_mean_ours(given: str, ours: str) -> None:
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
    ],
)
def test_contradictions_are_refused(words: str) -> None:
    with pytest.raises(UserError, match=r"given twice, differently|--fp16 is 'maybe'"):
        translate_words(words.split())


def test_what_was_given_by_another_name_is_noted() -> None:
    assert translate({"bf16": True, "seed": 3}, where="train_gpt") == (
        {"mixed_precision": "bf16", "seed": 3},
        ["mixed_precision bf16: given as bf16 True"],
    )


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({"fp16": "false"}, {}),
        ({"bf16": "true"}, {"mixed_precision": "bf16"}),
        ({"gradient_checkpointing": "true"}, {"gradient_checkpointing": "full"}),
        ({"gradient_checkpointing": 0}, {"gradient_checkpointing": "none"}),
    ],
)
def test_words_of_configuration_files_mean_what_they_say(given: dict[str, object], ours: dict[str, str]) -> None:
    assert translate(given, where="train_gpt")[0] == ours


@pytest.mark.parametrize(
    ("given", "ours"), [("--no-fp16", ""), ("--no-gradient_checkpointing", "--gradient-checkpointing none")]
)
def test_switches_can_be_put_off(given: str, ours: str) -> None:
    assert translate_words([given])[0] == ours.split()


def test_a_schedule_of_another_name_is_ours_by_our_own_flag_too() -> None:
    assert translate_words(["--schedule", "constant_with_warmup"])[0] == ["--schedule", "constant"]
    assert translate_words(["--schedule=constant_with_warmup"])[0] == ["--schedule=constant"]


@pytest.mark.parametrize("words", ["--fp16 --no-fp16", "--dataloader_prefetch_factor"])
def test_flags_that_say_nothing_clear_are_refused(words: str) -> None:
    with pytest.raises(UserError):
        translate_words(words.split())


def test_arguments_under_the_names_of_a_published_guide() -> None:
    arguments = optimizations.CustomTrainingArguments(
        dataloader_num_workers=4, dataloader_pin_memory=True, gradient_checkpointing=True, bf16=True,
        torch_compile_mode="reduce-overhead", gradient_accumulation_steps=4,
    )  # fmt: skip
    ours = {"num_workers": 4, "pin_memory": True, "gradient_checkpointing": "full", "mixed_precision": "bf16"}
    assert arguments == {**ours, "compile": "reduce-overhead", "grad_accumulation": 4}
    assert TrainConfig(project="a", **arguments).validate(where="test").grad_accumulation == 4
    assert optimizations.log_performance_info.__module__.startswith("utils.performance_utils")


def test_a_settings_file_as_other_trainers_lay_it_out(tmp_path: Path) -> None:
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
