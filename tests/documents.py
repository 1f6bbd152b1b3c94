"""What the documents show: fenced blocks, command lines and flags, as a reader would copy them."""

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.sources import parsed

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
FLAG = re.compile(r"(?<![\w-])--[a-z0-9][a-z0-9-]*")

TARGETS = set(re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
"""What `make` can make."""


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    document: str
    language: str
    """What stands behind the fence: python, bash or nothing."""
    text: str


def documents() -> list[Path]:
    """Every document for users."""
    found = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "docker" / "README.md"]
    return sorted([*found, *(ROOT / "recipes").rglob("README*")])


def blocks() -> Iterator[Block]:
    """The fenced blocks of all documents."""
    for path in documents():
        for language, text in FENCE.findall(path.read_text(encoding="utf-8")):
            yield Block(path.relative_to(ROOT).as_posix(), language, text)


def commands() -> Iterator[tuple[str, str]]:
    """Document and line of each command: those of blocks, and those in the text that begin with a program."""
    for path in documents():
        text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
        for _, block in FENCE.findall(text):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith(("python -m ", "make ", "docker ", "python app.py")):
                    yield name, line
        for said in INLINE.findall(FENCE.sub("", text)):
            if said.startswith(("python -m ", "make ", "python app.py", "docker ")):
                yield name, " ".join(said.split())


def words(line: str) -> list[str]:
    """A command line as a shell reads it, without its comment."""
    return shlex.split(line, comments=True)


def flags() -> Iterator[tuple[str, str]]:
    """Document and flag, of every flag that stands somewhere in a document."""
    for path in documents():
        for flag in sorted(set(FLAG.findall(path.read_text(encoding="utf-8")))):
            yield path.relative_to(ROOT).as_posix(), flag


def known_flags() -> set[str]:
    """Every flag of our commands, the page, the benchmarks and the recipes, as their source spells it."""
    sources = [ROOT / "app.py"]
    for folder in ("utils", "webui", "benchmarks", "recipes"):
        sources += (ROOT / folder).rglob("*.py")
    found = set()
    for path in sources:
        source = path.read_text(encoding="utf-8")
        found |= {f"--{name}" for name in re.findall(r"""add(?:_argument)?\(\s*"--([a-z-]+)\"""", source)}
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(f"--{node.target.id.replace('_', '-')}")
            if isinstance(node, ast.FunctionDef):
                names = [arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)]
                found |= {f"--{name.replace('_', '-')}" for name in names}
    return found
