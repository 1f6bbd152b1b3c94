"""Names of voices that requests bring."""

import unicodedata
from pathlib import Path
from typing import Any, cast

import pytest

from utils.server.talk import Desk
from utils.speech.generation import SpeechRequest
from utils.speech.models import SpeakingModel


class Service:
    """What the desk needs of the service."""

    def __init__(self, output: Path) -> None:
        self.output, self.aliases = output, dict[str, str]()


@pytest.mark.parametrize("name", ["Smith, John", "spk:0", "José"])
def test_a_speaker_may_be_called_as_a_mixture_is(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Names of a dataset's speakers are those of its exported model; macOS sends accents apart from their letters."""
    desk = cast(Any, object.__new__(Desk))
    desk._aliases = {}
    desk.recordings = type("None", (), {"recordings": staticmethod(dict)})
    monkeypatch.setattr("utils.server.talk.model_voices", lambda model: [name])
    request = SpeechRequest(text="Hi.", voice=unicodedata.normalize("NFD", name))
    found, _ = desk._resolved(request, cast(SpeakingModel, None))
    assert found.voice == name
