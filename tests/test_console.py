"""Where a message is shown: in the log where logging is set up, on standard output where it is not, never in both."""

import subprocess
import sys

import pytest

SET_UP = {
    "nothing": ("", "out"),
    "a handler alone": ("logging.basicConfig()", "out"),
    "logging of everything": ("logging.basicConfig(level=logging.INFO)", "err"),
    "a handler of our own logger": (
        "logging.getLogger('utils').addHandler(logging.StreamHandler()); logging.getLogger('utils').setLevel('INFO')",
        "err",
    ),
    "silenced": ("logging.basicConfig(); logging.getLogger('utils').setLevel(logging.WARNING)", ""),
}


@pytest.mark.parametrize(("code", "place"), SET_UP.values(), ids=SET_UP)
def test_a_message_is_shown_once(code: str, place: str) -> None:
    program = f"import logging; {code}\nfrom utils.console import say\nsay(logging.getLogger('utils.x'), 'hello')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"out": done.stdout.count("hello"), "err": done.stderr.count("hello")} == {
        "out": int(place == "out"),
        "err": int(place == "err"),
    }
