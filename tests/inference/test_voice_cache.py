"""A recording is read by a model once: the voice is on disk, for every process, as long as its content is the same."""

import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from utils.bases.find import find_base
from utils.inference import engine
from utils.inference.engine import Synthesizer
from utils.inference.model_cache import ModelCache
from utils.inference.voice_cache import VoiceCache
from utils.model.voices import Voice, make_voice

SECOND_PROCESS = """
import sys
from pathlib import Path
from utils.inference import engine
from utils.inference.model_cache import ModelCache
def refuse(*_): raise SystemExit("it was made again")
engine.make_voice = refuse
ModelCache("cpu").load(kind="base", source="tiny").synthesizer.voice(Path(sys.argv[1]))
"""


@pytest.fixture
def recording(demo_clip: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(demo_clip, tmp_path / "anna.wav"))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Voice]:
    """Voices that were made, not read."""
    voices: list[Voice] = []

    def counted(*given: object) -> Voice:
        voices.append(make_voice(*given))
        return voices[-1]

    monkeypatch.setattr(engine, "make_voice", counted)
    return voices


@pytest.fixture
def synthesizer(tmp_path: Path) -> Synthesizer:
    return Synthesizer(find_base("tiny"), voices=VoiceCache(tmp_path / "voices"))


def same(one: Voice, other: Voice) -> bool:
    return torch.equal(one.latents, other.latents) and torch.equal(one.embedding, other.embedding)


def changed(content: bytes, *, at: int) -> bytes:
    """The recording with 0.2 s of silence."""
    return content[:at] + bytes(10_000) + content[at + 10_000 :]


def test_a_second_process_does_not_make_it_again(recording: Path, made: list[Voice]) -> None:
    voice = ModelCache("cpu").load(kind="base", source="tiny").synthesizer.voice(recording)
    copy = Path(shutil.copy(recording, recording.with_name("another name.wav")))
    assert same(ModelCache("cpu").load(kind="base", source="tiny").synthesizer.voice(copy), voice)
    assert len(made) <= 1
    subprocess.run([sys.executable, "-c", SECOND_PROCESS, str(copy)], check=True, timeout=120)


def test_it_is_equal_to_the_bit(recording: Path, synthesizer: Synthesizer, made: list[Voice]) -> None:
    first, second = synthesizer.voice(recording), synthesizer.voice(recording)
    assert len(made) == 1 and same(first, second)
    assert same(Synthesizer(find_base("tiny")).voice(recording), second) and len(made) == 2


def test_a_changed_recording_checkpoint_or_limit_is_another_voice(
    recording: Path, synthesizer: Synthesizer, made: list[Voice], tmp_path: Path
) -> None:
    voice = synthesizer.voice(recording)
    recording.write_bytes(changed(recording.read_bytes(), at=40_000))
    assert not same(synthesizer.voice(recording), voice) and len(made) == 2
    state = synthesizer.gpt.state_dict()
    name = next(name for name in state if name.startswith("conditioning_encoder") and state[name].ndim > 1)
    synthesizer.renew(state | {name: state[name] + 0.01})
    assert not same(synthesizer.voice(recording), made[1]) and len(made) == 3
    # Weights that the voice does not depend on leave it as it is.
    synthesizer.renew(synthesizer.gpt.state_dict() | {"text_head.bias": state["text_head.bias"] + 1})
    synthesizer.voice(recording)
    assert len(made) == 3
    other = Synthesizer(find_base("tiny"), gpt_state=state, voices=VoiceCache(tmp_path / "voices"))
    other.limits = type(other.limits)(max_seconds=2)
    other.voice(recording)
    assert len(made) == 4


def test_a_damaged_file_is_made_anew_and_logged(
    recording: Path, synthesizer: Synthesizer, made: list[Voice], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    voice = synthesizer.voice(recording)
    (path,) = (tmp_path / "voices").iterdir()
    whole = path.read_bytes()
    for damaged in (b"", whole[:100], whole[:-1] + bytes([whole[-1] ^ 1])):
        path.write_bytes(damaged)
        recording.touch()  # what is in memory is not read
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert same(synthesizer.voice(recording), voice)
        assert "is damaged and made anew" in caplog.text
        assert path.read_bytes() == whole
    assert len(made) == 4


def test_those_that_were_not_used_for_longest_make_room(
    recording: Path, made: list[Voice], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "voices"
    synthesizer = Synthesizer(find_base("tiny"), voices=VoiceCache(folder, max_voices=2))
    content = recording.read_bytes()
    for at in (40_000, 50_000, 40_000, 60_000, 40_000):
        recording.write_bytes(changed(content, at=at))
        synthesizer.voice(recording)
    assert len(made) == 3 and len(list(folder.iterdir())) == 2
    shutil.rmtree(folder)
    folder.write_bytes(b"no folder")
    recording.touch()
    with caplog.at_level(logging.WARNING):
        synthesizer.voice(recording)
    assert len(made) == 4 and "cannot be kept" in caplog.text
