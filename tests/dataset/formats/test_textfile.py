"""Encodings: recognized by their marks, or named; never guessed."""

from pathlib import Path

import pytest

from utils.dataset.formats.textfile import read_text
from utils.errors import UserError

TEXT = "Grüße, ሰላም።\nשלום\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_unicode_is_recognised(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.txt").write_bytes(TEXT.replace("\n", "\r\n").encode(encoding))
    assert read_text(tmp_path / "a.txt") == TEXT


def test_other_encodings_must_be_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("one\ncafé".encode("latin-1"))
    with pytest.raises(UserError, match="not UTF-8") as caught:
        read_text(tmp_path / "a.txt")
    assert "line 2" in caught.value.where and "--encoding" in caught.value.fix
    assert read_text(tmp_path / "a.txt", other="latin-1") == "one\ncafé"


def test_a_wrong_name_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\n\xff\xfe")
    with pytest.raises(UserError, match="neither UTF-8 nor ascii"):
        read_text(tmp_path / "a.txt", other="ascii")


def test_a_torn_utf16_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("abc".encode("utf-16")[:-1])
    with pytest.raises(UserError, match="not UTF-8"):
        read_text(tmp_path / "a.txt")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_text(tmp_path / "none.txt")
