"""The base's corpus: splits, voices that are kept for reporting, shards that are made once, phonemes by time."""

import json
import random
from collections import Counter
from itertools import islice

import numpy as np
import onnxruntime
import pytest

from recipes.base import corpus, teacher
from recipes.base.corpus import ANCHORS, HELD_OUT, WHISPERER, Clip, speak_shard
from recipes.base.speech import Speech
from recipes.base.teacher import SAMPLE_RATE, Spoken, phonemes, with_output
from recipes.base.texts import SPLITS, Texts, as_sentence, split_of, wordnet_examples

VOICES = [*ANCHORS, *(name for names in HELD_OUT.values() for name in names), WHISPERER, "am_adam", "bf_alice"]
RARE = ("quiet", "little", "yellow", "broken", "famous", "hungry", "modern", "narrow", "polite", "simple")


@pytest.fixture
def words(tmp_path, monkeypatch) -> None:
    """A dictionary, and a WordNet of a thousand examples."""
    rng = random.Random(0)
    (tmp_path / "dict").mkdir()
    (tmp_path / "wordnet").mkdir()
    spelled = sorted({"".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 8))) for _ in range(3000)})
    (tmp_path / "dict" / "american-english-small").write_text("\n".join(spelled), encoding="utf-8")
    glosses = [f'0 n | a thing; "the {" ".join(rng.sample(RARE, 4))} {word} ran away"; "too short"' for word in spelled]
    (tmp_path / "wordnet" / "data.noun").write_text("\n".join(["  1 licence", *glosses]), encoding="utf-8")
    monkeypatch.setenv("XDG_DATA_DIRS", str(tmp_path))


def test_splits_follow_the_letters_alone_and_have_their_shares():
    assert split_of("The Bell, rang!") == split_of("the bell rang")
    shares = Counter(
        split_of(f"sentence {'abcdefghij'[n % 10]} {n:x} {'k' * (n % 97)} {'q' * (n % 89)}") for n in range(8000)
    )
    assert set(shares) == set(SPLITS) and 0.01 < shares["choosing"] / 8000 < 0.03 < 0.94 < shares["training"] / 8000


def test_texts_of_a_split_stay_in_it_and_repeat_with_the_seed(words):
    assert wordnet_examples()[0].startswith("The ") and not any("short" in one for one in wordnet_examples())
    texts = {split: list(islice(Texts(split, 3), 150)) for split in SPLITS}
    assert texts["training"] == list(islice(Texts("training", 3), 150)) != list(islice(Texts("training", 4), 150))
    examples = set(wordnet_examples())
    for split, own in texts.items():
        assert {split_of(one) for one in own if one in examples} == {split}
    assert as_sentence("a dog,") == "A dog." and as_sentence("who?") == "Who?"


@pytest.mark.slow
def test_no_training_clip_has_a_held_out_voice_and_any_beginning_has_the_mix(words):
    sets = corpus.plan(VOICES)
    kept = {name for names in HELD_OUT.values() for name in names}
    assert not kept & {name for clip in sets["training"] for name in clip.voice}
    assert WHISPERER not in {name for clip in sets["training"] for name in clip.voice}
    assert {clip.speaker for clip in sets["fine_tuning"]} == kept
    for split, names in HELD_OUT.items():
        assert {clip.speaker for clip in sets[split]} == {*names, *ANCHORS}
    assert all(sum(clip.voice.values()) == pytest.approx(1) for clip in sets["training"])
    share = [sum(clip.speaker in ANCHORS for clip in sets["training"][:n]) / n for n in (100, len(sets["training"]))]
    assert share[0] == pytest.approx(share[1], abs=0.01)
    assert sets == corpus.plan(VOICES)


