"""Every component of the page by its id, "tab.component"."""

from collections.abc import Iterable
from typing import Any

import gradio as gr
from gradio.blocks import Block

from utils.errors import UserError
from webui import text
from webui.markup import lines


class Registry(dict[str, Any]):
    """Maps ids to components, typed Any because each kind has its own events; an id always belongs to one."""

    def add(self, tab: str, components: dict[str, Block]) -> None:
        """Register the components of one tab under "tab.name".

        Raises:
            ValueError: an id is taken already.
        """
        for name, component in components.items():
            key = f"{tab}.{name}"
            if key in self:
                raise ValueError(f"component id {key!r} is used twice")
            self[key] = component

    def expand(self, patterns: Iterable[str]) -> list[str]:
        """Ids in order, with a pattern such as "train.set_*" replaced by all ids that begin so.

        Raises:
            KeyError: a pattern or id names no component.
        """
        found: dict[str, None] = {}
        for pattern in patterns:
            prefix = pattern.removesuffix("*")
            keys = [key for key in self if key == pattern or (prefix != pattern and key.startswith(prefix))]
            if not keys:
                raise KeyError(pattern)
            found.update(dict.fromkeys(keys))
        return list(found)


def script_error(error: UserError) -> gr.Error:
    """gradio's form of a UserError; the text is escaped because the page shows messages as HTML."""
    return gr.Error(lines(text.on_page(error)), print_exception=False)
