"""What every command line shares: flags from a settings class, plain error messages, exit statuses and progress."""

import io
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import MISSING, dataclass, fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import rich
import tyro
from rich.logging import RichHandler
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from utils.errors import UserError, disk_errors, raise_problems
from utils.hardware.environment import TORCH_ENVIRONMENT
from utils.hardware.machine import missing_operation
from utils.hardware.wheel import missing_library
from utils.settings import Config
from utils.spellings import contradiction, translate

USER_ERROR = 2
"""Exit status for a fault that the user can fix; also that of an unknown flag."""
INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it: 128 + SIGINT."""
CLOSED_PIPE = 141
"""Exit status where the reader of the output has ended, as with `| head`: 128 + SIGPIPE."""
_EVERYDAY = (
    "project output config base language input also transcriber check-transcripts num-epochs batch-size "
    "grad-accumulation learning-rate mixed-precision gradient-checkpointing lora-rank device resume preflight auto "
    "accept-license text out model voice reference seed speed checkpoint sentences num-sentences extend corpus csv "
    "help"
)
EVERYDAY = frozenset(f"--{name}" for name in _EVERYDAY.split())
"""Flags that --help shows before all others, behind the required ones."""

log = logging.getLogger(__name__)

ConfigType = TypeVar("ConfigType", bound=Config)


@dataclass(frozen=True, kw_only=True)
class StageFlags:
    """Flags of a command beside the settings of its stage."""

    config: Path | None = None
    """YAML file of any of these settings, such as a run's config.yaml; flags override it."""
    accept_license: bool = False
    """Agree to the license of a published base (v2.0.2, ...) that is not here yet: it is downloaded first."""

    def settings_of(self, stage: type[ConfigType]) -> ConfigType:
        """The settings that the stage itself is given."""
        assert is_dataclass(stage)
        return stage(**{field.name: getattr(self, field.name) for field in fields(stage)})


def run_command(
    config_class: type[ConfigType],
    function: Callable[[ConfigType], object],
    description: str | None,
    args: Sequence[str] | None = None,
) -> None:
    """Read the command line into settings, check them and do the work.

    Returns normally when the work was done; any other exit status leaves as SystemExit.

    Args:
        config_class: settings dataclass; each field is a flag, its docstring the help text.
        function: the work; gets the checked settings.
        description: what the command does, for --help.
        args: flags; those of the process when not given.

    Raises:
        SystemExit: 2 after a fault that the user can fix, 130 after Ctrl-C.
    """
    with error_exits():
        config = parse(config_class, description, args)
        file = getattr(config, "config", None)
        function(config.validate(where=f"command line and {file}" if file else "command line"))


def run_subcommands(
    functions: Mapping[str, Callable[..., object]], description: str | None, args: Sequence[str] | None = None
) -> None:
    """Do the subcommand that the command line names; parameters are flags, docstrings the help text.

    Raises:
        SystemExit: as `run_command`.
    """
    with error_exits():
        tyro.extras.subcommand_cli_from_dict(
            dict(functions),
            prog=program(),
            description=description,
            args=args,
            config=(tyro.conf.OmitArgPrefixes,),
        )


def run_function(function: Callable[..., object], args: Sequence[str] | None = None) -> None:
    """Call a function whose parameters are flags, and whose docstring is the help text.

    Raises:
        SystemExit: as `run_command`.
    """
    with error_exits():
        tyro.cli(function, prog=program(), args=args, config=(tyro.conf.OmitArgPrefixes,))


@contextmanager
def error_exits() -> Iterator[None]:
    """Log to the console, and turn what the user can fix into a message and an exit status.

    Raises:
        SystemExit: 2 after a fault that the user can fix, 130 after Ctrl-C.
    """
    for name, value in TORCH_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    set_up_logging()
    try:
        with disk_errors():
            yield
            sys.stdout.flush()
    except BrokenPipeError:
        # Nor may the interpreter fail when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(CLOSED_PIPE) from None
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(USER_ERROR) from None
    except (ImportError, OSError, RuntimeError, TypeError, MemoryError) as error:
        if (words := missing_library(error) or missing_operation(error) or _shortage(error)) is None:
            raise
        print(f"error: {words}", file=sys.stderr)
        raise SystemExit(USER_ERROR) from error
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None


def _shortage(error: BaseException) -> UserError | None:
    # Imported late: torch, which is there already where it has run out of memory.
    from utils.performance_utils.memory import shortage

    return shortage(error, "in this command", "cuda" if "CU" in str(error) else "cpu")


def parse(config_class: type[ConfigType], description: str | None, args: Sequence[str] | None = None) -> ConfigType:
    """Settings from flags such as `--num-epochs 3` or `--no-sdpa`, above those of the file that `--config` names.

    Raises:
        SystemExit: 0 after --help, 2 after an unknown, missing or unreadable flag.
        UserError: the file cannot be read, or names a setting that does not exist.
    """
    words = list(sys.argv[1:] if args is None else args)
    given = _file_settings(config_class, words)
    with grouped_help(words):
        return tyro.cli(
            config_class,
            prog=program(),
            description=description,
            args=words,
            config=(tyro.conf.OmitArgPrefixes,),
            default=tyro.MISSING_NONPROP if given is None else given,
        )


