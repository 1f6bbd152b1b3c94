"""Each package stays within its budget of syntax nodes (tests/budget.toml), so that code does not grow unnoticed."""

import ast
import tomllib
from collections import Counter

from tests.sources import parsed
from tests.test_architecture import CODE, ROOT, read_modules


def size(tree: ast.AST) -> int:
    """Syntax nodes without docstrings and contexts: comments and docstrings cost nothing."""
    found = [node for node in ast.walk(tree) if not isinstance(node, ast.expr_context)]
    texts = (node for node in found if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    return len(found) - 2 * sum(isinstance(node.value.value, str) for node in texts)


def test_packages_stay_within_their_budget() -> None:
    sizes: Counter[str] = Counter()
    for module in read_modules(ROOT):
        parts = module.path.relative_to(ROOT).parts
        is_package = parts[0] in ("utils", "webui") and len(parts) > 2
        sizes["/".join(parts[:2]) if is_package else parts[0]] += size(parsed(module.path))
    budget = tomllib.loads((ROOT / "tests" / "budget.toml").read_text(encoding="utf-8"))["nodes"]
    assert set(sizes) <= set(budget), f"no budget in tests/budget.toml: {sorted(set(sizes) - set(budget))}"
    assert {name: nodes for name, nodes in sizes.items() if nodes > budget[name]} == {}, "raise it with a reason"
    assert {path.split("/")[0] for path in budget} == set(CODE)
