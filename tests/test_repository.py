"""What a clone costs: few bytes, and no file twice."""

import hashlib
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from tests.test_architecture import ROOT

MOST_BYTES = 38_500_000
"""Weights and recordings take 32 MB of it."""
LARGE_BYTES = 100_000


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    """Files that git tracks, as they lie here."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a git checkout")
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"git cannot list the tracked files: {error}")
    # What is removed but not yet committed is still listed.
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_tracked_files_are_small_together(tracked: list[Path]) -> None:
    sizes = {path.relative_to(ROOT).as_posix(): path.stat().st_size for path in tracked}
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:5]
    assert sum(sizes.values()) <= MOST_BYTES, largest


def test_no_large_file_is_there_twice(tracked: list[Path]) -> None:
    found = defaultdict(list)
    for path in tracked:
        if path.stat().st_size > LARGE_BYTES:
            found[hashlib.sha256(path.read_bytes()).hexdigest()].append(path.relative_to(ROOT).as_posix())
    assert [names for names in found.values() if len(names) > 1] == []
