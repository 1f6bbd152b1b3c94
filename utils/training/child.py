"""Training in a child process, for callers in Python: as fast as the command line, and Ctrl-C still saves.

OpenMP reads its variables when torch is loaded: a process that has loaded it without them cannot be made as fast. The
child is `utils.training.worker`. It is no `multiprocessing` process, so that scripts without a main guard,
prompts and notebooks can start it.
"""

import logging
import signal
import sys
from contextlib import suppress

from utils.callbacks import Progresses
from utils.config import TrainConfig
from utils.console import say
from utils.errors import UserError
from utils.hardware.environment import child_environment
from utils.jobs.json_lines import JsonChild, Message

log = logging.getLogger(__name__)

LAST_WORDS = ("result", "user_error", "error", "interrupted")
"""Kinds of messages after which none follows."""
UNSAVED = 'stopped; to continue from the last checkpoint, if there is one, call train_gpt with resume="last"'


def train_in_child(config: TrainConfig, *, accept_license: bool, progress: Progresses) -> Message:
    """Train in a child process and wait for it.

    Ctrl-C asks the child to finish its step, save and end; pressed once more, it ends the child at once. When this
    process dies, the child does what the first Ctrl-C does.

    Args:
        config: checked settings.
        accept_license: see `utils.bases.download`.
        progress: who is informed, from the thread that waits.

    Returns:
        As `utils.training.worker.train`; `stop_signal` is SIGINT where Ctrl-C was pressed and the child had saved.

    Raises:
        UserError: what the child found wrong with settings, base, data or disk; or it ended without a word.
        KeyboardInterrupt: Ctrl-C was pressed, and what the child had saved by then is not known.
        RuntimeError: another fault of the child, with its traceback.
    """
    command = [sys.executable, "-m", "utils.training.worker"]
    try:
        child = JsonChild(command, env=child_environment(), last_words=LAST_WORDS)
    except OSError as error:
        raise UserError(what=f"the process that trains could not be started: {error}", where="train_gpt") from error
    is_stopping = False
    with child:
        with suppress(BrokenPipeError):  # It has ended already; its last words say why.
            child.send({"config": vars(config), "accept_license": accept_license})
        while True:
            try:
                for message in child:
                    _pass_on(message, progress)
                break
            except KeyboardInterrupt:
                if is_stopping:
                    say(log, UNSAVED)
                    raise
                is_stopping = True
                child.close_input()
                say(log, "stopping: this step is finished and saved; press Ctrl-C once more to end without saving")
    end = child.last
    if is_stopping and (end is None or end["kind"] == "interrupted"):
        say(log, UNSAVED)
        raise KeyboardInterrupt
    assert child.returncode is not None, "it has ended"
    result = _result(end, child.returncode)
    return result | {"stop_signal": signal.SIGINT} if is_stopping else result


def _pass_on(message: Message, progress: Progresses) -> None:
    """Report progress, log as the child's module would have done here, or print."""
    kind = message["kind"]
    if kind == "log":
        logger, level = logging.getLogger(message["name"]), message["level"]
        if message["said"]:
            say(logger, message["message"], level=level)
        else:
            logger.log(level, "%s", message["message"])
    elif kind == "stderr":
        if sys.stderr is not None:
            sys.stderr.write(message["line"])
    elif report := getattr(progress, kind):
        report(*message["args"])


def _result(end: Message | None, exit_code: int) -> Message:
    """The child's last word.

    Raises:
        UserError, RuntimeError: it is none of success.
    """
    if end is None or end["kind"] == "interrupted":
        how = f"was ended by signal {-exit_code}" if exit_code < 0 else f"ended with status {exit_code}"
        advice = "if memory ran out, use a smaller batch_size or enable_grad_checkpoint=True; "
        raise UserError(
            what=f"the process that trains {how}",
            where="train_gpt",
            fix=f'{advice if exit_code == -9 else ""}call train_gpt again with resume="last" to continue from the last '
            "checkpoint, if there is one",
        )
    if end["kind"] == "user_error":
        raise UserError(what=end["what"], where=end["where"], fix=end["fix"])
    if end["kind"] == "error":
        raise RuntimeError(f"training failed in its process:\n{end['traceback']}")
    return end
