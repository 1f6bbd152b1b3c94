"""Gates: a recognizer judges plain sentences of the base's own voices, beside the recordings."""

import json

import pytest
import torch

from recipes.base import words
from recipes.base.corpus import ANCHORS, Clip, speak_shard
from recipes.base.stage import StageConfig
from recipes.base.words import judge
from tests.recipes.base.test_corpus import SineTeacher
from utils.evaluation.recognition import Recognizer

TEXTS = ("The quiet dog ran home.", "A yellow bird sang loudly.", "Zebra.")


@pytest.mark.slow
def test_a_gate_counts_wrong_words_of_plain_sentences_beside_the_recordings(tmp_path, monkeypatch):
    (tmp_path / "corpus").mkdir()
    clips = [Clip(speaker=name, voice={name: 1.0}, text=text) for name in (ANCHORS[0], "am_liam") for text in TEXTS]
    speak_shard(SineTeacher(), clips, tmp_path / "corpus" / "choosing_0000.json")  # type: ignore[arg-type]
    monkeypatch.setattr(words, "wordnet_examples", lambda: list(TEXTS[:2]))

    def hear(wav: torch.Tensor) -> str:
        """Silence is not understood; the teacher's length tells its sentence."""
        letters = [sum(map(str.isalpha, text)) for text in TEXTS]
        spoken = [text for text, size in zip(TEXTS, letters, strict=True) if wav.shape[1] == 800 * (size + 2)]
        return spoken[0] if wav.abs().max() > 0.1 else ""

    monkeypatch.setattr(words, "find_recognizer", lambda *_: Recognizer(name="known", language="en", hear=hear))

    def make(speech, clip) -> torch.Tensor:
        return speech.sound(clip)[None] * (clip.text != TEXTS[1])

    judged = judge(StageConfig(work=tmp_path), "vocoder", make)
    assert judged.sentences == 2 and judged.recordings == {"wer": 0.0, "cer": 0.0}
    assert judged.made["wer"] == pytest.approx(5 / 10)
    gate = json.loads((tmp_path / "vocoder" / "gate.json").read_text())
    assert (
        gate["texts"] == [[TEXTS[0], TEXTS[0]], [TEXTS[1], ""]] and len(list((tmp_path / "vocoder").glob("*.wav"))) == 2
    )
