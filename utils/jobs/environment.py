"""The environment of a child process: the same utils as here, wherever it is started, and torch's variables."""

import os
import sys
from pathlib import Path

from utils.hardware.environment import TORCH_ENVIRONMENT

ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds utils."""


def child_environment(**changes: str) -> dict[str, str]:
    """Variables of a child that imports what this process imports, and says things when they happen; with `changes`."""
    # A script or a notebook may have put folders on sys.path that no variable names.
    paths = dict.fromkeys([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")]), *filter(None, sys.path)])
    fixed = {
        "PYTHONPATH": os.pathsep.join(paths),
        # `-m` would put the folder it is started in first, where another package may be called utils.
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8",
    }
    return {**TORCH_ENVIRONMENT, **os.environ, **fixed, **changes}
