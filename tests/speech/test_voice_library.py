"""Voices by name: made of recordings, mixed by weight, renamed, deleted; and nothing that only looks like one."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from utils.errors import UserError
from utils.speech.voice_library import MOST_VOICES, VOICE_S, VoiceLibrary, opened

RATE = 22_050


@pytest.fixture
def library(tmp_path) -> VoiceLibrary:
    return VoiceLibrary(tmp_path / "output")


def sound(folder: Path, name: str, *, seconds: float = 1.0, height: float = 0.5) -> Path:
    path = folder / name
    soundfile.write(path, np.sin(np.arange(round(seconds * RATE)) / 20) * height, RATE)
    return path


def weights(library: VoiceLibrary, name: str) -> list[float]:
    with opened(library.get(name).path) as recordings:
        assert all(soundfile.info(path).frames > 0 for path, _ in recordings)
        return [weight for _, weight in recordings]


def test_a_voice_is_made_of_several_recordings_renamed_and_removed(library, tmp_path):
    made = library.make("anna", [sound(tmp_path, "a.wav"), sound(tmp_path, "b.flac", seconds=VOICE_S + 5)])
    with opened(made.path) as recordings:
        assert [(soundfile.info(path).duration, weight) for path, weight in recordings] == [(1, 1), (VOICE_S, 1)]
        assert all(path.is_file() for path, _ in recordings)
        kept = [path for path, _ in recordings]
    assert not any(path.exists() for path in kept), "they are there for as long as they are read"
    assert library.rename("anna", "maria").name == "maria"
    assert [voice.name for voice in library.all()] == ["maria"] and library.find("anna") is None
    assert library.remove("maria") and not library.remove("maria") and library.all() == []


def test_mixtures_weigh_voices_and_mixtures_of_mixtures_their_parts(library, tmp_path):
    library.make("two", [sound(tmp_path, "a.wav"), sound(tmp_path, "b.wav")])
    library.folder.joinpath("ben.wav").write_bytes(sound(tmp_path, "c.wav").read_bytes())  # as the server keeps it
    library.mix("half", "two:0.6, ben:0.4")
    assert weights(library, "half") == pytest.approx([0.3, 0.3, 0.4])
    library.mix("more", "half,ben:3")
    assert weights(library, "more") == pytest.approx([0.3, 0.3, 0.4, 3])
    library.remove("ben")
    assert len(weights(library, "half")) == 3, "a voice is whole by itself"


@pytest.mark.parametrize(
    "name", ["", "..", "../anna", "a/b", "a:b", "a,b", "default", "nul", "x" * 65, "a\0", "anna", "ANNA"]
)
def test_names_that_cannot_be_used_or_are_taken_are_refused(library, tmp_path, name):
    library.make("anna", [sound(tmp_path, "a.wav")])
    before = {path: path.read_bytes() for path in library.folder.iterdir()}
    for attempt in (
        lambda: library.make(name, [sound(tmp_path, "b.wav")]),
        lambda: library.mix(name, "anna"),
        lambda: library.rename("anna", name),
    ):
        with pytest.raises(UserError):
            attempt()
    assert {path: path.read_bytes() for path in library.folder.iterdir()} == before


def test_recordings_that_are_no_voice_are_refused_by_name(library, tmp_path):
    (tmp_path / "text.wav").write_bytes(b"no sound")
    for path, said in (
        (tmp_path / "text.wav", "cannot be read"),
        (tmp_path / "gone.wav", "cannot be read"),
        (sound(tmp_path, "short.wav", seconds=0.2), "lasts 0.20 s"),
        (sound(tmp_path, "silent.wav", height=0), "holds no sound"),
    ):
        with pytest.raises(UserError, match=said) as error:
            library.make("anna", [sound(tmp_path, "a.wav"), path])
        assert error.value.where == path.name
    for number in (0, MOST_VOICES + 1):
        with pytest.raises(UserError, match=f"of {number} recordings"):
            library.make("anna", [sound(tmp_path, "a.wav")] * number)
    assert library.all() == []


@pytest.mark.parametrize("mixture", ["ben", "anna:0", "anna:-1", "anna:nan", "anna:inf", "anna," * 9, "../anna:1"])
def test_mixtures_of_nothing_are_refused(library, tmp_path, mixture):
    library.make("anna", [sound(tmp_path, "a.wav")])
    with pytest.raises(UserError):
        library.mix("new", mixture)
    assert [voice.name for voice in library.all()] == ["anna"]


@pytest.mark.parametrize(
    "index",
    [
        {"parts": []},
        {"parts": [{"file": "../../secret", "weight": 1}]},
        {"parts": [{"file": "1.wav", "weight": "nan"}]},
        {"parts": [{"file": "1.wav"}]},
        {"parts": [{"file": "1.wav", "weight": 1}] * 33},
        [],
    ],
)
def test_a_damaged_voice_is_named(library, index):
    library.folder.mkdir(parents=True)
    path = library.folder / "odd.voice"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("voice.json", json.dumps(index))
        archive.writestr("1.wav", b"")
    with pytest.raises(UserError, match="the voice is damaged"), opened(path):
        pass
    path.write_bytes(b"no zip")
    with pytest.raises(UserError, match="the voice is damaged"), opened(path):
        pass