def program() -> str:
    """What the user typed to start this command."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    return f"python -m {module.name}" if module else Path(sys.argv[0]).name


@contextmanager
def grouped_help(words: Sequence[str]) -> Iterator[None]:
    """Show the flags that --help lists in groups: the required ones, those of every day, all others."""
    if not {"-h", "--help"} & set(words):
        yield
        return
    written = io.StringIO()
    try:
        with redirect_stdout(written):
            yield
    finally:
        print(group_flags(written.getvalue()), end="")


def group_flags(text: str) -> str:
    """A help text with its flags in groups; tyro draws no boxes where it does not write to a terminal."""
    begin, _, options = text.partition("\n options ")
    groups: dict[str, list[str]] = {"required": [], "everyday": [], "all others": []}
    for flag in re.split(r"^(?=  -)", options, flags=re.MULTILINE)[1:]:
        is_everyday = not EVERYDAY.isdisjoint(re.split(r"[\s,]+", flag.partition("\n")[0]))
        groups["required" if "(required)" in flag else "everyday" if is_everyday else "all others"].append(flag)
    lines = [begin, *(f"{name}:\n{''.join(flags)}" for name, flags in groups.items() if flags)]
    return re.sub(r" +$", "", "\n".join(lines), flags=re.MULTILINE).rstrip() + "\n"


def size(num_bytes: float) -> str:
    """Bytes in the unit that suits them."""
    if num_bytes >= 1e9:
        return f"{num_bytes / 1e9:.2f} GB"
    return f"{num_bytes / 1e6:.1f} MB" if num_bytes >= 1e6 else f"{num_bytes / 1e3:.1f} kB"


def _file_settings(config_class: type[ConfigType], words: Sequence[str]) -> ConfigType | None:
    """The settings of the file that `--config` names; None where it names none."""
    assert is_dataclass(config_class)
    known = {field.name: field.default for field in fields(config_class)}
    pairs = [*pairwise(words), *(tuple(word.split("=", 1)) for word in words if "=" in word)]
    path = next((Path(value) for flag, value in pairs if flag == "--config"), None)
    if path is None or "config" not in known:
        return None
    values = config_class.read(path)
    if isinstance(section := values.get("training"), dict) and "training" not in known:
        # As other trainers lay their files out.
        values = {name: value for name, value in values.items() if name != "training"}
        for name in values.keys() & section.keys():
            if values[name] != section[name]:
                raise contradiction(f"{name} ({values[name]})", f"training: {name} ({section[name]})", str(path))
        values |= section
    values, notes = translate(values, where=str(path))
    for note in notes:
        log.info("%s: %s", path, note)
    if values.get("run_id") == path.absolute().parent.name:
        # A run's own file: the new run needs another folder.
        del values["run_id"]
    # All defaults, so that a file of few lines does not read as one of an earlier version.
    open_values = {name: tyro.MISSING if value is MISSING else value for name, value in known.items()}
    settings = config_class.from_saved(open_values | values, where=str(path))
    raise_problems(config_class.wrong_types({n: getattr(settings, n) for n in values if n in known}), where=str(path))
    for name, value in settings.retired.items():
        log.warning("%s: %s %s has no effect any more", path, name, value)
    return settings


def given_fields(args: Sequence[str] | None = None) -> frozenset[str]:
    """Names of the settings that the command line gives, also where it gives the default.

    Args:
        args: flags; those of the process when not given.
    """
    words = sys.argv[1:] if args is None else args
    names = (word[2:].partition("=")[0].replace("-", "_") for word in words if word.startswith("--"))
    # `--no-sdpa` gives sdpa.
    return frozenset(form for name in names for form in (name, name.removeprefix("no_")))


def set_up_logging() -> None:
    """Log to standard error: our own messages, and warnings of the libraries."""
    rich.reconfigure(stderr=True)
    console = rich.get_console()
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if console.is_terminal:
        # Through the console that draws the progress bars, so that neither breaks the other.
        handler = RichHandler(console=console, show_path=False, show_level=False, show_time=False)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler], force=True)
    logging.getLogger("utils").setLevel(logging.INFO)


@contextmanager
def progress_phases() -> Iterator[Callable[[str, int, int | None], None]]:
    """A progress bar for each phase of some work; without a terminal, one line when a phase is done.

    Yields:
        report(description, done, total); another description ends the bar before it.
    """
    console = rich.get_console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar: Progress | None = None
    phase, done, begin = "", 0, 0.0

    def end() -> None:
        if bar is not None:
            bar.stop()
            if not console.is_terminal:
                print(f"{phase}: {done} in {time.monotonic() - begin:.1f} s", file=sys.stderr)

    def report(description: str, finished: int, total: int | None) -> None:
        nonlocal bar, phase, done, begin
        if bar is None or description != phase:
            end()
            phase, begin = description, time.monotonic()
            # What is printed meanwhile goes above the bar on the terminal, but stays in a file or pipe that it was
            # meant for.
            to_terminal = sys.stdout.isatty()
            bar = Progress(
                *columns,
                TimeRemainingColumn(),
                console=console,
                disable=not console.is_terminal,
                redirect_stdout=to_terminal,
            )
            bar.add_task(description, total=None)
            bar.start()
        done = finished
        bar.update(bar.task_ids[0], completed=finished, total=total)

    try:
        yield report
    except BaseException:
        if bar is not None:
            bar.stop()
        raise
    end()
