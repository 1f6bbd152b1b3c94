"""What a preparation accepts is what training trains on: no clip is dropped later, not even one at a limit."""

from pathlib import Path

import pytest
import torch

from tests.dataset.recordings import add_row, config, copy_of_tiny, demo_clips, make_source
from tests.run_logs import events_of
from utils.audio.decode import load_audio
from utils.audio.write import write_wav
from utils.bases.find import find_base
from utils.dataset.build import prepare
from utils.dataset.quality.checks import Checks
from utils.dataset.storage.report import ClipReport
from utils.gpt_train import train_gpt
from utils.options import DATASET_RATE
from utils.project.paths import Project

LIMITS = {"max_audio_length": 110_251, "max_text_length": 60}


def _at_the_limits(folder: Path) -> Path:
    """Clips of the bundled voice, and some exactly at a limit or one sample or token beyond it."""
    source = make_source(folder, 8)
    voice = torch.cat([load_audio(clip.audio, DATASET_RATE) for clip in demo_clips(14)[8:]], dim=1)
    longest = LIMITS["max_audio_length"]
    lengths = {"longest": longest, "longer": longest + 1, "shortest": 11_025, "shorter": 11_024, "odd": 33_333}
    for number, (name, length) in enumerate(lengths.items()):
        write_wav(source / f"{name}.wav", voice[:, number * 5_000 :][:, :length], DATASET_RATE)
        add_row(source, f"{name}.wav", f"The {name} one, $5 & 3 more.")
    checks = Checks.of(config(source, folder, **LIMITS), find_base("tiny"))

    def fits(text: str) -> bool:
        return checks.read(ClipReport(source="a.wav", status="used", text=text))[1] is None

    text = "one"
    while fits(f"{text} one"):
        text += " one"
    while fits(f"{text}x"):
        text += "x"
    for name, words in (("fits", text), ("exceeds", f"{text}x")):
        write_wav(source / f"{name}.wav", voice[:, 50_000 + len(words) :][:, :44_100], DATASET_RATE)
        add_row(source, f"{name}.wav", words)
    return source


@pytest.mark.parametrize("cleaned", [False, True])
def test_training_drops_no_clip_that_was_accepted(tmp_path, cleaned):
    cleaning = {"loudness": -23.0, "trim": True, "remove_dc": True} if cleaned else {}
    base = copy_of_tiny(tmp_path / "base", **LIMITS)
    settings = config(_at_the_limits(tmp_path / "in"), tmp_path / "out", base=str(base), **LIMITS, **cleaning)
    report = prepare(settings)
    project = Project(name="voice", output=tmp_path / "out")
    dropped = {Path(clip.source).stem for clip in report.dropped}
    assert "exceeds" in dropped and "fits" not in dropped
    if not cleaned:
        assert {"longer", "shorter"} <= dropped and not {"longest", "shortest"} & dropped
    csvs = (project.train_csv, project.eval_csv)
    run = train_gpt(base, "tiny", "en", 1, 4, 1, *csvs, project.folder, in_process=True, **LIMITS)
    started = events_of(Path(run.exp_path), "started")[0]
    assert started["dropped"] == []
    assert started["clips"] + started["eval_clips"] == len(report.used)
