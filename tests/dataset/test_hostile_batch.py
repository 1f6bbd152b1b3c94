"""Whatever lies among good recordings costs only itself: a reason for each in the report, and all others are used."""

import csv
import struct
import subprocess
import sys
import zipfile
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.audio.signals import encode, tone
from tests.dataset.recordings import config, demo_clips, make_source
from utils.dataset.build import prepare
from utils.dataset.storage.report import ClipReport, Report
from utils.options import DATASET_RATE
from utils.project.paths import Project

ROOT = Path(__file__).resolve().parents[2]
TEN_HOURS = 36_000


def _wav(path: Path, samples: object = None, rate: int = DATASET_RATE, subtype: str = "PCM_16") -> Path:
    samples = tone(2, DATASET_RATE, hertz=50 + len(path.name) * 30)[0].numpy() if samples is None else samples
    soundfile.write(path, np.asarray(samples, dtype=np.float32), rate, subtype=subtype)
    return path


def _patched(path: Path, chunk: bytes, offset: int, kind: str, value: int) -> None:
    """A number in a WAV's chunk overwritten."""
    content = bytearray(path.read_bytes())
    struct.pack_into(kind, content, content.index(chunk) + offset, value)
    path.write_bytes(content)


def _bad_audio(folder: Path) -> dict[str, tuple[str, str]]:
    """Recordings that cannot be used, each with its reason and words of the detail."""
    whole = _wav(folder / "whole.wav").read_bytes()
    (folder / "whole.wav").unlink()
    (folder / "empty.wav").touch()
    (folder / "truncated.wav").write_bytes(whole[: len(whole) // 2])
    _patched(_wav(folder / "lies.wav"), b"data", 4, "<I", 10**9)
    _patched(_wav(folder / "0hz.wav"), b"fmt ", 12, "<I", 0)
    _patched(_wav(folder / "codec.wav"), b"fmt ", 8, "<H", 0x1234)
    _wav(folder / "10hz.wav", np.zeros(100), 10)
    _wav(folder / "no_samples.wav", np.zeros(0))
    _wav(folder / "channels.wav", np.zeros((100, 32)))
    _wav(folder / "nan.wav", [0.1, float("nan")] * 20_000, subtype="FLOAT")
    (folder / "playlist.wav").write_text("#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n")
    (folder / "text.mp3").write_text("I am text.\n" * 50)
    with (folder / "zeros.mp3").open("wb") as sparse:
        sparse.truncate(100 * 2**20)
    # As protected music is: the container can be read, what is in it cannot.
    encode(folder / "drm.m4a", tone(2, DATASET_RATE), DATASET_RATE, codec="aac", container="ipod")
    protected = bytearray((folder / "drm.m4a").read_bytes().replace(b"mp4a", b"drms"))
    at = protected.index(b"mdat") + 4
    noise = np.random.default_rng(3).integers(0, 256, 8_000, dtype=np.uint8).tobytes()
    end = min(len(protected), at + len(noise), protected.index(b"moov") - 4)
    protected[at:end] = noise[: end - at]
    (folder / "drm.m4a").write_bytes(protected)
    unreadable = {
        "empty.wav": "is empty",
        "truncated.wav": "is truncated: it contains 50%",
        "lies.wav": "is truncated: it contains 0%",
        "0hz.wav": "0hz.wav",
        "codec.wav": "cannot be read as audio",
        "10hz.wav": "sample rate of 10 Hz",
        "no_samples.wav": "no samples",
        "channels.wav": "32 channels",
        "nan.wav": "NaN",
        "playlist.wav": "cannot be read as audio",
        "text.mp3": "cannot be read as audio",
        "zeros.mp3": "begins with zeros",
        "drm.m4a": "cannot be read as audio",
    }
    return {name: ("unreadable audio", words) for name, words in unreadable.items()}


def _quoted(rows: list[tuple[str, str, str]]) -> str:
    file = StringIO()
    csv.writer(file, delimiter="|").writerows(rows)
    return file.getvalue()


def _dropped(report: Report) -> dict[str, ClipReport]:
    return {clip.name: clip for clip in report.dropped}


def test_a_batch_with_every_kind_of_bad_recording(tmp_path):
    source = make_source(tmp_path / "in", 3)
    expected = _bad_audio(source)
    # Right content under a wrong name is no fault.
    (source / "wrong_ending.mp3").write_bytes(demo_clips(4)[3].audio.read_bytes())
    (source / "broken_link.wav").symlink_to(source / "nowhere.wav")
    with (source / "metadata.csv").open("a", encoding="utf-8") as table:
        table.write(
            _quoted(
                [(name, f"The file {name[:-4]}.".replace("_", " "), "demo") for name in [*expected, "wrong_ending.mp3"]]
            )
        )
        table.write(_quoted([("../../../etc/passwd", "Outside.", "demo")]))
    report = prepare(config(source, tmp_path / "out"))
    found = _dropped(report)
    for name, (reason, words) in expected.items():
        assert found[name].reason == reason and words in found[name].detail, (name, found[name].detail)
    assert found["passwd"].reason == "outside the folder"
    assert found["broken_link.wav"].reason == "missing file" and "link" in found["broken_link.wav"].detail
    assert len(found) == len(expected) + 2
    assert [Path(clip.source).name for clip in report.used] == [
        *(f"demo-{number:02}.flac" for number in (1, 2, 3)),
        "wrong_ending.mp3",
    ]


def test_rows_that_are_damaged_or_huge_cost_only_themselves(tmp_path):
    source = make_source(tmp_path / "in", 6)
    _wav(source / "huge.wav")
    with (source / "metadata.csv").open("a", encoding="utf-8") as table:
        table.write(_quoted([("huge.wav", "word " * 40_000, "demo"), ("x" * 200_000, "A name.", "demo")]))
        table.write("a.wav|NUL \0 here|demo\nb.wav|one|two|three\n")
    report = prepare(config(source, tmp_path / "out"))
    assert len(report.used) == 6
    reasons = [(clip.reason, clip.detail) for clip in report.dropped]
    assert [reason for reason, _ in reasons] == ["text too long", "missing file", "unreadable row", "unreadable row"]
    details = " ".join(detail for _, detail in reasons)
    assert "199999 characters" in details and "200000 characters" in details
    assert "NUL" in details and "line 11: the row has 4 fields" in details
    assert len(report.table()) < 10_000, "a damaged row is shortened"


def test_a_table_that_is_damaged_all_over_is_refused_but_other_inputs_are_read(tmp_path):
    source = make_source(tmp_path / "in", 3)
    (tmp_path / "latin.csv").write_bytes(b"audio_file|text\na.wav|caf\x81\n")
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("a.wav", bytes(30 * 2**20))
    bad = [tmp_path / name for name in ("latin.csv", "bomb.zip", "nothing")]
    report = prepare(config(source, tmp_path / "out", also=tuple(bad)))
    found = _dropped(report)
    assert len(report.used) == 3
    assert {name: clip.reason for name, clip in found.items()} == dict.fromkeys(
        (path.name for path in bad), "unreadable input"
    )
    for path, words in zip(bad, ("not UTF-8", "times its size", "does not exist"), strict=True):
        assert words in found[path.name].detail


def test_right_to_left_and_combining_text_comes_through_as_it_was_written(tmp_path):
    source = make_source(tmp_path / "in", 4)
    # The second as a Mac takes it apart; the third with a mark that changes the direction.
    texts = ["مرحبا بكم في المدينة", "مَرْحَبًا بِكُمْ", "أهلا \u200fوسهلا", "صباح الخير"]
    rows = [(f"wavs/demo-0{n}.flac", text, "demo") for n, text in enumerate(texts, 1)]
    (source / "metadata.csv").write_text("audio_file|text|speaker_name\n" + _quoted(rows), encoding="utf-8")
    report = prepare(config(source, tmp_path / "out", language="ar"))
    assert len(report.clips) == 4
    assert {clip.reason for clip in report.dropped} <= {"unknown characters"}
    assert report.clips[0].text == texts[0] and report.clips[0].status == "used"
    page = Project(name="voice", output=tmp_path / "out").page.read_text(encoding="utf-8")
    assert f"<td dir=auto>{texts[0]}</td>" in page


def _sparse_wav(path: Path, seconds: int, rate: int) -> Path:
    """Silence that takes no room on the disk."""
    size = seconds * rate * 2
    head = struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", size + 36, b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16, b"data", size
    )
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + size)
    return path