class SineTeacher:
    """Speaks each letter as 50 ms of a sine."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def tokens(self, text: str) -> list[int]:
        return [ord(letter) % 50 + 50 for letter in text if letter.isalpha()]

    def speak(self, text: str, voice: dict[str, float]) -> Spoken:
        self.texts.append(text)
        tokens = [0, *self.tokens(text), 0]
        size = 1200 * len(tokens)
        return Spoken(
            samples=np.sin(np.arange(size) / 20).astype(np.float32), tokens=tokens, durations=[2] * len(tokens)
        )


def test_a_shard_holds_each_clip_with_its_phonemes_and_is_read_back(tmp_path):
    clips = [
        Clip(speaker="one", voice={"one": 1.0}, text=text) for text in ("Come here then.", "x" * 300, "Stay here now.")
    ]
    (tmp_path / "corpus").mkdir()
    seconds = speak_shard(SineTeacher(), clips, tmp_path / "corpus" / "training_0000.json")  # type: ignore[arg-type]
    shard = json.loads((tmp_path / "corpus" / "training_0000.json").read_text())
    assert [row["text"] for row in shard["clips"]] == ["Come here then.", "Stay here now."] and len(
        shard["dropped"]
    ) == 1
    speech = Speech(tmp_path, "training")
    assert seconds == pytest.approx(sum(clip.num_samples for clip in speech.clips) / SAMPLE_RATE)
    speak_shard(SineTeacher(), clips[:1], tmp_path / "corpus" / "training_0001.json")  # type: ignore[arg-type]
    speech.refresh()
    assert len(speech) == 3 and speech.by_speaker == {"one": [0, 1, 2]} and speech.clips[2].shard == 1
    second = speech.clips[1]
    wanted = np.sin(np.arange(second.num_samples) / 20)
    assert np.abs(speech.sound(second).numpy() - wanted).max() < 1e-3
    assert speech.sound(second, second.num_samples - 2, 5)[2:].tolist() == [0, 0, 0]
    assert speech.mel(second).shape == (80, second.num_frames)
    found = second.phonemes(0, second.num_frames)
    assert list(dict.fromkeys(found.tolist()))[:3] == list(dict.fromkeys(second.tokens))[:3]
    # Fifty milliseconds are 4.3 frames of 11.6 ms.
    assert (np.bincount(found)[second.tokens[1]] >= 4) and found[0] == 0 and found[-1] == 0


@pytest.mark.slow
def test_a_run_makes_what_is_missing_and_keeps_to_the_first_plan(tmp_path, words, monkeypatch):
    made = SineTeacher()
    monkeypatch.setattr(corpus, "Teacher", lambda voices: made)
    monkeypatch.setattr(corpus, "read_voices", lambda voices: dict.fromkeys(VOICES))
    monkeypatch.setattr(corpus, "CLIPS_PER_SHARD", 100)
    config = corpus.CorpusConfig(work=tmp_path, sets=("choosing",))
    corpus.run(config)
    count = len(made.texts)
    assert count > 50 and len(list((tmp_path / "corpus").glob("choosing_*.flac"))) == 2
    corpus.run(config)
    assert len(made.texts) == count
    before = corpus.read_plan(tmp_path, tmp_path)
    monkeypatch.setattr(corpus, "plan", None)
    assert corpus.read_plan(tmp_path, tmp_path) == before


def test_an_inner_tensor_becomes_an_output():
    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    def value(name: str) -> bytes:
        return field(1, name.encode()) + field(2, field(1, bytes([1 << 3, 7])))

    def node(source: str, result: str) -> bytes:
        return field(1, field(1, source.encode()) + field(2, result.encode()) + field(4, b"Identity"))

    graph = node("x", "y") + node("y", "z") + field(2, b"g") + field(11, value("x")) + field(12, value("z"))
    model = bytes([1 << 3, 8]) + field(7, graph) + field(8, bytes([2 << 3, 13]))
    session = onnxruntime.InferenceSession(with_output(model, "y"), providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_outputs()] == ["z", "y"]
    assert session.run(None, {"x": np.array([3], np.int64)}) == [[3], [3]]


@pytest.mark.programs("espeak-ng")
def test_phonemes_keep_punctuation_and_use_the_teachers_symbols():
    assert phonemes("Nineteen, over it!") == "nˈIntin, ˈOvəɹ ɪt!"


def test_missing_packages_are_named(tmp_path):
    with pytest.raises(teacher.UserError, match="voices are missing"):
        teacher.read_voices(tmp_path / "none.tgz")
