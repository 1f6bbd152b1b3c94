"""The words of the page: each name stands for one text, whichever tab it belongs to."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.sources import parsed
from webui import text


def test_no_two_tabs_give_one_name_to_different_words():
    names: Counter[str] = Counter()
    for path in Path(text.__file__).parent.glob("*.py"):
        for node in parsed(path).body:
            if isinstance(node, ast.FunctionDef):
                names[node.name] += 1
            elif isinstance(node, ast.Assign):
                names.update(name.id for name in ast.walk(node) if isinstance(name, ast.Name) and _is_given(name))
    assert [name for name, count in names.items() if count > 1] == []


def _is_given(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


@pytest.mark.parametrize(
    ("engine", "page"),
    [
        ("no text; --transcriber small would write it", "no text; “Transcribe with Whisper” small would write it"),
        ("with --gradient-checkpointing it may fit", "with “Gradient Checkpointing” it may fit"),
        ("--workers 1 needs the least", "“Worker processes” 1 needs the least"),
        ("start the app with --input-root FOLDER", "start the app with --input-root FOLDER"),
        ("a--workers, C:\\x--seed", "a--workers, C:\\x--seed"),
    ],
)
def test_settings_are_called_as_the_page_calls_them(engine, page):
    assert text.on_page(engine) == page


def test_handlers_have_no_words_of_their_own():
    """What a message says, and its advice, comes from webui.text."""
    own = []
    for path in (Path(text.__file__).parents[1] / "handlers").glob("*.py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "UserError":
                words = [word.value for word in node.keywords if word.arg in ("what", "fix")]
                own += [
                    f"{path.name}:{word.lineno}" for word in words if isinstance(word, ast.JoinedStr | ast.Constant)
                ]
    assert own == []
