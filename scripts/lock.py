"""Write or check requirements.lock: the exact version of every package that the requirements bring in.

`write` resolves on Python 3.11, the older of the two that are supported, and pins what it finds; `check` resolves the
same pins on the Python that runs it and fails when a package is missing from the lock. Nothing is installed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
REQUIREMENTS = ("requirements.txt", "requirements-dev.txt", "requirements-long.txt")
LOCK_PYTHON = (3, 11)
HEADER = """\
# The exact version of every package that requirements.txt, -dev.txt and -long.txt bring in, on Linux.
# Made by `make lock` from the public package index; do not edit. Use it as a constraints file:
#   pip install -r requirements.txt -c requirements.lock
"""


def resolve(*, constraints: Path | None) -> dict[str, str]:
    """Names and versions of everything pip would install into an empty environment of this Python.

    Args:
        constraints: a file of pins to keep to; None takes the newest versions that fit.

    Raises:
        SystemExit: pip found no solution; its own words are on stderr.
    """
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    for name in REQUIREMENTS:
        command += ["-r", name]
    if constraints is not None:
        command += ["-c", str(constraints)]
    result = subprocess.run(command, cwd=ROOT, env=_plain_pip(), stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"pip could not resolve {', '.join(REQUIREMENTS)} on Python {sys.version.split()[0]}")
    found = [item["metadata"] for item in json.loads(result.stdout)["install"]]
    return {_normal(package["name"]): package["version"] for package in found}


def write() -> None:
    """Resolve afresh and replace requirements.lock."""
    if sys.version_info[:2] != LOCK_PYTHON:
        sys.exit("the lock is made on Python 3.11, so that its versions exist for 3.11 and for 3.12")
    pins = resolve(constraints=None)
    local = [f"{name}=={version}" for name, version in pins.items() if "+" in version]
    if local:
        sys.exit(f"these builds are not on the public index: {', '.join(local)}")
    lines = [f"{name}=={version}\n" for name, version in sorted(pins.items())]
    LOCK.write_text(HEADER + "".join(lines), encoding="utf-8")
    print(f"{LOCK.name}: {len(lines)} packages pinned")


def check() -> None:
    """Fail unless the pins resolve on this Python and the lock names every package at that version."""
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)$", LOCK.read_text(encoding="utf-8"), re.MULTILINE))
    found = resolve(constraints=LOCK)
    strays = [f"{name}=={version}" for name, version in sorted(found.items()) if locked.get(name) != version]
    if strays:
        sys.exit(f"not pinned by {LOCK.name}: {', '.join(strays)}; run: make lock")
    print(f"{LOCK.name}: all {len(found)} packages resolve on Python {sys.version.split()[0]}")


def _plain_pip() -> dict[str, str]:
    """The environment without this machine's own package sources, so that the lock holds nothing private."""
    private = {"PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT", "PIP_PRE"}
    kept = {key: value for key, value in os.environ.items() if key not in private}
    return kept | {"PIP_CONFIG_FILE": os.devnull}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["write", "check"])
    {"write": write, "check": check}[parser.parse_args().action]()
