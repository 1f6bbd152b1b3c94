"""python -m utils.cli.voices, and a voice of the library spoken with by its name."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from utils.cli import synthesize, voices

REFERENCE = Path("assets/starter/reference.wav")


def test_voices_are_made_mixed_listed_and_removed(tmp_path, capsys):
    def call(*args: str) -> str:
        voices.main([*args, "--output", str(tmp_path)])
        return capsys.readouterr().out

    assert call("list").startswith("no voices yet; next: python -m utils.cli.voices make")
    call("make", "--name", "anna", "--recordings", str(REFERENCE))
    call("make", "--name", "ben", "--recordings", str(REFERENCE), str(REFERENCE))
    call("mix", "--name", "both", "--voices", "anna:0.7,ben:0.3")
    call("rename", "--name", "both", "--to", "duo")
    assert call("list") == "anna\nben\nduo\n"
    call("remove", "--name", "ben")
    assert call("list") == "anna\nduo\n"
    for wrong in (["remove", "--name", "ben"], ["make", "--name", "a b", "--recordings", str(REFERENCE)]):
        with pytest.raises(SystemExit, match="2"):
            call(*wrong)


@pytest.mark.slow
def test_a_voice_of_the_library_speaks_by_its_name(tmp_path):
    def spoken(name: str, *voice: str) -> np.ndarray:
        out = tmp_path / f"{name}.wav"
        args = ["--model", "tiny", "--text", "Hello.", "--language", "en", "--seed", "1", "--out", str(out)]
        synthesize.main([*args, "--output", str(tmp_path), "--precision", "fp32", *voice])
        return soundfile.read(out)[0]

    voices.main(["make", "--name", "anna", "--recordings", str(REFERENCE), "--output", str(tmp_path)])
    own, by_name = spoken("own"), spoken("named", "--voice", "anna")
    assert np.array_equal(by_name, spoken("file", "--reference", str(tmp_path / ".voices" / "anna.voice")))
    assert not np.array_equal(own, by_name)
    with pytest.raises(SystemExit, match="2"):
        spoken("none", "--voice", "nothing")
    with pytest.raises(SystemExit, match="2"):
        spoken("both", "--voice", "anna", "--reference", str(REFERENCE))
