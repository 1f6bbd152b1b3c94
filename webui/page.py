"""gradio's page, with the app behind it and its words in other languages."""

import contextvars
import threading
from collections.abc import Callable
from typing import Any

import gradio as gr

from webui.studio import Studio
from webui.text.catalog import SOURCE, language, speaking

WORDS = ("label", "info", "placeholder", "value", "choices", "headers", "submit_btn")
"""Properties of components that hold words."""


class Page(gr.Blocks):
    """Is built in the language of the source; a browser that asks in another one is sent the words that differ."""

    studio: Studio
    """The app's state behind it."""
    lay_out: Callable[[], Any]
    """Puts all components on a page, in the language that is spoken."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._lock, self._words = threading.Lock(), {SOURCE: dict[str, Any]()}

    def words(self) -> dict[str, Any]:
        """Updates of the components whose words differ in the language that is spoken, by their number on the page.

        A language is laid out when it is first asked for: what was made first in one was made first in the other.

        Raises:
            RuntimeError: the layouts differ in more than their words.
        """
        code = language()
        with self._lock:
            if code not in self._words:
                # Where gradio answers an event it makes no components, but updates.
                self._words[code] = contextvars.Context().run(self._in_other_words, code)
            return self._words[code]

    def _in_other_words(self, code: str) -> dict[str, Any]:
        with speaking(code), Page(analytics_enabled=False) as other:
            self.lay_out()
        source, words = self.config["components"], other.config["components"]
        if [one["type"] for one in words] != [one["type"] for one in source[: len(words)]]:
            raise RuntimeError("a page in another language has other components")
        found = {}
        for one, two in zip(source, words, strict=False):
            before, after = one["props"], two["props"]
            new = {name: after[name] for name in WORDS if name in after and after[name] != before.get(name)}
            if new:
                found[str(one["id"])] = gr.update(**new)
        return found
