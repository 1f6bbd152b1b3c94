"""Every command that a message advises runs as printed, also where the output folder is another one with a space in it.

Each place that builds a command stands in PLACES with what makes it say so; a place that is missing there fails a test.
"""

import ast
import importlib
import os
import re
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tests.commands import run_as_printed
from tests.configs import tiny_run
from tests.documents import FLAG, TARGETS, known_flags
from tests.sounds import make_project
from tests.sources import parsed
from utils.bases.download import fetch_base
from utils.bases.find import find_base
from utils.cli import base, export, language, measure_switches, prepare, synthesize, train, voices
from utils.cli.common import parse
from utils.config import ExportConfig, SynthesizeConfig, TrainConfig
from utils.dataset.quality.checks import Checks
from utils.dataset.settings import PrepareConfig
from utils.dataset.storage.report import ClipReport
from utils.errors import UserError
from utils.inference.export import export_voice
from utils.inference.voice_file import base_of_voice
from utils.project.advice import CODE, FOLDER, NAME, RESUME, TEXTS, command, train_command
from utils.project.paths import Project
from utils.runs import layout
from utils.runs.layout import find_resume
from utils.speech.models import named_model
from utils.text.language_settings import LanguageConfig
from utils.text.unknown import suggestion
from utils.training import train as train_module
from webui import text
from webui.handlers import settings_file, training
from webui.studio import Studio

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("app.py", "utils", "webui", "recipes", "benchmarks")
BUILDERS = ("command", "extend_command", "train_command")
COMMAND = re.compile(text.settings.COMMAND)


