"""The process that measures by ear: it answers one request, and what it loaded is freed by its end.

It reads one request from its input, see `utils.evaluation.by_ear.answer`, and ends with it.
"""

import logging
import sys
import time

from utils.console import take_output
from utils.jobs.replies import Replies, Requests


def main() -> None:
    """Answer one request from standard input."""
    begun = time.monotonic()
    replies, requests = Replies(take_output()), Requests(sys.stdin)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    request = next(iter(requests))
    # Imported late: loading takes seconds, in which the end of the waiting process must be noticed.
    from utils.evaluation.by_ear import answer

    answer(request, begun, replies)


if __name__ == "__main__":
    main()
