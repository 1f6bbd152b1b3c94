"""Every format decodes to the same sound, and what is no sound is refused in plain words."""

import socket
import sys
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
import torch
from torch import Tensor

from tests.audio.signals import encode, film, noise_to_signal, silent_film, tone
from utils.audio.container import has_sound
from utils.audio.decode import decode, duration, load_audio, stream
from utils.errors import UserError
from utils.options import DATASET_RATE

RATE = 24_000


@pytest.fixture(scope="module")
def sound() -> Tensor:
    """A rising tone with an envelope, so that a shift or a lost end is seen; [1, T] at `RATE`."""
    time = torch.arange(RATE) / RATE
    envelope = torch.sin(torch.pi * time)
    return (0.6 * envelope * torch.sin(2 * torch.pi * (200 + 300 * time) * time))[None]


@pytest.mark.parametrize(
    ("name", "subtype"),
    [
        ("a.wav", "PCM_16"),
        ("a.wav", "PCM_24"),
        ("a.wav", "PCM_32"),
        ("a.wav", "FLOAT"),
        ("a.flac", "PCM_16"),
        ("a.aiff", "PCM_16"),
    ],
)
def test_lossless_formats_give_the_samples_back(tmp_path, sound, name, subtype):
    soundfile.write(tmp_path / name, sound[0].numpy(), RATE, subtype=subtype)
    wav, rate = decode(tmp_path / name)
    assert (rate, wav.dtype, wav.shape) == (RATE, torch.float32, sound.shape)
    torch.testing.assert_close(wav, sound, atol=1 / 32_768, rtol=0)


@pytest.mark.parametrize(
    ("name", "codec", "container"),
    [
        ("a.mp3", "libmp3lame", "mp3"),
        ("a.opus", "libopus", "ogg"),
        ("a.m4a", "aac", "ipod"),
        ("a.aac", "aac", "adts"),
        ("a.mp4", "aac", "mp4"),
        ("a.webm", "libopus", "webm"),
        ("a.flac", "flac", "flac"),
    ],
)
def test_lossy_formats_sound_the_same(tmp_path, sound, name, codec, container):
    encode(tmp_path / name, sound, RATE, codec=codec, container=container, video=name == "a.mp4")
    wav = load_audio(tmp_path / name, RATE)
    assert abs(wav.shape[1] - RATE) < 0.1 * RATE
    assert noise_to_signal(wav, sound) < 0.02


def test_ogg_vorbis_sounds_the_same(tmp_path, sound):
    soundfile.write(tmp_path / "a.ogg", sound[0].numpy(), RATE, format="OGG", subtype="VORBIS")
    assert noise_to_signal(decode(tmp_path / "a.ogg")[0], sound) < 0.02


@pytest.mark.parametrize("codec", ["pcm_u8", "pcm_s16le", "pcm_s32le", "pcm_f32le", "pcm_f64le"])
def test_sample_types_of_the_second_decoder_have_the_same_scale(tmp_path, sound, codec):
    # Matroska is a container that soundfile cannot read.
    with av.open(str(tmp_path / "a.mkv"), "w", format="matroska") as output:
        stream = output.add_stream(codec, rate=RATE, layout="stereo")
        frame = av.AudioFrame.from_ndarray(torch.cat([sound, sound / 2]).numpy(), format="fltp", layout="stereo")
        frame.sample_rate = RATE
        output.mux([*stream.encode(frame), *stream.encode(None)])
    wav, _ = decode(tmp_path / "a.mkv")
    torch.testing.assert_close(wav, 0.75 * sound, atol=0.01, rtol=0)


def test_channels_are_averaged(tmp_path):
    left, right = tone(0.5, RATE), tone(0.5, RATE, hertz=700)
    soundfile.write(tmp_path / "a.wav", torch.cat([left, right]).T.numpy(), RATE, subtype="FLOAT")
    torch.testing.assert_close(decode(tmp_path / "a.wav")[0], (left + right) / 2)


