"""Imports point one way, the web process stays free of torch, and the house rules that a machine can see are kept.

An import inside a function counts like one at the top; one under `if TYPE_CHECKING` counts for the direction only.
"""

import ast
from collections import abc, deque
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from tests.graphs import circles_of
from tests.sources import parsed

ROOT = Path(__file__).resolve().parents[1]
CODE = ("app.py", "utils", "webui", "benchmarks", "recipes", "scripts", "tests")
MAX_LINES = 400
LONGER = {"utils.training.train": 600}

LAYERS = (
    "utils.errors",
    "utils.settings",
    "utils.options",
    "utils.switches",
    "utils.config",
    "utils.files",
    "utils.spellings",
    "utils.callbacks",
    "utils.console",
    "utils.hardware",
    "utils.audio",
    "utils.project",
    "utils.text",
    "utils.model",
    "utils.performance_utils",
    "utils.bases",
    "utils.runs",
    "utils.jobs",
    "utils.dataset",
    "utils.speech",
    "utils.codec_training",
    "utils.training",
    "utils.language",
    "utils.training_optimizations",
    "utils.optimizations",
    "utils.decoder_training",
    "utils.inference",
    "utils.server",
    "utils.evaluation",
    "utils.gpt_train",
    "utils.cli",
)
"""The engine's packages from the ground up, each a layer: a module may import its own package and those before it."""

NEVER = (
    ("utils", "gradio"),
    ("utils", "webui"),
    ("webui", "utils.cli"),
    ("webui.tabs", "webui.handlers"),
    ("webui.tabs", "webui.events"),
    ("webui.handlers", "webui.tabs"),
    # What a click does, and what the form means, can be tested without a page.
    ("webui.handlers", "gradio"),
    ("webui.forms", "gradio"),
    ("webui.text", "gradio"),
    ("benchmarks", "utils.cli"),
    ("recipes", "utils.cli"),
)
"""Pairs of importer and imported, each with all below it."""

LIGHT = (
    "app",
    "webui",
    "utils.project.advice",
    "utils.config",
    "utils.errors",
    "utils.hardware",
    "utils.jobs",
    "utils.runs.follow",
    "utils.runs.log",
    "utils.bases.catalog",
    "utils.project.paths",
    "utils.project.projects",
    "utils.speech",
    "utils.project.uploads",
    "utils.dataset.sources.intake",
)
"""What the web process may load; nothing these import, however far away, may load a library of HEAVY."""
HEAVY = ("torch", "torchaudio", "torchcodec", "TTS", "trainer", "transformers", "accelerate", "safetensors.torch")

FORBIDDEN_NAMES = ("torchaudio.load", "torchaudio.save", "torchaudio.info", "torchcodec")
"""These need torchcodec and a system ffmpeg; utils.audio reads and writes audio."""


@dataclass(frozen=True)
class Import:
    """One name that a module imports."""

    name: str
    """In full: `torch`, `utils.model.gpt`, or `utils.errors.UserError`."""
    line: int
    typing_only: bool
    """Under `if TYPE_CHECKING`, so it never runs."""


