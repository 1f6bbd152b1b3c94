"""Python files of the project as syntax trees."""

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """The tree of a file.

    CPython 3.11 and 3.12 count the depth of a tree in one place for all threads, and a collection of garbage in the
    middle of `ast.parse` lets another thread parse (numpy reads the header of an .npy file that way): "AST constructor
    recursion depth mismatch". So nothing is collected meanwhile.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    finally:
        if collects:
            gc.enable()
