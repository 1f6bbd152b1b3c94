"""docs/reliability.md promises nothing without a test: every test that it names exists, and every promise names one."""

import ast
import re
from pathlib import Path

from tests.sources import parsed

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")


def names_in(file: str) -> set[str]:
    body = parsed(ROOT / file).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)
    assert len([test for _, test in named if test]) > 30
    assert [(file, test) for file, test in named if test and test not in names_in(file)] == []


def test_every_promise_names_a_test() -> None:
    promises = PAGE[PAGE.index("## Promises") : PAGE.index("Not promised")]
    parts = re.split(r"\n(?=\*\*)", promises)[1:]
    assert len(parts) > 10
    assert [part.splitlines()[0] for part in parts if "::test_" not in part] == []
