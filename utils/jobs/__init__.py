"""Long work in child processes that outlive the process that started them, known only by what they leave on disk.

A job's folder holds config.yaml (its settings), job.json (its process), events.jsonl (what happened) and a log. These
and the process table say how a job is doing: a page, a second page, a restarted server and a shell all see the same.

    job = jobs.start("train", config)          # a child process begins
    jobs.status(job.folder).state              # starting, running, stopping, finished, stopped, failed or lost
    EventLog(job.events).last("step")          # follow it from anywhere
    jobs.stop(job.folder)                      # finish the step, save, end; asked again: end at once
"""

from utils.jobs.child import announce, hold, is_stop_wanted, register
from utils.jobs.start import start
from utils.jobs.stop import STOP_TIMEOUT_S, stop, wait
from utils.runs.list import list_jobs as list
from utils.runs.list import running
from utils.runs.record import LIVE, Job, State, last_write, status, status_or_none

__all__ = [
    "LIVE",
    "STOP_TIMEOUT_S",
    "Job",
    "State",
    "announce",
    "hold",
    "is_stop_wanted",
    "last_write",
    "list",
    "register",
    "running",
    "start",
    "status",
    "status_or_none",
    "stop",
    "wait",
]
