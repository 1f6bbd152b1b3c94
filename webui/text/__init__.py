"""All text on the page, in each of its languages: one file for each tab.

The modules are made once for each language (`catalog.speaking`), constants and all. A text that is asked for here is
that of the language spoken where it is asked for.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from webui.text import catalog

if TYPE_CHECKING:
    from webui.text.common import *  # noqa: F403
    from webui.text.data import *  # noqa: F403
    from webui.text.inference import *  # noqa: F403
    from webui.text.language import *  # noqa: F403
    from webui.text.settings import *  # noqa: F403
    from webui.text.system import *  # noqa: F403
    from webui.text.training import *  # noqa: F403

MODULES = ("common", "data", "inference", "language", "settings", "system", "training")


def _made(code: str) -> dict[str, Any]:
    """All texts of one language by name."""
    names = [f"{__name__}.{module}" for module in MODULES]
    for name in names:
        sys.modules.pop(name, None)
    with catalog.speaking(code):
        modules = [importlib.import_module(name) for name in names]
    return {name: value for module in modules for name, value in vars(module).items() if not name.startswith("_")}


# The source language last: its modules are those that stay imported.
TEXTS = {code: _made(code) for code in sorted(catalog.PAGE_LANGUAGES, key=catalog.SOURCE.__eq__)}
"""The texts by language and name."""


def __getattr__(name: str) -> Any:
    try:
        return TEXTS[catalog.language()][name]
    except KeyError:
        raise AttributeError(f"there is no text {name}") from None