@dataclass
class World:
    """A project in a root of its own."""

    project: Project
    interrupted: str
    """What a training printed that was stopped by Ctrl-C."""
    resume_command: str
    """What the errors of that run advise."""

    @property
    def empty(self) -> Project:
        return Project(name="nothing", output=self.project.output)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A tiny project whose training was interrupted in its first epoch, in a folder that a shell must have quoted."""
    project = make_project(tmp_path_factory.mktemp("root") / "my voices; all of them")
    made: list[Any] = []
    make_services = train_module._make_services

    def spied(*args: Any) -> Any:
        made.append(make_services(*args))
        return made[-1]

    @contextmanager
    def interrupting() -> Iterator[Callable[..., None]]:
        def report(what: str, done: int, total: int | None) -> None:
            if what == "training steps" and done == 1:
                os.kill(os.getpid(), signal.SIGINT)

        yield report

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        printed: list[str] = []
        patch.setattr(train_module, "_make_services", spied)
        patch.setattr(train, "progress_phases", interrupting)
        patch.setattr("builtins.print", lambda *words, **how: printed.append(" ".join(map(str, words))))
        flags = ["--project", project.name, "--output", str(project.output)]
        train.main([*flags, "--base", "tiny", "--num-epochs", "2", "--batch-size", "4"])
    assert end.value.code == 130
    return World(project=project, interrupted="\n".join(printed), resume_command=made[0].recovery.resume_command)


def refusal(work: Callable[[], object]) -> str:
    with pytest.raises(UserError) as caught:
        work()
    return str(caught.value)


def checks(world: World, code: str = "en") -> Checks:
    project = world.project
    settings = PrepareConfig(project=project.name, output=project.output, input=Path("x"), language=code, base="tiny")
    return Checks.of(settings, find_base("tiny"))


def unread(world: World, letter: str) -> str:
    clip = ClipReport(source="a.wav", status="used", text=letter)
    return checks(world).read(clip)[0].unknown[letter]


def spoken(world: World) -> object:
    return synthesize.synthesize(SynthesizeConfig(project="nothing", output=world.project.output, text="No."))


def voice_of(world: World) -> object:
    return export_voice(ExportConfig(project=world.project.name, output=world.project.output, adapter=True))


def no_voice(world: World) -> object:
    save_file({"a": torch.zeros(1)}, path := world.project.folder / "voice.safetensors")
    return base_of_voice(path)


def next_of(world: World, project: Project) -> str:
    settings = LanguageConfig(project=project.name, output=project.output, language="amh", g2p="amh")
    return language._next(settings, project, find_base("tiny").folder)


def recommended(world: World, capsys: pytest.CaptureFixture[str]) -> str:
    config = tiny_run(world.project, train_csv=Path("a b.csv"))
    measure_switches._recommend("best", SimpleNamespace(config=config, name="SDPA"), config, world.project)  # type: ignore[arg-type]
    return capsys.readouterr().out


def of_the_form(world: World) -> str:
    studio, name = Studio(output=world.project.output), {"project.project": world.project.name}
    form = training.show_form(studio, name) | name | {"project.base": "tiny", "train.start_from": ""}
    return settings_file.show_command(studio, form | {"train.set_sample_text": 'It\'s "me".\n$HOME'})["train.command"]


def listed(capsys: pytest.CaptureFixture[str]) -> str:
    base.main(["list"])
    return capsys.readouterr().out


def of_main(program: Any, world: World, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    program.main([*words, "--output", str(world.project.output)])
    return capsys.readouterr().out


PLACES: dict[str, Callable[[World, Any], str]] = {
    "utils/project/paths.py language": lambda world, _: refusal(world.empty.language),
    "utils/bases/find.py find_base": lambda world, _: refusal(lambda: find_base("v2.0.3")),
    "utils/bases/download.py fetch_base": lambda world, _: refusal(lambda: fetch_base("v2.0.3")),
    "utils/runs/layout.py find_resume": lambda world, _: refusal(lambda: find_resume(Path("last"), world.empty)),
    "utils/runs/layout.py resolve": lambda world, _: (
        f"{refusal(lambda: named_model('ready', world.empty))}\n{refusal(lambda: spoken(world))}"
    ),
    "utils/runs/layout.py newest_run": lambda world, _: refusal(lambda: layout.newest_run(world.empty, "best")),
    "utils/runs/layout.py find_run": lambda world, _: refusal(lambda: layout.find_run(world.project, "nothing")),
    "utils/text/tokenizer.py check_language": lambda world, _: (
        f"{refusal(lambda: find_base('tiny').tokenizer().check_language('ka'))}\n{refusal(lambda: checks(world, 'ka'))}"
    ),
    "utils/dataset/quality/checks.py of": lambda world, _: unread(world, "ⵣ"),
    "utils/text/unknown.py suggestion": lambda world, _: suggestion("ⵣ", lambda text: False),
    "utils/training/train.py _make_services": lambda world, _: (
        f"{world.resume_command}\n{world.resume_command} --allow-changes"
    ),
    "utils/cli/base.py _where": lambda world, capsys: listed(capsys),
    "utils/cli/train.py train_and_print": lambda world, _: world.interrupted,
    "utils/cli/language.py _next": lambda world, _: "\n".join(next_of(world, p) for p in (world.empty, world.project)),
    "utils/cli/measure_switches.py _recommend": lambda world, capsys: recommended(world, capsys),
    "utils/cli/prepare.py _prepare": lambda world, capsys: of_main(
        prepare,
        world,
        capsys,
        *shlex.split("--project again --language en --base tiny --input"),
        str(world.project.dataset),
    ),
    "utils/cli/export.py _next": lambda world, _: export._next(world.project),
    "utils/cli/voices.py list_voices": lambda world, capsys: of_main(voices, world, capsys, "list"),
    "utils/cli/voices.py _next": lambda world, _: voices._next("anna", world.project.output),
    "utils/cli/base.py _next": lambda world, _: base._next("tiny"),
    "webui/handlers/settings_file.py show_command": lambda world, _: of_the_form(world),
    "utils/inference/export.py export_voice": lambda world, _: refusal(lambda: voice_of(world)),
    "utils/inference/voice_file.py _facts": lambda world, _: refusal(lambda: no_voice(world)),
}
"""File and function of each place that builds a command, and what has it do so."""


@pytest.mark.parametrize("place", PLACES)
def test_the_advised_command_runs_as_printed(place, world, tmp_path, monkeypatch, capsys):
    said = PLACES[place](world, capsys)
    lines = [found.strip() for found in COMMAND.findall(said)]
    assert lines, said
    assert all(line in text.on_page(said) for line in lines), "the page leaves a command as it is"
    texts = tmp_path / "texts.txt"
    texts.write_text("გამარჯობა\n", encoding="utf-8")
    known = {NAME: "anna", FOLDER: str(tmp_path), CODE: "en", TEXTS: str(texts)}
    for line in lines:
        config = run_as_printed(line, monkeypatch, known)
        if hasattr(config, "project") and NAME not in line:
            assert config.output == world.project.output, line
        if getattr(config, "base", None):
            assert find_base(config.base).folder.is_dir()
        if getattr(config, "resume", None) and NAME not in line:
            assert find_resume(config.resume, world.project).run.parent == world.project.runs


def calls(tree: ast.AST, builders: set[str], owner: str = "") -> Iterator[str]:
    """The functions in which one of the builders is called."""
    for node in ast.iter_child_nodes(tree):
        inside = node.name if isinstance(node, ast.FunctionDef) else owner
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in builders:
            yield inside
        yield from calls(node, builders, inside)


def sources() -> Iterator[tuple[str, ast.Module]]:
    for place in SOURCES:
        files = [ROOT / place] if place.endswith(".py") else sorted((ROOT / place).rglob("*.py"))
        for path in files:
            name = path.relative_to(ROOT).as_posix()
            if name != "utils/project/advice.py":
                yield name, parsed(path)


def imported(tree: ast.Module) -> set[str]:
    nodes = [
        node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "utils.project.advice"
    ]
    return {alias.name for node in nodes for alias in node.names} & set(BUILDERS)


def test_every_place_that_advises_a_command_is_tried_above():
    found = {f"{name} {owner}" for name, tree in sources() for owner in calls(tree, imported(tree))}
    assert found == set(PLACES)


def words_of(tree: ast.Module) -> Iterator[str]:
    """The strings of a module, without its docstrings and the names of programs in usage lines."""
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            is_docstring = isinstance(node, ast.Expr)
            is_usage = isinstance(node, ast.keyword) and node.arg == "prog"
            if isinstance(child, ast.Constant) and isinstance(child.value, str) and not is_docstring and not is_usage:
                yield child.value


def test_no_message_spells_a_command_by_itself():
    spelled = {f"{name}: {words}" for name, tree in sources() for words in words_of(tree) if "python -m utils" in words}
    assert not spelled, "build it with utils.project.advice.command"


def test_stopped_training_goes_on_and_is_exported_as_printed(world, monkeypatch, capsys):
    for line in (world.interrupted, ""):
        (said,) = COMMAND.findall(line or capsys.readouterr().out)
        module, *words = shlex.split(said)[2:]
        importlib.import_module(module).main(words)
    assert (world.project.ready / "model.pth").is_file()


def test_what_stands_for_a_run_nobody_knows_is_read(monkeypatch):
    assert run_as_printed(RESUME, monkeypatch, {NAME: "anna"}).resume == Path("last")


def test_the_output_is_named_only_where_it_is_another_one(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    default = "python -m utils.cli.export --project anna"
    assert command("export", project=Project(name="anna", output=Path("output"))) == default
    assert command("export", project=Project(name="anna", output=tmp_path / "output")) == default
    other = command("export", project=Project(name="-anna", output=Path("my voices")))
    assert shlex.split(other)[3:] == ["--project=-anna", "--output", "my voices"]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"pin_memory": False, "sdpa": False, "trim_end": False},
        {"pin_memory": True, "eight_bit_optimizer": True, "sample_text": ""},
        {"sample_text": '-- It\'s "me"; `rm -rf` $HOME\nት | !', "base": "/my bases/k'a", "learning_rate": 3e-6},
        {"gradient_checkpointing": "selective", "compile": "reduce-overhead", "dropout": 0.0, "num_epochs": 7},
    ],
)
def test_a_training_command_gives_back_the_very_settings(settings, tmp_path):
    project = Project(name="maria", output=tmp_path / "my voices")
    config = TrainConfig(project="maria", output=project.output, **settings)
    line = train_command(config, project)
    assert parse(train.TrainCommand, "", shlex.split(line)[3:]).settings_of(TrainConfig) == config
    assert len([word for word in shlex.split(line) if word.startswith("--")]) == 2 + len(settings), line


def test_paths_are_quoted_for_the_windows_shell(monkeypatch):
    monkeypatch.setattr("utils.project.advice.os", SimpleNamespace(name="nt"))
    assert command("train", base="C:\\my bases\\ka", sdpa=False) == (
        'python -m utils.cli.train --base "C:\\my bases\\ka" --no-sdpa'
    )


FOREIGN = {"--copy", "--multi", "--shm-size", "--index-url", "--help", "--no-deps", "--no-build-isolation"}
"""Flags of ct2-transformers-converter (--copy_files), accelerate (--multi_gpu), docker and pip."""
NO_ADVICE = ("utils/dataset/page.py", "utils/evaluation/reference.py", "benchmarks/webui.py")
"""These hold a style sheet, or call other programs."""


def test_every_flag_that_a_message_names_exists():
    known = known_flags() | FOREIGN
    known |= {f"--no-{flag.removeprefix('--')}" for flag in known}
    modules = [(name, tree) for name, tree in sources() if name not in NO_ADVICE]
    named = {(name, flag) for name, tree in modules for words in words_of(tree) for flag in FLAG.findall(words)}
    assert [f"{name}: {flag}" for name, flag in sorted(named) if flag not in known] == []


def test_the_other_programs_that_messages_name_come_with_the_environment():
    said = "\n".join(words for _, tree in sources() for words in words_of(tree))
    scripts = {script.name for script in entry_points(group="console_scripts")}
    assert set(re.findall(r"hf(?= auth login)|ct2-[a-z-]+", said)) <= scripts
    assert set(re.findall(r"again: make ([a-z-]+)", said)) == {"starter"} <= TARGETS
    pinned = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    installed = set(re.findall(r"pip install ([\w-]+==[\w.]+)", said))
    assert installed and all(pin in pinned for pin in installed)
