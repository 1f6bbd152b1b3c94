"""Import gradio without the type stubs that it writes of its components each time: they are half of the import."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def without_stubs() -> Iterator[None]:
    """Meanwhile gradio's classes have no source file, and gradio skips the stub of a component without one."""
    find = inspect.getfile

    def find_of_others(thing: Any) -> str:
        if inspect.isclass(thing) and thing.__module__.partition(".")[0] == "gradio":
            raise OSError(f"{thing} gets no stub")
        return find(thing)

    inspect.getfile = find_of_others  # type: ignore[assignment]
    try:
        yield
    finally:
        inspect.getfile = find
