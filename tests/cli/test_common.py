"""Flags, messages, exit statuses and progress are the same for every command."""

import errno
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import pytest
import rich

from tests.documents import known_flags
from utils.cli import __main__ as commands
from utils.cli.common import CLOSED_PIPE, EVERYDAY, given_fields, progress_phases, run_command, size
from utils.config import Config, SynthesizeConfig, TrainConfig
from utils.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    """Settings of a command that does not exist."""

    num_takes: int = 2
    """How many takes."""
    loud: bool = False
    """Whether to shout."""
    folder: Path = Path("out")
    """Where to."""

    def problems(self) -> list[str]:
        return [f"num_takes is {self.num_takes}; use 1 or more"] if self.num_takes < 1 else []


def _run(*args: str, function: Callable[[Settings], object] = lambda _: None) -> None:
    run_command(Settings, function, "Do nothing.", args)


def _seen(*args: str) -> Settings:
    seen: list[Settings] = []
    _run(*args, function=seen.append)
    return seen[0]


def test_flags_become_settings():
    assert _seen() == Settings()
    assert _seen("--num-takes", "3", "--folder", "a/b") == Settings(num_takes=3, folder=Path("a/b"))


def test_switches_have_a_flag_for_each_side():
    assert _seen("--loud").loud
    assert not _seen("--no-loud").loud


def test_the_settings_that_a_command_line_gives_are_known_however_it_spells_them():
    given = given_fields(["--no-sdpa", "--batch-size=4", "--lora_rank", "0", "name"])
    assert {"sdpa", "batch_size", "lora_rank"} <= given and not {"name", "compile"} & given


@pytest.mark.parametrize(
    ("config_class", "args", "field", "value"),
    [
        (TrainConfig, ["--project", "a", "--num-epochs", "3"], "num_epochs", 3),
        (TrainConfig, ["--project", "a"], "num_epochs", None),
        (TrainConfig, ["--project", "a", "--no-sdpa"], "sdpa", False),
        (TrainConfig, ["--project", "a", "--train-csv", "x.csv"], "train_csv", Path("x.csv")),
        (TrainConfig, ["--project", "a", "--mixed-precision", "bf16"], "mixed_precision", "bf16"),
        (SynthesizeConfig, ["--model", "tiny", "--text", "Hi.", "--seed", "None"], "seed", None),
    ],
)
def test_the_real_settings_can_be_given_as_flags(config_class, args, field, value):
    seen: list[Config] = []
    run_command(config_class, seen.append, "", args)
    assert getattr(seen[0], field) == value


def test_help_lists_required_flags_before_everyday_ones_and_all_others(capsys):
    with pytest.raises(SystemExit, match="0"):
        run_command(TrainConfig, lambda _: None, "Train.", ["--help"])
    text = capsys.readouterr().out
    words = ("Train.", "required:", "--project STR", "everyday:", "--base STR", "all others:", "--warmup-steps INT")
    assert [text.index(word) for word in words] == sorted(text.index(word) for word in words)
    listed = {word for line in text.splitlines() for word in line.split() if line.startswith("  --")}
    assert {f"--{field.name.replace('_', '-')}" for field in fields(TrainConfig)} <= {w.rstrip(",") for w in listed}


def test_everyday_flags_are_flags_of_some_command():
    assert known_flags() >= EVERYDAY - {"--help"}


def test_every_command_is_listed_with_what_it_does(capsys):
    commands.main()
    listed = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if "utils.cli" in line]
    files = {path.stem for path in Path(commands.__file__).parent.glob("*.py")}
    internal = {"__main__", "common", "job", "measure_switches", "rank"}
    assert {name.removeprefix("utils.cli.") for name, _ in listed} == files - internal
    assert all(what and what[0].isupper() and "python" not in what for _, what in listed)


def test_output_without_a_reader_ends_quietly():
    """As with `| head`: the reader has ended before the command writes."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run([sys.executable, "-m", "utils.cli"], stdout=closed, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (CLOSED_PIPE, b"")


@pytest.mark.parametrize(
    ("num_bytes", "words"), [(900, "0.9 kB"), (50_000, "50.0 kB"), (5e6, "5.0 MB"), (5.29e9, "5.29 GB")]
)
def test_sizes_have_the_unit_that_suits_them(num_bytes, words):
    assert size(num_bytes) == words


def test_help_shows_what_each_flag_means_and_its_default(capsys):
    with pytest.raises(SystemExit, match="0"):
        _run("--help")
    text = capsys.readouterr().out
    assert "Do nothing." in text
    assert "--num-takes INT" in text and "How many takes. (default: 2)" in text
    assert "--loud, --no-loud" in text


@pytest.mark.parametrize("args", [["--what"], ["--num-takes", "many"], ["stray"]])
def test_wrong_flags_exit_with_2(capsys, args):
    with pytest.raises(SystemExit, match="2"):
        _run(*args)
    assert "Traceback" not in capsys.readouterr().err


def _fails(error: BaseException) -> Callable[[Settings], object]:
    def fail(_: Settings) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (
            UserError(what="it broke", where="there", fix="repair it"),
            2,
            "error: it broke\n  where: there\n  fix:   repair it\n",
        ),
        (OSError(errno.ENOSPC, "No space left on device", "/x/y"), 2, "error: the disk is full\n  where: /x/y"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), 2, "error: not permitted: Permission denied"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_what_users_can_fix_is_reported_without_a_traceback(capsys, error, status, message):
    with pytest.raises(SystemExit) as caught:
        _run(function=_fails(error))
    assert caught.value.code == status
    text = capsys.readouterr()
    assert text.err.startswith(message)
    assert "Traceback" not in text.err and not text.out


def test_our_own_faults_keep_their_traceback():
    with pytest.raises(ZeroDivisionError):
        _run(function=_fails(ZeroDivisionError()))


def test_settings_are_checked_before_the_work(capsys):
    with pytest.raises(SystemExit, match="2"):
        _run("--num-takes", "0", function=_fails(AssertionError("must not run")))
    assert "num_takes is 0; use 1 or more" in capsys.readouterr().err


def test_logging_goes_to_standard_error(capsys):
    def work(_: Settings) -> None:
        logging.getLogger("utils.x").info("ours")
        logging.getLogger("library").info("theirs")
        logging.getLogger("library").warning("their warning")

    _run(function=work)
    text = capsys.readouterr()
    assert text.out == ""
    assert text.err.splitlines() == ["ours", "their warning"]


def test_without_a_terminal_progress_is_one_line(capsys):
    def work(_: Settings) -> None:
        with progress_phases() as report:
            report("reporting", 1, 3)
            report("reporting", 3, 3)
            report("writing", 1, 1)

    _run(function=work)
    lines = capsys.readouterr().err.splitlines()
    assert [line.rsplit(" in ", 1)[0] for line in lines] == ["reporting: 3", "writing: 1"]


def test_work_that_fails_is_not_reported_as_done(capsys):
    with pytest.raises(ZeroDivisionError), progress_phases() as report:
        report("counting", 1, 3)
        raise ZeroDivisionError
    assert "counting" not in capsys.readouterr().err


def test_on_a_terminal_there_is_a_bar(capsys, monkeypatch):
    def work(_: Settings) -> None:
        monkeypatch.setattr(rich.get_console(), "_force_terminal", True)
        with progress_phases() as report:
            report("counting", 5, 5)

    _run(function=work)
    assert "counting" in (text := capsys.readouterr().err)
    assert "5/5" in text
