"""Measure the switches on this machine and these clips: python -m utils.cli.preflight --project NAME --base v2.0.2."""

import sys
from collections.abc import Sequence

from utils.cli import train


def main(args: Sequence[str] | None = None) -> None:
    """`utils.cli.train --preflight`, whose other flags it takes as well."""
    train.main(["--preflight", *(sys.argv[1:] if args is None else args)])


if __name__ == "__main__":
    main()
