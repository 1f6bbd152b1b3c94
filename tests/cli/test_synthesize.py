"""The command that speaks: it loses no sentence by its defaults, and prints what its guards could not repair."""

from pathlib import Path

import pytest
import soundfile

from utils.cli import synthesize
from utils.inference import batch
from utils.inference.guards import Judgement


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_two_sentences_keep_both(tmp_path: Path, seed: str) -> None:
    wav = tmp_path / "two.wav"
    text = "Good morning. This is my new voice."
    synthesize.main(["--model", "starter", "--text", text, "--seed", seed, "--out", str(wav)])
    # Joined into one piece, the starter ends after the first sentence: 0.74 s.
    assert soundfile.info(wav).duration > 1.5


def test_sentence_that_fails_its_guard_is_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "judge", lambda codes, *_, **__: Judgement(faults=("too short",), kept=len(codes)))
    synthesize.main(["--model", "starter", "--text", "One of them. Two.", "--out", str(tmp_path / "short.wav")])
    printed = capfd.readouterr().err
    assert "check this sentence (too short, after 3 attempts): One of them." in printed
    assert "check this sentence (too short, after 3 attempts): Two." in printed