def _memory_taken(before: str, work: str, *arguments: Path) -> float:
    """MB that a process takes for some work, beyond what it took before."""
    script = (
        "import resource, sys; from pathlib import Path;"
        "from utils.dataset.build import prepare; from tests.dataset.recordings import config;"
        f"{before}"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        f"{work};"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)"
    )
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.skipif(sys.platform == "win32", reason="memory is limited by the system only on POSIX")
@pytest.mark.slow
@pytest.mark.parametrize("hours", [2, 10])
def test_hours_of_silence_take_no_memory_and_stop_nothing(tmp_path, hours):
    source = make_source(tmp_path / "in", 3)
    _sparse_wav(source / "night.wav", hours * 3_600, 8_000)
    last = f"0{hours - 1}:59:0"
    (source / "night.srt").write_text(
        f"1\n00:00:01,000 --> 00:00:04,000\nThis is not said.\n\n2\n{last}0,000 --> {last}4,000\nNor this.\n"
    )
    _sparse_wav(source / "whole.wav", hours * 3_600, 8_001)
    with (source / "metadata.csv").open("a", encoding="utf-8") as table:
        table.write("whole.wav|Hours in a row.|demo\n")
    small = make_source(tmp_path / "small", 3)
    script = (
        "settings = config(Path(sys.argv[1]), Path(sys.argv[2]), workers=1);"
        "prepare(config(Path(sys.argv[3]), Path(sys.argv[2]), project='small', workers=1));"
    )
    more = _memory_taken(script, "prepare(settings)", source, tmp_path / "out", small)
    # In float32 the two recordings are 230 MB an hour.
    assert more < 200, f"{more} MB more than for three clips"
    report = Report.load(Project(name="voice", output=tmp_path / "out").report)
    assert len(report.used) == 3
    assert {clip.reason for clip in report.dropped} <= {"silent", "too long", "no pause", "bad times"}
    assert {Path(clip.source).name for clip in report.dropped} == {"night.wav", "whole.wav"}


