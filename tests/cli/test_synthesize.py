"""The command that speaks: it loses no sentence by its defaults, and prints what its guards could not repair."""

import subprocess
import sys
import tempfile

import pytest
import soundfile

from tests.hardware.machines import Answers
from utils.cli import synthesize
from utils.inference import batch, device
from utils.inference.guards import Judgement
from utils.jobs.device import Claim
from utils.runs.process import ProcessId


@pytest.mark.parametrize("seed", ["1", "2"])
def test_two_sentences_keep_both(tmp_path, seed):
    wav = tmp_path / "two.wav"
    text = "Good morning. This is my new voice."
    synthesize.main(["--model", "starter", "--text", text, "--seed", seed, "--out", str(wav)])
    # Joined into one piece, the starter ends after the first sentence: 0.74 s.
    assert soundfile.info(wav).duration > 1.5


def test_sentence_that_fails_its_guard_is_printed(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(batch, "judge", lambda codes, *_, **__: Judgement(faults=("too short",), kept=len(codes)))
    synthesize.main(["--model", "starter", "--text", "One of them. Two.", "--out", str(tmp_path / "short.wav")])
    printed = capfd.readouterr().err
    assert "check this sentence (too short, after 3 attempts): One of them." in printed
    assert "check this sentence (too short, after 3 attempts): Two." in printed


def test_words_of_the_projects_table_are_said_otherwise(tmp_path, capfd):
    (tmp_path / "anna").mkdir()
    (tmp_path / "anna" / "pronunciations.csv").write_text(
        "word,say,language\nDr,Doctor,\nNo,Yes,de\n", encoding="utf-8"
    )
    wavs = [tmp_path / "one.wav", tmp_path / "two.wav"]
    for wav, text in zip(wavs, ("No, Dr.", "No, Doctor."), strict=True):
        flags = ["--model", "tiny", "--language", "en", "--seed", "1", "--speed", "4", "--out", str(wav)]
        synthesize.main([*flags, "--project", "anna", "--output", str(tmp_path), "--text", text])
    assert wavs[0].read_bytes() == wavs[1].read_bytes()
    assert capfd.readouterr().err.count("pronounced: Dr: Doctor") == 1


def test_voice_that_is_missing_is_named(tmp_path, capfd):
    with pytest.raises(SystemExit) as status:
        synthesize.main([*TINY[:2], "--text", "No. [voice: eve] No.", *TINY[4:], str(tmp_path / "none.wav")])
    assert status.value.code == 2 and "there is no voice 'eve'" in capfd.readouterr().err
    assert not (tmp_path / "none.wav").exists()


@pytest.fixture
def old_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU whose driver is too old for the installed PyTorch."""
    answers = Answers()
    answers.values |= {"SystemGetDriverVersion": "550.54.14", "SystemGetCudaDriverVersion_v2": 12_040}
    answers.install(monkeypatch)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


TINY = ("--model", "tiny", "--text", "No.", "--language", "en", "--speed", "4", "--out")


def test_under_an_old_driver_the_cpu_speaks_and_the_reason_is_printed(old_driver, tmp_path, capfd):
    synthesize.main([*TINY, str(tmp_path / "old.wav")])
    assert "computing on the CPU" in capfd.readouterr().err and (tmp_path / "old.wav").is_file()
    with pytest.raises(SystemExit) as status:
        synthesize.main([*TINY, str(tmp_path / "old.wav"), "--device", "cuda"])
    assert status.value.code == 2 and "driver 550.54.14" in capfd.readouterr().err


def test_gpu_of_a_training_is_left_to_it(tmp_path, capfd, monkeypatch):
    Answers().install(monkeypatch)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(device, "settle_device", lambda requested: ("cuda", ""))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as training:
        Claim("cuda:0", tmp_path).give(tmp_path, "train", ProcessId.of(training.pid))
        synthesize.main([*TINY, str(tmp_path / "beside.wav")])
        said = capfd.readouterr().err
        assert "speaking on the CPU: Training is already running: the GPU is in use by the train job" in said
        with pytest.raises(SystemExit, match="2"):
            synthesize.main([*TINY, str(tmp_path / "beside.wav"), "--device", "cuda"])
        training.kill()
