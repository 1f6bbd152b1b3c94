"""What the container runs: the page, with the flags that are given, or another command as it is given."""

import os
import sys

PAGE = ("python", "-m", "utils.cli.serve", "python", "app.py", "--host", "0.0.0.0", "--make-login")
"""Also the Dockerfile's CMD, which `docker run IMAGE --port 8000` replaces."""


def command_of(words: list[str]) -> list[str]:
    """The command: flags alone are the page's.

    Args:
        words: what stands behind the image's name.
    """
    is_for_page = not words or words[0].startswith("-")
    return [*PAGE, *words] if is_for_page else words


if __name__ == "__main__":
    program, *rest = command_of(sys.argv[1:])
    # This interpreter, whatever the search path finds under that name.
    program = sys.executable if program == "python" else program
    os.execvp(program, [program, *rest])
