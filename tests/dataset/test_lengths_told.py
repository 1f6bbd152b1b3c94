"""A recording that was not decoded has a length, and the clip of a damaged one says so."""

from pathlib import Path

import numpy as np
import pytest

from tests.audio.signals import tone
from tests.audio.test_decode import encoded
from utils.audio.write import write_wav
from utils.dataset.build import prepare
from utils.dataset.settings import PrepareConfig
from utils.dataset.storage.report import Report
from utils.options import DATASET_RATE


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Report:
    folder = tmp_path_factory.mktemp("recordings")
    for name, seconds in (("spoken", 3), ("untold", 4), ("long", 40)):
        write_wav(folder / f"{name}.wav", tone(seconds, DATASET_RATE) * (1 + 0.01 * seconds), DATASET_RATE)
    encoded(folder / "damaged.webm", "libopus", 48_000)
    content = bytearray((folder / "damaged.webm").read_bytes())
    noise = np.random.default_rng(0).integers(0, 256, 600, dtype=np.uint8).tobytes()
    content[len(content) * 3 // 4 : len(content) * 3 // 4 + 600] = noise
    (folder / "damaged.webm").write_bytes(content)
    for name in ("spoken", "long", "damaged"):
        (folder / f"{name}.txt").write_text(f"These are the words of {name}.", encoding="utf-8")
    output = tmp_path_factory.mktemp("output")
    return prepare(PrepareConfig(project="lengths", output=output, input=folder, language="en", base="tiny"))


def clip_of(report: Report, name: str):
    return next(clip for clip in report.clips if Path(clip.source).stem == name)


def test_what_was_not_decoded_has_the_length_of_its_header(report):
    assert clip_of(report, "untold").reason == "no transcript"
    assert clip_of(report, "untold").seconds == pytest.approx(4, abs=0.01)
    assert clip_of(report, "long").status == "dropped" and clip_of(report, "long").seconds == pytest.approx(40, abs=0.1)


def test_a_damaged_recording_is_used_and_flagged_with_what_was_lost(report):
    clip = clip_of(report, "damaged")
    assert clip.status == "used" and clip.measures["lost"] > 0.1
    assert "cannot be decoded" in dict(clip.flags)["damaged"]
    assert "lost" not in clip_of(report, "spoken").measures
