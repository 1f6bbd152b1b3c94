"""Lengths come from file headers and the base's tokenizer, and limits follow from them within what the base takes."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from utils.bases.base import Base
from utils.bases.find import find_base
from utils.dataset.storage.manifest import Clip, write_manifest
from utils.errors import UserError
from utils.language import lengths
from utils.language.lengths import LengthReport, measure_lengths, percentile, round_up
from utils.options import DATASET_RATE


@pytest.fixture(scope="module")
def base() -> Base:
    return find_base("tiny")


def make_table(folder: Path, clips: dict[str, tuple[int, int, str]]) -> Path:
    """A table of silent recordings: name -> (samples, sample rate, text)."""
    for name, (num_samples, rate, _) in clips.items():
        soundfile.write(folder / name, np.zeros(num_samples, dtype=np.int16), rate)
    write_manifest(
        folder / "metadata.csv",
        [Clip(audio=folder / name, text=text, speaker="one") for name, (_, _, text) in clips.items()],
    )
    return folder / "metadata.csv"


def make_report(samples: list[int], tokens: list[int] | None = None) -> LengthReport:
    return LengthReport(
        samples=np.array(samples), tokens=np.array(tokens or [1] * len(samples)), max_samples=618_496, max_tokens=402
    )


def test_lengths_are_those_that_training_sees(tmp_path, base):
    table = make_table(
        tmp_path,
        {
            "native.wav": (22_050, DATASET_RATE, "Hi."),
            "studio.flac": (96_000, 48_000, "Hello there."),
            "odd.wav": (12_345, 16_000, "Good morning."),
        },
    )
    counted: list[tuple[int, int]] = []
    report = measure_lengths(table, base, "en", progress=lambda _, *done: counted.append(done))
    assert report.samples.tolist() == [22_050, 44_100, 17_013]
    assert report.num_codes.tolist() == [22, 44, 17]
    assert report.tokens.tolist() == [
        len(base.tokenizer().encode(text, "en")) for text in ("Hi.", "Hello there.", "Good morning.")
    ]
    assert report.seconds[0] == 1.0
    assert counted == [(1, 3), (2, 3), (3, 3)]
    shape = base.gpt_shape()
    assert (report.max_samples, report.max_tokens) == ((shape.max_audio_tokens - 1) * 1_024, shape.max_text_tokens)


def test_the_sound_itself_is_not_read(tmp_path, base, monkeypatch):
    def fail(*_: object) -> None:
        raise AssertionError("decoded")

    table = make_table(tmp_path, {"a.wav": (30_000, DATASET_RATE, "Hi."), "b.flac": (30_000, DATASET_RATE, "Hi.")})
    monkeypatch.setattr(lengths, "decode", fail)
    monkeypatch.setattr(soundfile, "read", fail)
    assert measure_lengths(table, base, "en").samples.tolist() == [30_000, 30_000]


def test_clips_that_cannot_be_trained_on_are_listed_with_the_reason(tmp_path, base):
    table = make_table(
        tmp_path,
        {
            "good.wav": (30_000, DATASET_RATE, "Hi."),
            "short.wav": (5_000, DATASET_RATE, "Hi."),
            "letters.wav": (30_000, DATASET_RATE, "ሰላም"),
            "gone.wav": (30_000, DATASET_RATE, "Hi."),
            "text.wav": (30_000, DATASET_RATE, "Hi."),
        },
    )
    (tmp_path / "gone.wav").unlink()
    (tmp_path / "text.wav").write_text("I am text. " * 99)
    report = measure_lengths(table, base, "en")
    assert len(report.samples) == len(report.tokens) == 1
    reasons = {drop["clip"]: drop["reason"] for drop in report.dropped}
    assert "0.23 s is shorter than 0.5 s" in reasons["short.wav"]
    assert "the vocabulary lacks" in reasons["letters.wav"]
    assert "does not exist" in reasons["gone.wav"]
    assert "cannot be read as audio" in reasons["text.wav"]


def test_a_table_without_a_usable_clip_is_an_error_with_the_first_reason(tmp_path, base):
    table = make_table(tmp_path, {"short.wav": (100, DATASET_RATE, "Hi.")})
    with pytest.raises(UserError, match=r"no clip can be measured; the first, short.wav: 0.00 s is shorter"):
        measure_lengths(table, base, "en")
    with pytest.raises(UserError, match="cannot read the language 'xx'"):
        measure_lengths(table, base, "xx")


def test_percentiles_are_lengths_that_occur():
    values = np.arange(1, 1_001)
    assert [percentile(values, percent) for percent in (50, 99, 99.5, 100)] == [501, 991, 996, 1_000]
    assert percentile(np.array([7]), 50) == 7


@pytest.mark.parametrize(
    ("value", "multiple", "rounded"), [(1, 256, 256), (256, 256, 256), (257, 256, 512), (9, 8, 16)]
)
def test_rounding_is_up(value, multiple, rounded):
    assert round_up(value, multiple) == rounded


def test_limits_are_the_995th_percentile_rounded_up():
    samples = list(range(100_001, 101_001))
    report = make_report(samples, [20 + number % 100 for number in range(1_000)])
    assert report.max_audio_length == 101_120  # of 100 996, a multiple of 256
    assert report.max_text_length == 120  # of 119, a multiple of 8
    assert report.num_beyond(report.max_audio_length, report.max_text_length) == 0
    assert report.num_beyond(100_901, 118) == 108  # 99 are too long; of the rest, 9 have 119 tokens


def test_a_few_outliers_do_not_set_the_limit():
    report = make_report([100_000] * 999 + [400_000])
    assert report.max_audio_length == 100_096
    assert report.num_beyond(report.max_audio_length, 400) == 1


def test_limits_stay_within_what_the_base_takes():
    report = make_report([700_000, 700_000], [500, 500])
    assert (report.max_audio_length, report.max_text_length) == (618_496, 402)
