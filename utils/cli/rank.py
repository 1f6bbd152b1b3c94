"""One of the processes that share a training: python -m utils.cli.rank SETTINGS; torch's launcher starts it.

It is started for `--processes`; other launchers start `utils.cli.train` itself.
"""

import json
import logging
import os
import sys
from functools import partial
from pathlib import Path

import tyro

from utils.cli.common import run_function
from utils.config import TrainConfig
from utils.jobs.child import EXIT_BASE
from utils.training.distributed import STATUS_FILE


def run_rank(settings: tyro.conf.Positional[Path], job: Path | None = None) -> None:
    """Train with saved settings, as one of several processes.

    Args:
        settings: file with the settings.
        job: folder of the job that the first process reports to.
    """
    # Imported late: both load what only the one of them needs.
    from utils.cli.job import ProgressEvents, train_for_job
    from utils.cli.train import train_and_print
    from utils.runs.record import EVENTS_FILE

    is_first = os.environ.get("RANK", "0") == "0"
    if not is_first:
        # All would say the same.
        logging.getLogger("utils").setLevel(logging.WARNING)
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for the whole process
    config = TrainConfig.load(settings)
    report = ProgressEvents(job / EVENTS_FILE) if job and is_first else lambda *_: None
    work = partial(train_for_job, config, report) if job else partial(train_and_print, config)
    try:
        work()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
        if status <= EXIT_BASE:
            raise
        # The run was stopped and saved. A process that ended with that status would be taken for a fault.
        if is_first:
            (settings.parent / STATUS_FILE).write_text(json.dumps({"status": status}), encoding="utf-8")


main = partial(run_function, run_rank)
"""The command; see `utils.cli.common.error_exits` for its exit statuses."""


if __name__ == "__main__":
    main()
