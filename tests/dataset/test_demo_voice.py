"""The bundled voice is what the demo, the tests and the starter recipe take it for."""

import soundfile

from tests.dataset.recordings import DEMO_VOICE, demo_clips
from utils.audio.decode import decode
from utils.options import DATASET_RATE

HELD_OUT = DEMO_VOICE.with_name("demo_heldout.txt").read_text(encoding="utf-8").splitlines()


def test_it_is_about_three_minutes_in_forty_clips():
    clips = demo_clips(100)
    assert len(clips) == 40
    assert {clip.speaker for clip in clips} == {"demo"}
    seconds = [soundfile.info(clip.audio).duration for clip in clips]
    assert 165 < sum(seconds) < 195
    assert min(seconds) > 2 and max(seconds) < 8


def test_its_files_are_small():
    assert sum(path.stat().st_size for path in DEMO_VOICE.rglob("*") if path.is_file()) < 6_000_000


def test_its_clips_are_native_and_neither_faint_nor_clipped():
    for clip in demo_clips(40):
        info = soundfile.info(clip.audio)
        assert (info.samplerate, info.channels, info.format, info.subtype) == (DATASET_RATE, 1, "FLAC", "PCM_16")
        wav, _ = decode(clip.audio)
        assert 0.3 < wav.abs().max() < 0.99
        assert wav[:, -DATASET_RATE // 20 :].abs().max() < 0.003, "the end is cut"


def test_sentences_are_varied_and_none_is_held_out():
    texts = [clip.text for clip in demo_clips(40)]
    assert len(set(texts)) == 40 and len(set(HELD_OUT)) == 30
    assert not set(texts) & set(HELD_OUT)
    assert all(3 <= len(text.split()) <= 18 for text in texts)
    assert not any(char.isdigit() for text in texts for char in text)
