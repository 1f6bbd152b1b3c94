"""A file is replaced whole or not at all, even if others write it at the same time."""

import errno
import hashlib
from pathlib import Path

import pytest

from utils.files import file_hash, replacing, write_atomic


def test_writers_of_one_file_share_no_temporary_name(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with replacing(path) as first, replacing(path) as second:
        first.write_text("first")
        second.write_text("second")
        assert first != second
    assert path.read_text() == "first", "the last to finish"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("durable", [False, True])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "a.json"
    write_atomic(path, "old", durable=durable)
    with pytest.raises(OSError, match="No space"), replacing(path, durable=durable) as temporary:
        temporary.write_text("half of the n")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_text_is_utf_8_without_changed_line_ends(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", "ሀ\n", durable=True)
    assert (tmp_path / "a").read_bytes() == "ሀ\n".encode()
    assert file_hash(tmp_path / "a") == hashlib.sha256("ሀ\n".encode()).hexdigest()
