"""A recognizer on a GPU whose libraries are missing: CTranslate2 finds out at the first second of speech."""

import ctranslate2
import faster_whisper
import numpy as np
import pytest

from utils.audio.recognizer import Transcriber, TranscriberSettings
from utils.errors import UserError

MISSING = "Library libcublas.so.12 is not found or cannot be loaded"


class Whisper:
    """A model that loads anywhere and recognizes nothing on a GPU."""

    supported_languages = ("en",)
    model = type("Model", (), {"is_multilingual": True})

    def __init__(self, path: str, device: str, compute_type: str, **_: object) -> None:
        self.made = (device, compute_type)

    def transcribe(self, wav: np.ndarray, **_: object) -> tuple[list, object]:
        if self.made[0] != "cpu":
            raise RuntimeError(MISSING)
        return [type("Segment", (), {"text": " Good morning."})], None


@pytest.fixture
def weights(tmp_path, monkeypatch) -> str:
    (tmp_path / "model.bin").touch()
    monkeypatch.setattr(faster_whisper, "WhisperModel", Whisper)
    monkeypatch.setattr(ctranslate2, "get_cuda_device_count", lambda: 1)
    return str(tmp_path)


def test_auto_falls_back_to_the_cpu_with_the_reason(weights, caplog):
    transcriber = Transcriber(TranscriberSettings(model=weights, language="en", compute_type="float16"))
    assert transcriber.load().made == ("cpu", "int8")
    assert "on the CPU" in caplog.text and "libcublas.so.12" in caplog.text
    assert transcriber.transcribe(np.zeros(16_000, np.float32)) == "Good morning."


def test_a_gpu_that_was_asked_for_is_an_error_with_the_fix(weights):
    with pytest.raises(UserError) as error:
        Transcriber(TranscriberSettings(model=weights, language="en", device="cuda")).load()
    assert "libcublas.so.12" in error.value.what and "pip install nvidia-cublas-cu12" in error.value.fix
