"""What the documents show is what there is: commands, flags, make targets, Python calls and links."""

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import re

import pytest

from tests.commands import run_as_printed
from tests.documents import FENCE, ROOT, TARGETS, blocks, commands, documents, flags, known_flags, words

PLACE = re.compile(r"(?<![\w/])((?:utils|webui|tests|benchmarks|recipes|scripts|docs|docker|assets)/[\w/.-]*[\w/])")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
HOMEMADE = re.compile(
    r"\b(told|mend(s|ed|ing)?|heard|nobody|whoever|somebody|go(es)? on|gone on|went on|so many|so long|takes? up|"
    r"came? to|is given back|give back|left out|leaves? out|under ?way|anew|throats?|ticket|shelf|for good|"
    r"put in order|the books)\b",
    re.IGNORECASE,
)
"""Words of our own for what documentation of other libraries calls reported, dropped, resumed, in progress, ..."""
OURS = sorted({line for _, line in commands() if line.startswith("python -m utils.cli.")})
MODULES = sorted(
    {words(line)[2] for _, line in commands() if line.startswith(("python -m benchmarks", "python -m rec"))}
)
FOREIGN = {"--no-build-isolation", "--gpus", "--rm", "--time", "--log-cli-level", "--help", "--build", "--build-arg"}
FOREIGN |= {"--data-dir", "--depth", "--dry-run", "--from-file", "--trace", "--sample", "--delay", "--duration"}
FOREIGN |= {"--report", "--nodes", "--ntasks-per-node", "--gpus-per-node", "--signal", "--no-deps", "--standalone"}
FOREIGN |= {"--nnodes", "--nproc-per-node", "--rdzv-backend", "--rdzv-endpoint", "--rdzv-id"}
"""Flags of git, pip, docker, pytest, kubectl, nsys, sbatch, torchrun and of scripts named as in guides."""


@pytest.mark.parametrize("line", OURS)
def test_a_command_is_read_as_printed(line, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        run_as_printed(line, monkeypatch)
    except SystemExit as end:
        # What the documents' names stand for is not here; only flags that cannot be read are wrong here.
        said = capsys.readouterr().err
        assert end.code == 0 or "\n  where: " in said, said


def test_every_flag_that_is_named_exists():
    known = known_flags() | FOREIGN
    known |= {f"--no-{flag.removeprefix('--')}" for flag in known}
    assert {f"{name}: {flag}" for name, flag in flags() if flag not in known} == set()


@pytest.mark.parametrize("module", MODULES)
def test_the_benchmarks_and_recipes_that_are_named_exist(module):
    assert importlib.util.find_spec(module) is not None


def test_every_make_target_that_is_named_exists():
    named = {words(line)[1] for _, line in commands() if line.startswith("make ")}
    assert named <= TARGETS | {"help"}


def test_the_documents_use_the_words_of_the_field():
    lines = [(path.name, line) for path in documents() for line in path.read_text(encoding="utf-8").splitlines()]
    assert [f"{name}: {line}" for name, line in lines if HOMEMADE.search(line)] == []


def test_every_link_leads_to_a_file():
    broken = [
        f"{path.name}: {link}"
        for path in documents()
        for link in LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8")))
        if "://" not in link and not (path.parent / link).exists()
    ]
    assert broken == []


def test_every_file_of_the_project_that_is_named_is_there():
    named = {(path.name, place) for path in documents() for place in PLACE.findall(path.read_text(encoding="utf-8"))}
    assert [f"{name}: {place}" for name, place in sorted(named) if not (ROOT / place).exists()] == []


@pytest.mark.parametrize(
    "block", [block for block in blocks() if block.language == "python"], ids=lambda block: block.document
)
def test_python_blocks_call_what_there_is(block):
    tree = ast.parse(block.text)
    names: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module != "gradio_client":
            module = importlib.import_module(node.module)
            names |= {alias.name: getattr(module, alias.name) for alias in node.names}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        given = {keyword.arg for keyword in call.keywords}
        called = names.get(call.func.id)  # type: ignore[attr-defined]
        if dataclasses.is_dataclass(called):
            assert given <= {field.name for field in dataclasses.fields(called)}
        elif called is not None and inspect.isfunction(called):
            assert given <= set(inspect.signature(called).parameters)
