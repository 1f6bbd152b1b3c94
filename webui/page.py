"""Gradio's page, with cheaper polls, in several languages."""

import copy
import threading
from collections.abc import Callable, Iterable
from typing import Any

import gradio as gr
from gradio.block_function import BlockFunction
from gradio.blocks import Block
from gradio.state_holder import SessionState

from webui.studio import Studio
from webui.text.catalog import SOURCE, language


class Page(gr.Blocks):
    """Does not build anew what an answer leaves as it is, and keeps of each component one.

    gradio makes a new component, and describes it, for each output of an event, whether it changes or not. The page
    asks every few seconds about dozens of components, of which few change. What gradio makes has an id of its own,
    under which it is kept for as long as the session, beside all that were made before it.
    """

    studio: Studio
    """The app's state behind it."""
    lay_out: Callable[[], Any]
    """Puts all components on a page, in the language that is spoken."""
    _said: dict[str, dict[str, Any]]
    """gradio's description of the page by language."""
    _lock = threading.Lock()

    @property
    def config(self) -> Any:
        """gradio's description of the page in the language that is spoken.

        Another language than the source is laid out when it is first asked for. Its components are those of the page
        in other words: what was made first in one was made first in the other.

        Raises:
            RuntimeError: the layouts differ in more than their words.
        """
        code = language()
        if code not in self._said and hasattr(self, "lay_out"):
            with self._lock:
                if code not in self._said:
                    self._said[code] = self._in_other_words()
        return self._said.get(code) or self._said.get(SOURCE) or {}

    @config.setter
    def config(self, found: Any) -> None:
        self._said = {SOURCE: found}

    def _in_other_words(self) -> dict[str, Any]:
        with Page(analytics_enabled=False) as other:
            self.lay_out()
        source, words = self._said[SOURCE], other._said[SOURCE]["components"]
        components = source["components"]
        if [one["type"] for one in words] != [one["type"] for one in components[: len(words)]]:
            raise RuntimeError("a page in another language has other components")
        said = [one | {"props": two["props"]} for one, two in zip(components, words, strict=False)]
        return {**source, "components": [*said, *components[len(words) :]]}

    async def postprocess_data(
        self, block_fn: BlockFunction, predictions: list[Any] | dict[Any, Any], state: SessionState | None
    ) -> list[Any]:
        if not (isinstance(predictions, dict) and predictions and all(isinstance(key, Block) for key in predictions)):
            values = await super().postprocess_data(block_fn, predictions, state)
            _keep_ids(block_fn.outputs, state)
            return values
        # Only dicts are compared: a data frame cannot be.
        outputs = {
            block: value for block, value in predictions.items() if not (isinstance(value, dict) and value == gr.skip())
        }
        if not outputs:
            return [gr.skip() for _ in block_fn.outputs]
        changed = copy.copy(block_fn)
        changed.outputs = [block for block in block_fn.outputs if block in outputs]
        values = await super().postprocess_data(changed, outputs, state)
        _keep_ids(changed.outputs, state)
        new = dict(zip(changed.outputs, values, strict=True))
        return [new.get(block, gr.skip()) for block in block_fn.outputs]


def _keep_ids(blocks: Iterable[Block], state: SessionState | None) -> None:
    """Call what gradio made for a session like what it stands for, so that both are kept in one place."""
    for block in blocks:
        if state is not None and not block.stateful and block._id in state:
            state[block._id]._id = block._id