@dataclass(frozen=True)
class Module:
    """One Python file, parsed."""

    name: str
    path: Path

    @cached_property
    def tree(self) -> ast.Module:
        return parsed(self.path)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def imports(self) -> list[Import]:
        typing_only = {
            id(node)
            for block in self.nodes
            if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
            for statement in block.body
            for node in ast.walk(statement)
        }
        return [
            Import(f"{origin}{alias.name}", node.lineno, id(node) in typing_only)
            for node in self.nodes
            if isinstance(node, ast.Import | ast.ImportFrom)
            for origin in [f"{self._origin(node)}." if isinstance(node, ast.ImportFrom) else ""]
            for alias in node.names
        ]

    @cached_property
    def aliases(self) -> dict[str, str]:
        """What a bare name in this file stands for, as far as imports tell."""
        found = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found |= {
                    a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in node.names
                }
            elif isinstance(node, ast.ImportFrom):
                found |= {a.asname or a.name: f"{self._origin(node)}.{a.name}" for a in node.names}
        return found

    def full_name(self, node: ast.expr) -> str:
        """`F.conv1d` as `torch.nn.functional.conv1d`; empty when it is no imported name."""
        if isinstance(node, ast.Attribute):
            owner = self.full_name(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        return self.aliases.get(node.id, "") if isinstance(node, ast.Name) else ""

    def _origin(self, node: ast.ImportFrom) -> str:
        """The module after `from`, with leading dots resolved."""
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        package = parts if self.path.name == "__init__.py" else parts[:-1]
        base = package[: len(package) - node.level + 1]
        return ".".join([*base, node.module] if node.module else base)


def find_problems(root: Path) -> list[str]:
    """Every breach below `root`, one sentence each, with file and line."""
    modules = {module.name: module for module in read_modules(root)}
    found = []
    for module in modules.values():
        place = module.path.relative_to(root)
        rules = (direction, layering, house_rules)
        found += [f"{place}:{line}: {problem}" for rule in rules for line, problem in rule(module)]
        if any(below(module.name, light) for light in LIGHT):
            found += [f"{place}: loads {chain}" for chain in heavy_chains(module, modules)]
    return found + circles(modules)


def read_modules(root: Path) -> abc.Iterator[Module]:
    for top in CODE:
        files = [root / top] if top.endswith(".py") else sorted((root / top).rglob("*.py"))
        for path in files:
            if path.is_file():
                parts = path.relative_to(root).with_suffix("").parts
                yield Module(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path)


def below(name: str, package: str) -> bool:
    return name.startswith(package) and name[len(package) :][:1] in ("", ".")


def direction(module: Module) -> abc.Iterator[tuple[int, str]]:
    """Breaches of NEVER."""
    for importer, imported in NEVER:
        if below(module.name, importer):
            for item in module.imports:
                if below(item.name, imported):
                    yield item.line, f"{importer} must not import {imported}"


def layering(module: Module) -> abc.Iterator[tuple[int, str]]:
    """Imports of a higher layer of the engine, and engine modules that have no layer."""
    if not below(module.name, "utils") or module.name == "utils":
        return
    if (own := layer(module.name)) is None:
        yield 1, f"{module.name} has no layer; add it to LAYERS"
        return
    for item in module.imports:
        other = layer(item.name)
        if other is not None and other > own:
            yield item.line, f"{module.name} must not import {item.name}, which is in a higher layer"


def layer(name: str) -> int | None:
    return next((rank for rank, package in enumerate(LAYERS) if below(name, package)), None)


def circles(modules: dict[str, Module]) -> list[str]:
    """Modules that import each other in a circle, and folders of the engine that do; types count, too."""
    files: dict[str, set[str]] = {name: set() for name in modules}
    folders: dict[str, set[str]] = {}
    for module in modules.values():
        for item in module.imports:
            parts = item.name.split(".")
            names = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
            target = next((name for name in names if name in modules), None)
            if target is None or target == module.name:
                continue
            files[module.name].add(target)
            here, there = folder(module), folder(modules[target])
            if here != there and below(here, "utils") and below(there, "utils"):
                folders.setdefault(here, set()).add(there)
    return [f"circle: {' -> '.join(found)}" for graph in (files, folders) for found in circles_of(graph)]


def folder(module: Module) -> str:
    """The package that a module lies in; a file at the engine's top is one by itself."""
    package = module.name if module.path.name == "__init__.py" else module.name.rpartition(".")[0]
    return module.name if package == "utils" else package


def heavy_chains(start: Module, modules: dict[str, Module]) -> list[str]:
    """The shortest way from `start` to each library of HEAVY that running it would load."""
    chains: dict[str, str] = {}
    seen = {start.name}
    queue = deque([(start, start.name)])
    while queue:
        module, chain = queue.popleft()
        for item in module.imports:
            if item.typing_only:
                continue
            heavy = next((library for library in HEAVY if below(item.name, library)), None)
            if heavy:
                chains.setdefault(heavy, f"{chain} -> {heavy}")
            # Importing a.b.c runs a and a.b first.
            parts = item.name.split(".")
            for name in (".".join(parts[:end]) for end in range(1, len(parts) + 1)):
                if name in modules and name not in seen:
                    seen.add(name)
                    queue.append((modules[name], f"{chain} -> {name}"))
    return list(chains.values())


def house_rules(module: Module) -> abc.Iterator[tuple[int, str]]:
    """Docstring, length, printing, and the calls that are unsafe or need what is not installed."""
    if ast.get_docstring(module.tree) is None and not is_empty_init(module):
        yield 1, "the module has no docstring"
    num_lines = module.path.read_text(encoding="utf-8").count("\n")
    if num_lines > (limit := LONGER.get(module.name, MAX_LINES)):
        yield num_lines, f"{num_lines} lines; split the file at {limit}"
    quiet = module.name.startswith(("utils", "webui")) and not below(module.name, "utils.cli")
    names = [(item.line, item.name) for item in module.imports]
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and node.attr in ("load", "save", "info"):
            names.append((node.lineno, module.full_name(node)))
        elif isinstance(node, ast.Call):
            if quiet and isinstance(node.func, ast.Name) and node.func.id == "print":
                yield node.lineno, "print below the command line; use logging"
            if module.full_name(node.func) == "torch.load" and not loads_weights_only(node):
                yield node.lineno, "torch.load without weights_only=True"
    for line, banned in sorted({(line, b) for line, name in names for b in FORBIDDEN_NAMES if below(name, b)}):
        yield line, f"{banned} is banned; use utils.audio"


def is_empty_init(module: Module) -> bool:
    return module.path.name == "__init__.py" and not module.tree.body


def loads_weights_only(call: ast.Call) -> bool:
    values = [keyword.value for keyword in call.keywords if keyword.arg == "weights_only"]
    return any(isinstance(value, ast.Constant) and value.value is True for value in values)


def test_the_project_keeps_its_architecture():
    names = {module.name for module in read_modules(ROOT)}
    assert {"app", "utils.config", "webui.interface", "tests.test_architecture"} <= names
    assert find_problems(ROOT) == []


def missing_imports(root: Path) -> list[str]:
    """Imports of our own modules that are not there; mypy passes over what it does not find."""
    modules = {module.name: module for module in read_modules(root)}
    tops = {name.split(".")[0] for name in modules}
    return [
        f"{module.path.relative_to(root)}:{item.line}: there is no {item.name}"
        for module in modules.values()
        for item in module.imports
        if item.name.split(".")[0] in tops
        and item.name not in modules
        and item.name.rpartition(".")[0] not in modules
        and not (root / item.name.rpartition(".")[0].replace(".", "/")).is_dir()
    ]


def test_every_import_of_our_own_is_there(tmp_path):
    assert missing_imports(ROOT) == []
    assert missing_imports(write_tree(tmp_path, {"utils/a.py": "from utils.b import c"})) == [
        "utils/a.py:2: there is no utils.b.c"
    ]


DOC = '"""A sentence."""\n'
BARE = "bare:"
"""Marks a made-up file that gets no docstring."""
BAD = {
    "the engine knows the page": ({"utils/project/paths.py": "import gradio as gr"}, "utils must not import gradio"),
    "in a function too": ({"utils/jobs.py": "def f():\n    from webui import text"}, "utils must not import webui"),
    "layout calls actions": ({"webui/tabs/a.py": "from webui.handlers import b"}, "must not import webui.handlers"),
    "an action needs a page": ({"webui/handlers/b.py": "import gradio"}, "webui.handlers must not import gradio"),
    "the page runs the command line": ({"webui/c.py": "from utils.cli import train"}, "must not import utils.cli"),
    "preparing knows training": ({"utils/dataset/a.py": "from utils.training.b import c"}, "in a higher layer"),
    "even for types": (
        {"utils/text/a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from utils.inference import b"},
        "in a higher layer",
    ),
    "the command line is used": ({"utils/gpt_train.py": "from utils.cli.common import run"}, "in a higher layer"),
    "relative": ({"utils/audio/a.py": "from ..training import b"}, "in a higher layer"),
    "a circle of two": (
        {"webui/a.py": "def f():\n    import webui.b", "webui/b.py": "from webui import a"},
        "circle: webui.a -> webui.b -> webui.a",
    ),
    "a circle of folders": (
        {
            "utils/dataset/x/a.py": "import utils.dataset.y.b",
            "utils/dataset/x/c.py": "",
            "utils/dataset/y/b.py": "import utils.dataset.x.c",
        },
        "circle: utils.dataset.x -> utils.dataset.y -> utils.dataset.x",
    ),
    "a part without a layer": ({"utils/extra.py": ""}, "utils.extra has no layer"),
    "torch in the web process": ({"app.py": "def f():\n    import torch.nn"}, "loads app -> torch"),
    "torch two steps away": (
        {"webui/a.py": "from utils.audio.b import c", "utils/audio/b.py": "from TTS.x import y"},
        "loads webui.a -> utils.audio.b -> TTS",
    ),
    "torch through a package": (
        {"webui/a.py": "import utils.audio.b", "utils/audio/__init__.py": "import torch", "utils/audio/b.py": ""},
        "loads webui.a -> utils.audio -> torch",
    ),
    "no docstring": ({"scripts/a.py": BARE + "x = 1"}, "no docstring"),
    "too long": ({"tests/a.py": "x = 1\n" * 400}, "401 lines"),
    "print": ({"utils/training/a.py": "print(1)"}, "print below the command line"),
    "torchaudio.load": ({"utils/audio/a.py": "import torchaudio as ta\nta.load('x')"}, "torchaudio.load is banned"),
    "from torchaudio": ({"utils/audio/a.py": "from torchaudio import load"}, "torchaudio.load is banned"),
    "torchcodec": ({"benchmarks/a.py": "from torchcodec.decoders import D"}, "torchcodec is banned"),
    "unsafe load": ({"utils/model/a.py": "import torch\ntorch.load('x')"}, "torch.load without weights_only=True"),
    "unsafe on purpose": ({"tests/a.py": "import torch\ntorch.load('x', weights_only=False)"}, "torch.load without"),
    "unsafe by name": ({"recipes/a.py": "from torch import load as l\nl('x')"}, "torch.load without"),
}
GOOD = {
    "utils/model/a.py": "import torch\nfrom utils.text.b import c\ntorch.load('x', weights_only=True)",
    "utils/cli/train.py": "from utils.gpt_train import train_gpt\nprint(1)",
    "utils/project/paths.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from torch import Tensor",
    "webui/interface.py": "import gradio as gr\nfrom webui.tabs.a import b\nimport utils.project.paths",
    "webui/tabs/a.py": "import gradio as gr\nb = gr.load",
    "tests/__init__.py": BARE,
    "tests/test_a.py": "import torchaudio.functional\ntorchaudio.functional.resample\nimport utils.cli.train",
}


def write_tree(root: Path, files: dict[str, str]) -> Path:
    for name, body in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body.removeprefix(BARE) if body.startswith(BARE) else DOC + body, encoding="utf-8")
    return root


@pytest.mark.parametrize(("files", "message"), BAD.values(), ids=BAD)
def test_the_checker_finds_a_breach(tmp_path, files, message):
    [problem] = find_problems(write_tree(tmp_path, files))
    assert message in problem


def test_the_checker_passes_what_is_allowed(tmp_path):
    assert find_problems(write_tree(tmp_path, GOOD)) == []
