"""Run a command where espeak-ng, a browser, the word list and a recognizer are not found, installed or not.

    python3 scripts/without_programs.py COMMAND...

Each folder of PATH that holds one of the programs gives way to a folder of links to all the rest of it. This needs no
root and no namespaces, and nothing that the command starts finds them either.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

PROGRAMS = ("espeak-ng", "espeak", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def environment(scratch: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables with which none of them is found; the word list lies in a folder of XDG_DATA_DIRS.

    Args:
        scratch: an empty folder; gets the links, and must live as long as the variables.
        environ: what PATH is now.
    """
    folders = [Path(folder) for folder in environ.get("PATH", os.defpath).split(os.pathsep)]
    # /bin is often /usr/bin by another name: its links are made once.
    kept = [_without(folder, scratch / folder.resolve().as_posix().strip("/").replace("/", "-")) for folder in folders]
    path = os.pathsep.join(map(str, kept))
    hidden = {"XTTS_STUDIO_CHROMIUM": "", "XTTS_STUDIO_RECOGNIZER": ""}
    return {"PATH": path, "XDG_DATA_DIRS": str(scratch / "nothing"), **hidden}


def _without(folder: Path, links: Path) -> Path:
    """The folder itself where it holds no such program."""
    if not any(os.path.lexists(folder / name) for name in PROGRAMS):
        return folder
    if links.is_dir():
        return links
    links.mkdir()
    for path in folder.iterdir():
        if path.name not in PROGRAMS:
            (links / path.name).symlink_to(path.absolute())
    return links


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(sys.argv[1:], env={**os.environ, **environment(Path(scratch))}, check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
