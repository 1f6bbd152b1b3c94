"""Packed recordings are the same sounds, Lhotse reads them, and what a shard cannot hold is refused."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.sounds import speech
from utils.audio.write import write_wav
from utils.config import DATASET_RATE
from utils.dataset.storage import shards
from utils.dataset.storage.manifest import Clip, read_manifest, write_manifest
from utils.dataset.storage.shards import pack
from utils.errors import UserError


def test_without_lhotse_the_package_is_named_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="lhotse, which is not installed") as refused:
        pack({"train": tmp_path / "metadata.csv"}, tmp_path / "shards")
    assert "requirements-shards.txt" in refused.value.fix
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def lhotse():
    return pytest.importorskip("lhotse", reason="not installed: requirements-shards.txt")


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    """Five clips, two of one name, one text with the table's own characters, one with word times."""
    clips = []
    for number, name in enumerate(("a/one", "a/two", "b/one", "b/ድምፅ", "b/x.y")):
        path = tmp_path / f"{name}.wav"
        path.parent.mkdir(exist_ok=True)
        write_wav(path, speech(0.5 + 0.1 * number, seed=number), DATASET_RATE)
        times = (0.0, 0.25) if number == 1 else ()
        clips.append(Clip(audio=path, text=f'"{number}" | it\'s', speaker=f"s{number % 2}", word_times=times))
    write_manifest(tmp_path / "metadata.csv", clips)
    return tmp_path / "metadata.csv"


def test_lhotse_and_the_manifest_give_the_clips_that_were_packed(lhotse, csv: Path) -> None:
    folder = csv.parent / "shards"
    packed = pack({"train": csv}, folder, shard_clips=3)
    assert (packed.clips, packed.shards) == (5, 2)
    clips, wanted = read_manifest(packed.manifests["train"]), read_manifest(csv)
    assert [(clip.text, clip.speaker, clip.word_times) for clip in clips] == [
        (clip.text, clip.speaker, clip.word_times) for clip in wanted
    ]
    assert [clip.audio.name for clip in clips] == ["one.wav", "two.wav", "one-2.wav", "ድምፅ.wav", "x.y.wav"]
    cuts = list(lhotse.CutSet.from_shar(in_dir=folder / "train"))
    for cut, clip in zip(cuts, wanted, strict=True):
        assert (cut.supervisions[0].text, cut.supervisions[0].speaker) == (clip.text, clip.speaker)
        np.testing.assert_array_equal(cut.load_audio()[0], soundfile.read(clip.audio, dtype="float32")[0])


@pytest.mark.parametrize(
    ("rate", "subtype", "said"),
    [(44_100, "PCM_16", "44100 Hz with 1 channels"), (DATASET_RATE, "PCM_24", "finer than 16 bits")],
)
def test_what_a_shard_cannot_hold_is_refused_and_leaves_nothing(lhotse, csv: Path, rate, subtype, said) -> None:
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, 30_000)
    soundfile.write(csv.parent / "a" / "two.wav", noise, rate, subtype=subtype)
    with pytest.raises(UserError, match=f"two.wav .*{said}"):
        pack({"train": csv}, csv.parent / "shards")
    assert {path.name for path in csv.parent.iterdir()} == {"a", "b", "metadata.csv"}


def test_shards_are_not_packed_again(lhotse, csv: Path) -> None:
    packed = pack({"train": csv}, csv.parent / "shards")
    with pytest.raises(UserError, match="in shards already"):
        pack({"train": packed.manifests["train"]}, csv.parent / "again")
