"""Names of voices that requests bring."""

import unicodedata

import pytest

from utils.inference.generation import SpeechRequest
from utils.server.api import SpeechApi
from utils.server.loaded import ModelFiles
from utils.server.service import SpeechService
from utils.server.settings import ServerConfig


@pytest.mark.parametrize("name", ["Smith, John", "spk:0", "José"])
def test_a_speaker_may_be_called_as_a_mixture_is(tmp_path, monkeypatch, name):
    """Names of a dataset's speakers are those of its exported model; macOS sends accents apart from their letters."""
    api = SpeechApi(SpeechService(ServerConfig(output=tmp_path)))
    monkeypatch.setattr(ModelFiles, "voices", [name])
    request = SpeechRequest(text="Hi.", voice=unicodedata.normalize("NFD", name))
    assert api._generation(request, "starter").request.voice == name