def _night(folder: Path, seconds: int) -> Path:
    """A silent recording beside three clips."""
    folder.mkdir()
    _sparse_wav(folder / "night.wav", seconds, 16_000)
    make_source(folder / "clips", 3)
    return folder


def test_silence_that_a_recogniser_is_given_is_reported(tmp_path):
    # Its weights are not needed: there is no speech.
    (tmp_path / "whisper").mkdir()
    whisper = str(tmp_path / "whisper")
    report = prepare(config(_night(tmp_path / "in", 120), tmp_path / "out", transcriber=whisper, workers=1))
    (night,) = report.dropped
    found = (night.name.split()[0], night.reason, night.detail)
    assert found == ("night.wav", "silent", "Whisper found no speech") and len(report.used) == 3


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="memory is limited by the system only on POSIX")
def test_silence_that_a_recogniser_is_given_takes_no_memory(tmp_path):
    short, long = _night(tmp_path / "short", 120), _night(tmp_path / "long", TEN_HOURS)
    (tmp_path / "whisper").mkdir()
    script = (
        "settings = lambda n: config(Path(sys.argv[n]), Path(sys.argv[3]), transcriber=sys.argv[4],"
        "project=f'p{n}', workers=1);"
        "prepare(settings(1));"
    )
    more = _memory_taken(script, "prepare(settings(2))", short, long, tmp_path / "out", tmp_path / "whisper")
    # In float32 ten hours are 2.3 GB.
    assert more < 150, f"{more} MB more than for two minutes"
