"""The code cache: right codes, encoded once, never wrong after a kill or a changed file; where clips end."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.clip_tables import cache_codes
from tests.sounds import speech
from utils.audio.write import write_wav
from utils.bases.find import find_base
from utils.config import TrainConfig
from utils.errors import UserError
from utils.model.dvae import build_dvae, load_code_encoder
from utils.model.mel import dvae_mel
from utils.model.weights import read_weights
from utils.training.data.codes import CodeCache, up_to_silence


@pytest.fixture(scope="module")
def base():
    return find_base("tiny")


@pytest.fixture
def clips(tmp_path: Path) -> list[Path]:
    paths = []
    for number, seconds in enumerate([1.0, 2.37, 1.51]):
        paths.append(tmp_path / f"{number}.wav")
        write_wav(paths[-1], speech(seconds, seed=number), 22_050)
    return paths


def test_codes_are_those_of_stocks_dvae(base):
    """Stock's own DiscreteVAE on the same mel; ours has no decoder and pads the clip's end."""
    wav = speech(2.0)
    stock = build_dvae(read_weights(base.dvae)).eval()
    expected = stock.get_codebook_indices(dvae_mel(base.mel_stats())(F.pad(wav, (0, 8_192))))[0]
    codes = load_code_encoder(base.dvae, base.mel_stats())(wav, [wav.shape[1]])[0]
    assert len(codes) == -(-wav.shape[1] // 1024)
    assert codes.tolist() == expected[: len(codes)].tolist()
    assert len(codes.unique()) > 10, "a collapsed codebook would make this test pass for nothing"


def test_a_clip_has_the_same_codes_alone_and_beside_longer_clips(base):
    short, long = speech(1.3, seed=1), speech(4.0, seed=2)
    encoder = load_code_encoder(base.dvae, base.mel_stats())
    alone = encoder(short, [short.shape[1]])[0]
    wavs = torch.cat([F.pad(short, (0, long.shape[1] - short.shape[1])), long])
    beside = encoder(wavs, [short.shape[1], long.shape[1]])[0]
    assert alone.tolist() == beside.tolist()


def test_codes_are_encoded_once(base, clips, tmp_path):
    calls: list[tuple[str, int, int | None]] = []
    first = cache_codes(clips, base, tmp_path / "codes", progress=lambda *args: calls.append(args))
    assert calls[-1] == ("encoding clips", 3, 3)
    calls.clear()
    again = cache_codes(clips, base, tmp_path / "codes", progress=lambda *args: calls.append(args))
    assert calls == []
    assert all((first[clip] == again[clip]).all() for clip in clips)
    assert [len(first[clip]) for clip in clips] == [22, 52, 33]


def test_a_kill_while_writing_loses_only_what_was_being_written(base, clips, tmp_path):
    whole = {clip: codes.tolist() for clip, codes in cache_codes(clips, base, tmp_path / "whole").items()}
    cache_codes(clips[:2], base, tmp_path / "cut")
    folder = next((tmp_path / "cut").glob("*/codes.bin")).parent
    with (folder / "codes.bin").open("ab") as codes:
        codes.write(b"\x01\x02\x03")
    with (folder / "index.jsonl").open("a") as index:
        index.write('{"audio": "0123')
    assert {clip: codes.tolist() for clip, codes in cache_codes(clips, base, tmp_path / "cut").items()} == whole
    assert len(CodeCache(folder).index) == 3


@pytest.mark.parametrize(
    "garbage", [b"\xff\xfe\x80\n", b"[" * 100_000 + b"\n", b'{"audio": "CLIP", "offset": -9, "length": 5}\n']
)
def test_garbage_in_the_index_is_skipped(base, clips, tmp_path, garbage):
    whole = {clip: codes.tolist() for clip, codes in cache_codes(clips, base, tmp_path / "codes").items()}
    index = next((tmp_path / "codes").glob("*/index.jsonl"))
    audio = json.loads(index.read_text().splitlines()[-1])["audio"]
    index.write_bytes(index.read_bytes() + b"\n" + garbage.replace(b"CLIP", audio.encode()))
    assert {clip: codes.tolist() for clip, codes in cache_codes(clips, base, tmp_path / "codes").items()} == whole


def test_codes_that_were_cut_off_are_encoded_again(base, clips, tmp_path):
    whole = {clip: codes.tolist() for clip, codes in cache_codes(clips, base, tmp_path / "codes").items()}
    os.truncate(next((tmp_path / "codes").glob("*/codes.bin")), 10)
    assert {clip: codes.tolist() for clip, codes in cache_codes(clips, base, tmp_path / "codes").items()} == whole


def test_unreadable_clip_is_named(base, tmp_path):
    broken = tmp_path / "broken.wav"
    broken.write_text("this is not sound")
    with pytest.raises(UserError, match=r"broken\.wav"):
        cache_codes([broken], base, tmp_path / "codes")


@pytest.mark.parametrize(
    ("codes", "kept"),
    [([5, 6, 7, 9, 9, 9], 4), ([5, 9, 9, 6, 9], 5), ([5, 6, 7], 3), ([9, 9, 9], 1), ([4], 1)],
)
def test_of_equal_codes_at_the_end_one_is_kept(codes, kept):
    assert up_to_silence(np.array(codes, dtype=np.int16)).tolist() == codes[:kept]


@pytest.mark.parametrize(("saved", "resumed"), [("own", "own_masked"), (None, "own_masked"), ("other", "other")])
def test_a_run_of_an_earlier_version_keeps_its_conditioning_and_its_silence(tmp_path, saved, resumed):
    settings = TrainConfig(project="voice", conditioning=saved)
    settings.save(tmp_path / "config.yaml")
    now = TrainConfig.load(tmp_path / "config.yaml")
    assert (now.conditioning, now.trim_end) == (saved, True)
    earlier = {name: value for name, value in settings.plain().items() if name != "trim_end"}
    then = TrainConfig.from_saved(earlier, where="config.yaml")
    assert (then.conditioning, then.trim_end) == (resumed, False)