def test_the_content_decides_not_the_name(tmp_path, sound):
    soundfile.write(tmp_path / "really_flac.wav", sound[0].numpy(), RATE, format="FLAC")
    encode(tmp_path / "really_m4a.wav", sound, RATE, codec="aac", container="ipod")
    soundfile.write(tmp_path / "take.raw", sound[0].numpy(), RATE, format="WAV")
    for name in ("really_flac.wav", "really_m4a.wav", "take.raw"):
        assert decode(tmp_path / name)[1] == RATE


def test_load_audio_resamples(tmp_path):
    soundfile.write(tmp_path / "a.wav", tone(1, 44_100)[0].numpy(), 44_100, subtype="FLOAT")
    wav = load_audio(tmp_path / "a.wav", DATASET_RATE)
    assert wav.shape == (1, DATASET_RATE)
    torch.testing.assert_close(wav[:, 500:-500], tone(1, DATASET_RATE)[:, 500:-500], atol=1e-3, rtol=0)


@pytest.mark.parametrize("name", ["a.wav", "a.m4a"])
def test_decoding_stops_soon_after_the_limit(tmp_path, name):
    long = tone(60, 8_000)
    if name == "a.wav":
        soundfile.write(tmp_path / name, long[0].numpy(), 8_000)
    else:
        encode(tmp_path / name, long, 8_000, codec="aac", container="ipod")
    wav, _ = decode(tmp_path / name, max_seconds=2)
    assert 2 * 8_000 < wav.shape[1] < 12 * 8_000


def _write(path: Path, samples: object, rate: int = RATE) -> Path:
    soundfile.write(path, np.asarray(samples, dtype=np.float32), rate, subtype="FLOAT")
    return path


def _bad_file(kind: str, folder: Path) -> Path:
    path = folder / "a.wav"
    match kind:
        case "a folder":
            path.mkdir()
        case "zero bytes":
            path.touch()
        case "text":
            path.write_text("This is not a recording.\n" * 50)
        case "playlist":
            _write(folder / "secret.wav", np.zeros(RATE))
            path.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{folder / 'secret.wav'}\n#EXT-X-ENDLIST\n")
        case "list of files":
            _write(folder / "secret.wav", np.zeros(RATE))
            path.write_text("ffconcat version 1.0\nfile secret.wav\n")
        case "torn header":
            path.write_bytes(_write(folder / "whole.wav", np.zeros(RATE)).read_bytes()[:30])
        case "no samples":
            _write(path, np.zeros((0,)))
        case "no audio stream":
            silent_film(path)
        case "not a number":
            _write(path, [0.0, float("nan"), 0.0])
        case "infinite":
            _write(path, [0.0, float("inf"), 0.0])
        case "integers stored as floats":
            _write(path, [0.0, 20_000.0, -20_000.0])
        case "10 Hz":
            _write(path, np.zeros(100), 10)
        case "1 MHz":
            _write(path, np.zeros(100), 1_000_000)
        case "32 channels":
            _write(path, np.zeros((100, 32)))
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "does not exist"),
        ("a folder", "is not a file"),
        ("zero bytes", "is empty"),
        ("text", "cannot be read as audio"),
        ("playlist", "cannot be read as audio"),
        ("list of files", "cannot be read as audio"),
        ("torn header", "cannot be read as audio|holds no samples"),
        ("no samples", "holds no samples"),
        ("no audio stream", "has no audio stream"),
        ("not a number", "NaN or infinite"),
        ("infinite", "NaN or infinite"),
        ("integers stored as floats", "up to 20000"),
        ("10 Hz", "sample rate of 10 Hz"),
        ("1 MHz", "sample rate of 1000000 Hz"),
        ("32 channels", "32 channels"),
    ],
)
def test_what_is_no_recording_of_speech_is_refused(tmp_path, kind, message):
    path = _bad_file(kind, tmp_path)
    with pytest.raises(UserError, match=message) as caught:
        decode(path)
    assert caught.value.where == str(path)
    assert caught.value.what.startswith("a.wav ")
    assert caught.value.fix


