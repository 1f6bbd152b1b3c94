"""A container that is stopped lets its jobs save before the server goes."""

import signal
import subprocess
import sys
from pathlib import Path

from tests.jobs.children import POLITE, begun, eventually, started
from utils import jobs
from utils.runs.log import tail

SERVER = "import time\nprint('up', flush=True)\ntime.sleep(60)"


def serving(output: Path, server: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "utils.cli.serve", "--output", str(output), sys.executable, "-S", "-c", server]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_jobs_save_before_the_server_ends(tmp_path):
    job = started(tmp_path, POLITE)
    begun(job)
    server = serving(tmp_path, SERVER)
    assert server.stdout is not None and server.stdout.readline() == "up\n"
    assert jobs.status(job.folder).alive
    server.send_signal(signal.SIGTERM)
    assert server.wait(timeout=60) == 143
    eventually(lambda: jobs.status(job.folder).state == "stopped")
    assert tail(job.events, 1)[0]["kind"] == "stopped"


def test_a_server_that_ends_by_itself_passes_its_status_on(tmp_path):
    job = started(tmp_path, POLITE)
    begun(job)
    assert serving(tmp_path, "raise SystemExit(7)").wait(timeout=60) == 7
    assert jobs.status(job.folder).alive, "only a request to stop stops jobs"
    jobs.stop(job.folder)
    eventually(lambda: not jobs.status(job.folder).alive)
