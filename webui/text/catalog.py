"""The translations of the page's words: gettext, chosen once from the language of the server's environment.

Every visible text of this package passes through `_`, or `ngettext` where it counts something. `messages.pot` lists
them (`make messages`); a translation is locale/LANGUAGE/LC_MESSAGES/messages.mo. Without one the texts are English.
"""

import gettext
from pathlib import Path

DOMAIN = "messages"
LOCALE = Path(__file__).parent / "locale"

_translations = gettext.translation(DOMAIN, LOCALE, fallback=True)
_, ngettext = _translations.gettext, _translations.ngettext
engine_text = _translations.gettext
"""For texts that the engine brings: `make messages` knows where they stand, as they are no literals here."""