@pytest.mark.parametrize("ending", ["vox", "gsm", "vox8", "au", "raw"])
def test_text_is_not_taken_for_headerless_telephone_audio(tmp_path, ending):
    (tmp_path / f"a.{ending}").write_text("This is not a recording.\n" * 50)
    with pytest.raises(UserError, match="cannot be read as audio"):
        decode(tmp_path / f"a.{ending}")


def test_a_playlist_in_disguise_opens_no_connection(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/a.ts"
        for name in ("a.wav", "a.mp4", "a.aac"):
            text = f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{address}\n#EXT-X-ENDLIST\n"
            (tmp_path / name).write_text(text)
            with pytest.raises(UserError, match="cannot be read as audio"):
                decode(tmp_path / name)
            with pytest.raises(UserError, match="cannot be read as audio"):
                list(stream(tmp_path / name))
            assert duration(tmp_path / name) is None
        with pytest.raises(BlockingIOError):
            server.accept()


def encoded(path: Path, codec: str, rate: int) -> None:
    """Ten seconds of a tone that rises and falls."""
    at = np.arange(10 * rate) / rate
    samples = (0.3 * np.sin(2 * np.pi * 200 * at) * (0.5 + 0.5 * np.sin(3 * at))).astype(np.float32)
    with av.open(str(path), "w") as file:
        track = file.add_stream(codec, rate=rate, layout="mono")
        frame = av.AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
        frame.sample_rate = rate
        to_format = av.AudioResampler(format=track.format.name, layout="mono", rate=rate)
        for part in [*to_format.resample(frame), *to_format.resample(None)]:
            file.mux(track.encode(part))
        file.mux(track.encode(None))


FORMATS = [("a.m4a", "aac", 22_050), ("a.aac", "aac", 22_050), ("a.webm", "libopus", 48_000)]


@pytest.mark.parametrize(("name", "codec", "rate"), FORMATS, ids=lambda value: str(value))
def test_a_damaged_recording_is_read_around_the_damage_which_is_told(tmp_path, name, codec, rate):
    """Players read such files to their end; they were refused with a number of FFmpeg's."""
    path, lost = tmp_path / name, list[float]()
    encoded(path, codec, rate)
    whole, _ = decode(path, lost_s=lost)
    assert lost == []
    content = bytearray(path.read_bytes())
    noise = np.random.default_rng(0).integers(0, 256, 600, dtype=np.uint8).tobytes()
    content[len(content) // 2 : len(content) // 2 + 600] = noise
    path.write_bytes(content)
    damaged, _ = decode(path, lost_s=lost)
    assert lost and 0 < sum(lost) < 8
    assert damaged.shape[1] / rate + sum(lost) == pytest.approx(10, abs=0.7) or damaged.shape[1] == whole.shape[1]
    assert sum(part.shape[1] for part, _ in stream(path)) == pytest.approx(damaged.shape[1], rel=0.02)


@pytest.mark.skipif(sys.platform == "win32", reason="its C library has no variable for the stream")
def test_damaged_mp3s_are_named_by_us_not_by_the_library(tmp_path, capfd):
    path = tmp_path / "take.mp3"
    soundfile.write(path, 0.3 * np.random.default_rng(0).normal(size=10 * RATE).clip(-3, 3), RATE)
    content, lost = bytearray(path.read_bytes()), list[float]()
    for place in np.random.default_rng(2).integers(4_000, len(content), 20):
        content[place] ^= 0x5A
    for damaged in (content, content[:9_000] + bytes(300) + content[9_000:], content[: len(content) // 2]):
        path.write_bytes(damaged)
        decode(path, lost_s=lost)
        list(stream(path))
        assert lost and has_sound(path) and duration(path)
        lost.clear()
    path.write_bytes(content[:200] + bytes(30_000))
    with pytest.raises(UserError, match=r"take\.mp3"):
        decode(path)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["a.webm", "a.flac"])
def test_what_is_missing_at_the_end_is_told(tmp_path, name):
    path, lost = tmp_path / name, list[float]()
    if name == "a.flac":
        soundfile.write(path, np.random.default_rng(0).normal(0, 0.1, 220_500), 22_050)
    else:
        encoded(path, "libopus", 48_000)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * 0.6)])
    wav, rate = decode(path, lost_s=lost)
    assert wav.shape[1] / rate + sum(lost) == pytest.approx(10, abs=0.3) and sum(lost) > 3
    # Of a part that was read whole nothing is missing.
    assert decode(path, start_s=1, max_seconds=2, lost_s=(part := [])) and part == []


