"""The list of commands: python -m utils.cli."""

import ast
from pathlib import Path

from utils.cli.common import error_exits

COMMANDS = (
    "demo prepare train export synthesize speech_server evaluate runs fix voices base language lengths preflight serve"
)
"""In the order in which they are needed; what the page and other commands start (job, rank) is not listed."""


def main() -> None:
    """Print each command with the first line of its module."""
    with error_exits():
        print("Commands, run with python -m; each takes --help:\n")
        for name in COMMANDS.split():
            text = ast.get_docstring(ast.parse(Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")))
            print(f"  utils.cli.{name:14} {(text or '').partition(': python')[0]}".removesuffix("."))


if __name__ == "__main__":
    main()
