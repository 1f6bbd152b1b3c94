"""Serve in a container, where running jobs save before it stops: python -m utils.cli.serve python app.py

`docker stop` sends SIGTERM to a container's first process only and kills everything some seconds later; jobs are
processes of their own and would get no signal. This one starts the program it is given, and when it is asked to stop it
asks every running job first, waits until they have saved, and ends the program last.
"""

import argparse
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from utils import jobs
from utils.cli.common import set_up_logging
from utils.errors import UserError

GRACE_S = 100.0
"""Jobs may save for this long: give the container some seconds more (docker stop --time 120)."""
POLL_S = 0.2

log = logging.getLogger("utils.cli.serve")  # Run as a module, __name__ is another one, whose lines are not shown.


def main(args: Sequence[str] | None = None) -> None:
    """Run a program until it ends or this process is asked to stop; exits with the program's status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="folder of all projects; the program's own when not given")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="the program and its flags")
    flags = parser.parse_args(args)
    if not flags.program:
        parser.error("name a program to run, such as: python app.py")
    set_up_logging()
    raise SystemExit(serve(flags.program, flags.output or output_of(flags.program)))


def output_of(program: Sequence[str]) -> Path:
    """The folder of all projects that a program's flags name, or the default."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--output", type=Path, default=Path("output"))
    return Path(parser.parse_known_args(list(program))[0].output)


def serve(program: Sequence[str], output: Path) -> int:
    """Run a program; its exit status, or 143 after SIGTERM.

    Args:
        program: its words; `python` is the interpreter of this process, whatever the search path finds under that name.
        output: folder of all projects, whose jobs are asked to save.
    """
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, note)
    interpreter = [sys.executable] if program[0] == "python" else [program[0]]
    process = subprocess.Popen([*interpreter, *program[1:]])
    while process.poll() is None and not asked:
        time.sleep(POLL_S)
    if not asked:
        return process.wait()
    stop_jobs(output, GRACE_S)
    process.terminate()
    process.wait()
    return 128 + asked[0]


def stop_jobs(output: Path, grace_s: float) -> None:
    """Ask all running jobs to finish their step and save, and wait for them."""
    running = jobs.running(output)
    for job in running:
        if job.state == "stopping":
            continue  # A second stop would end it in the middle of its save.
        try:
            jobs.stop(job.folder, timeout_s=grace_s)
            log.info("%s is saving", job.name)
        except UserError as error:
            log.warning("%s", error)
    deadline = time.monotonic() + grace_s
    for job in running:
        left = max(0.0, deadline - time.monotonic())
        log.info("%s has %s", job.name, jobs.wait(job.folder, left).state)


if __name__ == "__main__":
    main()