def _onset(wav: Tensor, rate: int) -> float:
    """Second at which the first sound begins."""
    return int((wav[0].abs() > 0.1).int().argmax()) / rate


@pytest.mark.parametrize("delay_s", [0.7, 2.5, -0.05])
@pytest.mark.parametrize(("container", "codec"), [("matroska", "aac"), ("mp4", "aac"), ("mpegts", "mp2")])
def test_a_sound_track_that_begins_late_keeps_the_time_of_its_container(tmp_path, container, codec, delay_s):
    sounds = torch.cat([torch.zeros(1, 48_000), tone(0.5, 48_000), torch.zeros(1, 3 * 48_000), tone(1, 48_000)], dim=1)
    path = film(tmp_path / "film", sounds, 48_000, codec=codec, container=container, delay_s=delay_s)
    late = max(0.0, delay_s)
    whole = torch.cat([part for part, _ in stream(path)], dim=1)
    assert _onset(whole, 48_000) == pytest.approx(1 + late, abs=0.05)
    assert _onset(decode(path)[0], 48_000) == pytest.approx(1 + late, abs=0.05)
    assert _onset(decode(path, start_s=3 + late)[0], 48_000) == pytest.approx(1.5, abs=0.05), "after a jump"
    assert _onset(decode(path, start_s=late + 0.5)[0], 48_000) == pytest.approx(0.5, abs=0.05)
    assert duration(path) == pytest.approx(5.5 + late, abs=0.1)
    assert whole.shape[1] / 48_000 == pytest.approx(5.5 + late, abs=0.1)
    if late > 1:
        assert not decode(path, start_s=0.5, max_seconds=1)[0][:, :48_000].any(), "silent before the track begins"
    lost: list[float] = []
    decode(path, lost_s=lost)
    assert lost == []


@pytest.mark.parametrize("container", ["mp4", "matroska"])
def test_a_gap_in_a_sound_track_is_silence(tmp_path, container):
    path, parts = tmp_path / "muted", list[av.Packet]()
    with av.open(str(path), "w", format=container) as output:
        track = output.add_stream("aac", rate=48_000, layout="mono")
        for index in range(100):
            frame = av.AudioFrame.from_ndarray(tone(1_024 / 48_000, 48_000).numpy(), format="fltp", layout="mono")
            frame.sample_rate, frame.pts = 48_000, index * 1_024
            parts += track.encode(frame)
        for index, packet in enumerate([*parts, *track.encode(None)]):
            # A recorder that sends nothing while the microphone is muted.
            packet.pts = packet.dts = (packet.pts or 0) + 3 * 48_000 * (index > 50)
            output.mux(packet)
    wav, rate = decode(path)
    assert wav.shape[1] / rate == pytest.approx(3 + 102_400 / 48_000, abs=0.1)
    assert wav[:, 2 * rate : 4 * rate].abs().max() < 0.01 and wav[:, -rate // 2 :].abs().max() > 0.3
    start_s = wav.shape[1] / rate - 0.5
    assert decode(path, start_s=start_s)[0].shape[1] / rate == pytest.approx(0.5, abs=0.05)
