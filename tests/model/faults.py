"""What tests of downloads do to a machine: fill its disk, and run a download in a process that can be killed."""

import errno
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

ROOT = Path(__file__).resolve().parents[2]


def full_after(space: int) -> Any:
    """`Path.open` on a disk that has room for `space` bytes in each file received."""
    real_open = Path.open

    def limited_open(path: Path, *arguments: Any, **options: Any) -> Any:
        file = real_open(path, *arguments, **options)
        return LimitedFile(file, space) if path.suffix == ".part" else file

    return limited_open


class LimitedFile:
    """A file whose disk is full after `space` bytes."""

    def __init__(self, file: BinaryIO, space: int) -> None:
        self._file = file
        self._space = space

    def __enter__(self) -> "LimitedFile":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: bytes) -> int:
        if self._file.tell() + len(data) > self._space:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._file.write(data)


def download_in_child(folder: Path) -> "subprocess.Popen[bytes]":
    """Download in a process of its own, which learns of the hub from the environment alone."""
    call = f"download_base('v2.0.2', folder=Path({str(folder)!r}), accept_license=True)"
    code = f"from pathlib import Path; from utils.bases.download import download_base; {call}"
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)


def wait_for(condition: Any, *, timeout_s: float = 15.0) -> Any:
    """The first true value of `condition`."""
    end = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
    return value
