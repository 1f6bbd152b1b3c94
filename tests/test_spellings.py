"""Settings as other trainers spell them: what each means in ours, and contradictions that are refused."""

import pytest

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
