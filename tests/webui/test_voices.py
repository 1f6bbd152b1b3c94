"""Tab 3, the library of voices, without a page: clips become voices, and voices speak."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from utils.errors import UserError
from utils.project.paths import Project
from utils.speech.voice_library import VoiceLibrary, opened
from webui.handlers import inference, voices
from webui.handlers.speech_form import chosen_voice
from webui.studio import Studio

NAME = {"project.project": "maria"}


@pytest.fixture
def library(project: Project) -> VoiceLibrary:
    """Two clips of the dataset have sound."""
    for name in "ab":
        soundfile.write(project.dataset / "wavs" / f"{name}.wav", np.sin(np.arange(22_050) / 20) / 2, 22_050)
    return VoiceLibrary(project.output)


def make(studio: Studio, name: Any, clips: Any, recording: Any = None) -> dict[str, Any]:
    form = {"inference.voice_name": name, "inference.voice_clips": clips, "inference.recording": recording}
    return voices.make(studio, {**NAME, **form})


def test_clips_become_a_voice_that_speaks_is_mixed_renamed_and_deleted(studio, project, library):
    updates = make(studio, " anna ", ["wavs/a.wav", "wavs/b.wav"])
    assert updates["inference.library_voice"] == {"choices": ["anna"], "value": "anna"}
    make(studio, "ben", [], str(project.dataset / "wavs" / "a.wav"))
    library.mix("both", "anna:0.7, ben:0.3")
    form = {"inference.voice": "library", "inference.library_voice": "both"}
    path, name, speaker = chosen_voice(project, form)
    assert (path, name, speaker) == (library.get("both").path, "both", "")
    with opened(path) as recordings:
        assert [weight for _, weight in recordings] == pytest.approx([0.35, 0.35, 0.3])
    voices.rename(studio, {"inference.kept_voice": "both", "inference.voice_name": "duo"})
    voices.delete(studio, {"inference.kept_voice": "anna"})
    assert [voice.name for voice in library.all()] == ["ben", "duo"]
    with pytest.raises(UserError, match="the library has no voice 'both'"):
        chosen_voice(project, form)


def test_the_field_of_the_library_is_shown_for_its_voices(studio):
    shown = inference.choose_voice(studio, {"inference.voice": "library"})
    assert {key for key, change in shown.items() if change["visible"]} == {"inference.library_box"}
    shown = inference.choose_voice(studio, {"inference.voice": "own"})
    assert not any(change["visible"] for change in shown.values())


@pytest.mark.parametrize(
    ("name", "clips"),
    [
        (None, ["wavs/a.wav"]),
        ("../anna", ["wavs/a.wav"]),
        ("anna", []),
        ("anna", "wavs/a.wav"),
        ("anna", ["../../secret.wav"]),
        ("anna", ["wavs/a.wav", None]),
        ("anna", ["wavs/a.wav"] * 9),
        ("anna", ["wavs/d.wav"]),
    ],
)
def test_what_makes_no_voice_is_refused(studio, library, name, clips):
    with pytest.raises(UserError):
        make(studio, name, clips)
    assert library.all() == []


@pytest.mark.parametrize("value", [None, ["anna"], "../../etc/passwd", "a\0", "none"])
def test_odd_values_of_the_other_buttons_are_refused(studio, project, library, value):
    make(studio, "anna", ["wavs/a.wav"])
    for attempt in (
        lambda: voices.rename(studio, {"inference.kept_voice": value, "inference.voice_name": "new"}),
        lambda: voices.delete(studio, {"inference.kept_voice": value}),
        lambda: chosen_voice(project, {"inference.voice": "library", "inference.library_voice": value}),
    ):
        with pytest.raises(UserError):
            attempt()
    assert [voice.name for voice in library.all()] == ["anna"]
    assert Path(library.get("anna").path).parent == project.output / ".voices"
