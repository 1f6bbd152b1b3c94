"""A form's values become settings: all faults are reported together, and numbers are read as people write them."""

import pytest

from utils.config import TrainConfig
from utils.errors import UserError
from webui.fields import Field, fields_of
from webui.forms import number_text, parse, settings, shown

TRAIN = fields_of(TrainConfig)


@pytest.mark.parametrize("written", ["5e-6", "5E-06", "0.000005", " 5e−6 ", "5e–6", 5e-6, "0,000005"])
def test_a_learning_rate_is_read_however_it_is_written(written):
    assert parse(TRAIN["learning_rate"], written) == pytest.approx(5e-6)


@pytest.mark.parametrize("number", [5e-6, 3e-3, 0.1, 1.0, 12345.0, 1e-2, 0.0, 2.5e-7])
def test_a_number_is_shown_as_it_can_be_read_again(number):
    assert parse(TRAIN["weight_decay"], number_text(number)) == number


def test_small_numbers_are_shown_in_powers_of_ten():
    assert number_text(5e-6) == "5e-6"
    assert number_text(0.01) == "0.01"


def test_an_empty_field_is_left_to_the_base():
    config = settings(TrainConfig, {"learning_rate": "", "num_epochs": None}, where="form", project="p")
    assert config == TrainConfig(project="p")


def test_a_field_that_may_be_open_can_be_emptied():
    field = Field(name="x", kind="float", choices=(), default=-23.0, may_be_open=True)
    assert parse(field, "") is None
    assert parse(field, None) == -23.0
    assert parse(field, "-20") == -20.0


def test_seconds_become_samples_and_come_back():
    field = TRAIN["max_audio_length"]
    assert parse(field, "11.6") == 255_780
    assert shown(field, 255_780) == 11.6


def test_all_faults_are_told_together_by_their_labels():
    values = {"learning_rate": "fast", "batch_size": 2.5, "schedule": "zigzag"}
    with pytest.raises(UserError) as fault:
        settings(TrainConfig, values, where="form", project="p")
    assert all(words in str(fault.value) for words in ("Learning rate", "Batch size", "LR schedule", "cosine"))


def test_values_that_can_be_read_but_not_used_are_faults_too():
    with pytest.raises(UserError, match="batch_size is 0"):
        settings(TrainConfig, {"batch_size": 0}, where="form", project="p")


@pytest.mark.parametrize("value", [float("nan"), "inf", "1e999", [1], {"a": 1}, True])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match="Learning rate"):
        parse(TRAIN["learning_rate"], value)


def test_a_form_cannot_set_what_the_page_gives_itself():
    config = settings(TrainConfig, {"project": "other", "nonsense": 1}, where="form", project="p")
    assert config.project == "p"


def test_defaults_survive_the_way_through_the_form():
    values = {name: shown(field, field.default) for name, field in TRAIN.items()}
    values.pop("project")
    assert settings(TrainConfig, values, where="form", project="p") == TrainConfig(project="p")
