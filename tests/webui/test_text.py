"""The words of the page: each name stands for one text, whichever tab it belongs to."""

import ast
from collections import Counter
from pathlib import Path

from webui import text


def test_no_two_tabs_give_one_name_to_different_words():
    names: Counter[str] = Counter()
    for path in Path(text.__file__).parent.glob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                names[node.name] += 1
            elif isinstance(node, ast.Assign):
                names.update(name.id for name in ast.walk(node) if isinstance(name, ast.Name) and _is_given(name))
    assert [name for name, count in names.items() if count > 1] == []


def _is_given(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)
