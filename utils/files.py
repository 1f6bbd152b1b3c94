"""Files by content: their hash."""

import hashlib
from pathlib import Path


def file_hash(path: Path) -> str:
    """Of a file's bytes, 32 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]
