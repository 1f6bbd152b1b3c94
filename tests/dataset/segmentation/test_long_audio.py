"""Long recordings with subtitles, labels or recognized words: every cue accounted for, cuts only in pauses."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.audio.signals import encode, film
from tests.dataset.recordings import SENTENCE, config, demo_clips
from utils.audio.decode import load_audio
from utils.audio.recognizer import Transcriber, TranscriberSettings
from utils.audio.write import write_wav
from utils.dataset.build import prepare, read_ahead
from utils.dataset.segmentation import long_audio
from utils.dataset.segmentation.cut import CutLengths
from utils.dataset.segmentation.long_audio import LongAudio
from utils.dataset.sources.read import read_sources
from utils.dataset.sources.recording import ReadOptions, Recording
from utils.errors import UserError
from utils.options import DATASET_RATE

COUNT = 12
Talk = tuple[Path, list[tuple[float, float, str]]]
"""A recording, and when each of its sentences is said."""


@pytest.fixture(scope="module")
def talk(tmp_path_factory) -> Talk:
    """A recording of the bundled voice, and when each sentence is said."""
    parts, times, at = [torch.zeros(1, DATASET_RATE // 2)], [], 0.5
    for clip in demo_clips(COUNT):
        wav = load_audio(clip.audio, DATASET_RATE)
        times.append((at, at + wav.shape[1] / DATASET_RATE, clip.text))
        parts += [wav, torch.zeros(1, round(0.4 * DATASET_RATE))]
        at = times[-1][1] + round(0.4 * DATASET_RATE) / DATASET_RATE
    path = tmp_path_factory.mktemp("talk") / "talk.wav"
    write_wav(path, torch.cat(parts, dim=1), DATASET_RATE)
    return path, times


def _clock(seconds: float) -> str:
    ms = max(0, round(seconds * 1_000))
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1_000 % 60:02},{ms % 1_000:03}"


def _srt(times: list[tuple[float, float, str]]) -> str:
    return "\n".join(f"{n}\n{_clock(a)} --> {_clock(b)}\n{text}\n" for n, (a, b, text) in enumerate(times, start=1))


def _reading(tmp_path: Path, whisper: Path | None = None, **more: str) -> ReadOptions:
    transcriber = None
    if whisper:
        settings = TranscriberSettings(
            model=str(whisper), language="en", device="cpu", compute_type="float32", beam_size=1
        )
        transcriber = Transcriber(settings)
    return ReadOptions(
        long_audio=LongAudio(kept=tmp_path / "kept", limits=CutLengths(), transcriber=transcriber, **more)
    )


def _place(talk: Path, folder: Path, *, name: str = "talk.srt", content: str | bytes) -> Path:
    folder.mkdir()
    (folder / "talk.wav").write_bytes(talk.read_bytes())
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def _said(recordings: list[Recording]) -> list[str]:
    return [recording.text for recording in recordings if not recording.fault]


def test_every_cue_is_used_and_every_cut_lies_in_silence(talk, tmp_path):
    audio, times = talk
    # Cues as people make them: a quarter of a second off, with no gaps between.
    loose = [(start - 0.2, end + 0.25, text) for start, end, text in times]
    found = read_sources([_place(audio, tmp_path / "in", content=_srt(loose))], _reading(tmp_path))
    assert " ".join(_said(found)) == " ".join(text for *_, text in times)
    assert found[0].origin.startswith("talk.srt, cue 1 to cue ")
    wav = load_audio(audio, DATASET_RATE)[0]
    for recording in found:
        assert recording.end_s is not None and 2 <= recording.end_s - recording.start_s <= 11
        for edge in (recording.start_s, recording.end_s):
            at = round(edge * DATASET_RATE)
            assert wav[max(0, at - 400) : at + 400].abs().max() < 0.01, f"a cut inside sound at {edge}"


@pytest.mark.parametrize("kind", ["vtt", "labels", "utf-16", "json", "tsv"])
def test_the_same_from_other_files(talk, tmp_path, kind):
    audio, times = talk
    name, content = "talk.srt", _srt(times).encode("utf-16")
    if kind == "vtt":
        lines = [f"{_clock(a)} --> {_clock(b)}\n<v Anna>{text}\n".replace(",", ".", 2) for a, b, text in times]
        name, content = "talk.en.vtt", ("WEBVTT\n\n" + "\n".join(lines)).encode()
    elif kind == "labels":
        name, content = "talk.txt", "".join(f"{a}\t{b}\t{text}\n" for a, b, text in times).encode()
    elif kind == "json":
        segments = [{"start": a, "end": b, "text": f" {text}"} for a, b, text in times]
        name, content = "talk.json", json.dumps({"segments": segments}).encode()
    elif kind == "tsv":
        rows = [f"{round(a * 1_000)}\t{round(b * 1_000)}\t{text}\n" for a, b, text in times]
        name, content = "talk.tsv", ("start\tend\ttext\n" + "".join(rows)).encode()
    folder = _place(audio, tmp_path / "in", name=name, content=content)
    # Of another program: no transcript, and no table.
    (folder / "talk.info.json").write_text('{"title": "Talk", "segments": []}')
    (folder / "spare.tsv").write_text("start\tend\ttext\n0\t900\tHello.\n")
    reading = _reading(tmp_path)
    found = read_sources([folder], reading)
    assert " ".join(_said(found)) == " ".join(text for *_, text in times)
    assert {one.speaker for one in found if not one.fault} == {"Anna" if kind == "vtt" else "speaker"}
    assert [one.audio.name for one in found if one.fault] == ["spare.tsv"]
    assert [Path(file).name for file in reading.ignored] == ["talk.info.json"]


def test_video_zip_clips_and_folder_in_one_call(talk, tmp_path):
    audio, times = talk
    film = _place(audio, tmp_path / "film", content=_srt(times[:4]))
    wav = load_audio(audio, DATASET_RATE)[:, : round((times[3][1] + 0.3) * DATASET_RATE)]
    encode(film / "talk.mp4", wav, DATASET_RATE, codec="aac", container="mp4", video=True)
    (film / "talk.wav").unlink()
    clip, second = demo_clips(COUNT + 2)[COUNT:]
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as file:
        file.write(clip.audio, "voice/wavs/one.flac")
        file.writestr("voice/metadata.jsonl", json.dumps({"audio": "wavs/one.flac", "text": clip.text}))
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs" / "two.flac").write_bytes(second.audio.read_bytes())
    (tmp_path / "pairs" / "two.txt").write_text(second.text)
    settings = config(film, tmp_path / "out", also=(tmp_path / "more.zip", tmp_path / "pairs"), workers=1)  # type: ignore[arg-type]
    report = prepare(settings)
    assert [(clip.name, clip.reason, clip.detail) for clip in report.dropped] == []
    words = " ".join(clip.text for clip in report.clips)
    assert words == " ".join([*(text for *_, text in times[:4]), clip.text, second.text])
    again = prepare(settings)
    assert again.added == 0 and again.unchanged == len(report.used)


def test_rolling_captions_and_sound_descriptions_give_the_words_once(talk, tmp_path):
    audio, times = talk
    rows, before = [], "[Music]"
    for start, end, text in times:
        rows += [(start, end, f"{before}\n{text}"), (end, end + 0.01, f"{text}\n ")]
        before = text
    folder = _place(audio, tmp_path / "in", content=_srt(rows))
    reading = _reading(tmp_path)
    assert " ".join(_said(read_sources([folder], reading))) == " ".join(text for *_, text in times)
    assert reading.notes == ["talk.srt: removed from the subtitles: [Music]"]
    kept = replace(reading, clean_subtitles=False)
    assert _said(read_sources([folder], kept))[0].startswith("[Music]")


@pytest.mark.parametrize(
    ("container", "codec", "delay_s"),
    [("matroska", "aac", 0.7), ("mp4", "aac", -0.05), ("mp4", "aac", 2.5), ("mpegts", "mp2", 0.02)],
)
def test_a_film_whose_sound_begins_late_gives_the_clips_of_the_plain_recording(
    talk, tmp_path, container, codec, delay_s
):
    audio, times = talk
    late, times = max(0.0, delay_s), times[:3]
    wav = load_audio(audio, 24_000)[:, : round((times[-1][1] + 0.3) * 24_000)]
    plain, folder = tmp_path / "plain", tmp_path / "film"
    plain.mkdir()
    folder.mkdir()
    write_wav(plain / "talk.wav", wav, 24_000)
    (plain / "talk.srt").write_text(_srt(times))
    film(folder / "talk.mkv", wav, 24_000, codec=codec, container=container, delay_s=delay_s)
    (folder / "talk.srt").write_text(_srt([(a + late, b + late, text) for a, b, text in times]))
    expected, found = (read_sources([path], _reading(tmp_path / path.name)) for path in (plain, folder))
    assert [clip.text for clip in found] == [clip.text for clip in expected] and not any(clip.fault for clip in found)
    for one, other in zip(found, expected, strict=True):
        assert one.start_s == pytest.approx(other.start_s + late, abs=0.1)
        assert one.end_s == pytest.approx((other.end_s or 0) + late, abs=0.1)
    report = prepare(config(folder, tmp_path / "out", workers=1))
    sounds = [load_audio(tmp_path / "out" / "voice" / "dataset" / clip.clip, 24_000) for clip in report.used]
    for sound, clip in zip(sounds, found, strict=True):
        start = round((clip.start_s - late) * 24_000)
        same = wav[0, max(0, start) : start + sound.shape[1]]
        assert _loudest_at(sound[0]) == pytest.approx(_loudest_at(same) - min(0, start) / 24_000, abs=0.1)


def _loudest_at(samples: torch.Tensor) -> float:
    """Second of the loudest tenth of a second."""
    return int(samples.square().unfold(0, 2_400, 240).mean(dim=1).argmax()) / 100


def test_recognized_words_keep_the_time_of_the_container(talk, tmp_path, whisper):
    wav = load_audio(talk[0], 24_000)[:, : 20 * 24_000]
    write_wav(tmp_path / "talk.wav", wav, 24_000)
    film(tmp_path / "film.mkv", wav, 24_000, codec="aac", container="matroska", delay_s=2.5)
    reading = _reading(tmp_path, whisper)
    expected, found = (read_sources([tmp_path / name], reading) for name in ("talk.wav", "film.mkv"))
    assert found[0].start_s == pytest.approx(expected[0].start_s + 2.5, abs=0.15)


def test_a_recording_without_words_is_reported_or_transcribed(talk, tmp_path, whisper):
    audio, _ = talk
    (found,) = read_sources([audio], _reading(tmp_path))
    assert found.fault and found.fault.reason == "no transcript" and "--transcriber" in found.fault.detail
    transcribed = read_sources([audio], _reading(tmp_path, whisper))
    assert transcribed and all(recording.end_s is not None for recording in transcribed)
    assert set(" ".join(recording.text for recording in transcribed).split()) <= set(SENTENCE)


def test_recognized_words_are_kept_piece_by_piece(talk, tmp_path, whisper, monkeypatch):
    audio, _ = talk
    first = read_sources([audio], _reading(tmp_path, whisper))
    (kept,) = (tmp_path / "kept").glob("words-*.jsonl")
    lines = kept.read_text().split("\n")
    assert sum(bool(line) for line in lines) >= 2, "a recording of more than 28 s has several pieces"
    assert read_sources([audio], _reading(tmp_path, whisper)) == first, "the same words as when it was transcribed"
    # As a kill leaves it: the last piece half written.
    kept.write_text("\n".join(line for line in lines if line)[:-20])
    asked = []
    words = Transcriber.words
    monkeypatch.setattr(Transcriber, "words", lambda self, wav: asked.append(len(wav)) or words(self, wav))
    assert read_sources([audio], _reading(tmp_path, whisper)) == first
    assert len(asked) == 1


def test_read_ahead_leaves_no_slow_work_for_the_reading(talk, tmp_path, whisper, monkeypatch):
    audio, times = talk
    _place(audio, tmp_path / "cues", name="talk.srt", content=_srt(times))
    inputs = [audio, tmp_path / "cues", tmp_path / "missing.wav"]
    expected = read_sources(inputs, _reading(tmp_path / "plain", whisper))
    reading = _reading(tmp_path, whisper)
    read_ahead(inputs, reading, workers=1, engine="local")
    monkeypatch.setattr(Transcriber, "words", None)
    monkeypatch.setattr(long_audio, "find_pauses", None)
    assert read_sources(inputs, reading) == expected


def test_a_recording_in_another_language_is_reported(talk, tmp_path, whisper):
    (found,) = read_sources([talk[0]], _reading(tmp_path, whisper, language="de"))
    assert found.fault and found.fault.reason == "other language" and "'en'" in found.fault.detail


def test_a_plain_transcript_is_aligned_and_none_of_its_words_is_lost(talk, tmp_path, whisper):
    text = "Good morning dear friends! And here is a long passage that was never said."
    found = read_sources([_place(talk[0], tmp_path / "in", name="talk.txt", content=text)], _reading(tmp_path, whisper))
    assert found[-1].fault, "the toy recognizes four words again and again, not this passage"
    said = " ".join(recording.text for recording in found)
    assert all(word in said for word in text.split()), "every word of the transcript is accounted for"


def test_an_unknown_size_and_settings_that_do_not_go_are_reported(whisper):
    for more, match in (({"model": "gigantic"}, "no Whisper model"), ({"compute_type": "odd"}, "cannot be loaded")):
        settings = {"model": str(whisper), "language": "en", "device": "cpu", **more}
        with pytest.raises(UserError, match=match):
            Transcriber(TranscriberSettings(**settings)).words(torch.zeros(16_000).numpy())  # type: ignore[arg-type]


def test_a_recording_that_cannot_be_read_does_not_stop_the_others(talk, tmp_path):
    audio, times = talk
    folder = _place(audio, tmp_path / "in", content=_srt(times[:3]))
    (folder / "bad.wav").write_bytes(b"RIFF\xff\xff\xff\x7fWAVEfmt ")
    (folder / "bad.srt").write_text(_srt(times[:1]))
    (folder / "lonely.vtt").write_text("WEBVTT\n")
    found = read_sources([folder], _reading(tmp_path))
    assert [r.fault.reason for r in found if r.fault] == ["unreadable audio", "no recording"]
    assert len(_said(found)) >= 1
