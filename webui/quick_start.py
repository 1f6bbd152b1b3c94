"""Import gradio and the page's modules in two thirds of the time of a plain import."""

import gc
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


def load_interface() -> ModuleType:
    """The module `webui.interface`; the first call takes a second or two."""
    with _without_collector():
        with _without_stubs():
            import gradio  # noqa: F401
        import webui.interface

    return webui.interface


@contextmanager
def _without_collector() -> Iterator[None]:
    """What is imported stays: the collector need not look for garbage in it, now or while the page is served."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def _without_stubs() -> Iterator[None]:
    """For importing gradio: it would parse its own source to write stubs (.pyi) for editors, a second at every start.

    It leaves them out for classes that lie in no file, which this makes of all.
    """

    def in_no_file(_: object) -> str:
        raise OSError("no stubs are wanted")

    before, inspect.getfile = inspect.getfile, in_no_file  # type: ignore[assignment]
    try:
        yield
    finally:
        inspect.getfile = before
