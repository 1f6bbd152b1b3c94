"""The script of CI continues with the tests, and says so, where a system program cannot be installed."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FAILING = "#!/bin/sh\necho E: no network >&2\nexit 100\n"


def program(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(body)
    (folder / name).chmod(0o755)


@pytest.mark.skipif(os.name != "posix", reason="CI runs on Linux")
@pytest.mark.parametrize("user", [0, 1000])
def test_tests_run_whether_or_not_the_browser_can_be_installed(tmp_path: Path, user: int) -> None:
    for name in ("bash", "dirname", "sh"):
        found = next(Path(place) / name for place in ("/usr/bin", "/bin") if (Path(place) / name).exists())
        (tmp_path / name).symlink_to(found)
    program(tmp_path, "apt-get", FAILING)
    program(tmp_path, "id", f"#!/bin/sh\necho {user}\n")
    program(tmp_path, "make", "#!/bin/sh\necho make $*\n")
    command = [str(tmp_path / "bash"), str(ROOT / ".ci" / "run")]
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "NOT INSTALLED" in done.stdout and "chromium" in done.stdout and "espeak-ng" in done.stdout
    # First what must pass on such a machine, then everything.
    assert done.stdout.splitlines()[-2:] == ["make --jobs=2 --output-sync=target lint test-bare", "make test"]
