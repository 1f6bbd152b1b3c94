"""A wav is exact to 16 bits, and either whole or absent."""

import errno
from pathlib import Path

import pytest
import soundfile
import torch

from tests.audio.signals import tone
from utils.audio.decode import decode
from utils.audio.write import to_pcm16, write_wav


def test_the_file_is_mono_16_bit_at_the_rate_given(tmp_path):
    write_wav(tmp_path / "a.wav", tone(0.1, 22_050), 22_050)
    info = soundfile.info(tmp_path / "a.wav")
    assert (info.samplerate, info.channels, info.subtype, info.frames) == (22_050, 1, "PCM_16", 2_205)


def test_16_bit_sound_passes_unchanged(tmp_path):
    pcm = torch.arange(-32_768, 32_768, dtype=torch.int32).to(torch.int16)[None]
    write_wav(tmp_path / "a.wav", pcm, 22_050)
    wav, _ = decode(tmp_path / "a.wav")
    assert torch.equal(to_pcm16(wav), pcm)


def test_what_is_too_loud_is_clipped_not_wrapped():
    loud = torch.tensor([[1.5, 1.0, -1.0, -1.5]])
    assert to_pcm16(loud).tolist() == [[32_767, 32_767, -32_768, -32_768]]


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.wav"
    write_wav(path, tone(0.1, 22_050), 22_050)
    before = path.read_bytes()

    def fail(self: Path, content: object) -> int:
        self.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OSError, match="No space left"):
        write_wav(path, tone(0.2, 22_050), 22_050)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.wav"]
