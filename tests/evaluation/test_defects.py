"""Detectors against speech that was spoiled on purpose, and against speech that was not."""

import pytest
import torch

from tests.evaluation.sounds import in_a_room, recording, sentence, words
from utils.evaluation.defects import find_defects, longest_pause, loop_seconds
from utils.evaluation.features import RATE

NUMBERS = range(2, 12)
SILENCE = torch.zeros(1, 2 * RATE)


def test_good_speech_has_no_defect():
    assert {number: find_defects(recording(number), recording(number)) for number in range(1, 41)} == {
        number: [] for number in range(1, 41)
    }
    assert {number: find_defects(in_a_room(recording(number)), recording(number)) for number in NUMBERS} == {
        number: [] for number in NUMBERS
    }


def test_silence():
    assert find_defects(SILENCE, recording(2)) == ["silent", "early_stop"]
    assert "silent" in find_defects(1e-4 * torch.randn(1, 2 * RATE), recording(2))
    assert longest_pause(SILENCE) == 2


def test_a_long_pause_within_speech():
    halves = recording(3).tensor_split(2, dim=1)
    assert "silent" in find_defects(torch.cat([halves[0], SILENCE, halves[1]], dim=1), recording(3))


@pytest.mark.parametrize("number", NUMBERS)
def test_talking_on(number):
    said = torch.cat([recording(number), recording(number + 10)[:, : round(1.4 * RATE)]], dim=1)
    assert "run_on" in find_defects(said, recording(number))


def test_a_model_that_never_ended_ran_on():
    assert find_defects(recording(2), recording(2), finished=False) == ["run_on"]


@pytest.mark.parametrize("number", NUMBERS)
def test_stopping_early(number):
    whole = recording(number)
    defects = find_defects(whole[:, : round(0.6 * whole.shape[1])], whole)
    assert "early_stop" in defects
    assert "run_on" not in defects


@pytest.mark.parametrize("number", [0, 5, 20, 41])
def test_a_looped_word(number):
    looped = torch.cat([sentence([2, 8, 13]), *[words()[number]] * 4, sentence([30, 31])], dim=1)
    assert "loop" in find_defects(looped, looped)
    assert loop_seconds(looped) == pytest.approx(3 * words()[number].shape[1] / RATE, abs=0.3)


def test_a_held_sound_is_a_loop():
    time = torch.arange(2 * RATE) / RATE
    buzz = sum(torch.sin(2 * torch.pi * 150 * harmonic * time) / harmonic for harmonic in range(1, 20))
    held = torch.cat([recording(4), 0.1 * buzz[None]], dim=1)
    assert "loop" in find_defects(held, held)


def test_a_slow_voice_is_judged_by_its_own_pace():
    slow = torch.nn.functional.interpolate(recording(10)[None], scale_factor=1.8, mode="linear")[0]
    assert "run_on" in find_defects(slow, recording(10))
    assert "run_on" not in find_defects(slow, recording(10), pace=1.8)
