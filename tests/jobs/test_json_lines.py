"""A child that answers in JSON lines: what it says comes whole and in order, and it ends when its caller says so."""

import json
import os
import subprocess
import sys
import time

import psutil
import pytest

from tests.jobs.children import eventually, is_running
from utils.jobs import json_lines
from utils.jobs.json_lines import JsonChild
from utils.jobs.replies import Replies

ECHO = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"kind": "echo", "said": json.loads(line)["say"]}), flush=True)
"""
NOISY = """
import sys
print("a library says hello", flush=True)
sys.stdout.write('{"kind": "ste'); sys.stdout.flush()
print('\\n{"kind": "result", "value": 3}', flush=True)
print("out of memory", file=sys.stderr, flush=True)
sys.exit(4)
"""
DEAF_WITH_CHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
print('{"kind": "pid", "pid": %d}' % child.pid, flush=True)
time.sleep(60)
"""


def start(body: str, **options) -> JsonChild:
    return JsonChild([sys.executable, "-S", "-c", body], env=None, **options)


def test_requests_are_answered_and_the_end_of_the_input_ends_the_child():
    child = start(ECHO)
    child.send({"say": "ሰላም"})
    assert next(iter(child)) == {"kind": "echo", "said": "ሰላም"}
    assert list(child.new()) == [] and child.returncode is None
    child.close_input()
    assert list(child) == [] and child.returncode == 0
    with pytest.raises(OSError, match="closed"):
        child.send({"say": "too late"})


def test_torn_lines_and_errors_come_as_text_and_the_last_words_are_kept():
    with start(NOISY, last_words=("result",)) as child:
        said = [message["line"].strip() for message in child]
    assert sorted(said) == ["a library says hello", "out of memory", '{"kind": "ste']
    assert child.last == {"kind": "result", "value": 3} and child.returncode == 4


def test_a_child_that_does_not_listen_is_killed_with_all_that_it_started(monkeypatch):
    monkeypatch.setattr(json_lines, "END_TIMEOUT_S", 0.2)
    child = start(DEAF_WITH_CHILD, stderr=sys.__stderr__.buffer)
    answer = next(iter(child))
    begun = time.monotonic()
    assert child.end() < 0 and time.monotonic() - begun < 10
    eventually(lambda: not is_running(answer["pid"]))


@pytest.mark.skipif(os.name != "posix", reason="looks at process groups")
def test_ctrl_c_in_a_terminal_is_for_the_caller_alone():
    with start(ECHO) as child:
        assert os.getpgid(child.pid) != os.getpgid(0)
        assert psutil.Process(child.pid).ppid() == os.getpid()


def test_a_program_that_is_not_there_is_an_error_of_the_system():
    with pytest.raises(OSError):
        JsonChild(["/nothing/here"], env=None, stderr=subprocess.DEVNULL)  # type: ignore[arg-type]


def test_a_reply_leaves_as_soon_as_it_is_given(tmp_path):
    with (tmp_path / "answers").open("w") as pipe:
        Replies(pipe).send("chunk", id=1)
        assert json.loads((tmp_path / "answers").read_text()) == {"kind": "chunk", "id": 1}
