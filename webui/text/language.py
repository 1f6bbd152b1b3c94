"""Texts of the language panel in tab 1."""

from webui.text.catalog import _, ngettext

LANGUAGE_PANEL = _("Language support")
LANGUAGE_PANEL_HELP = _(
    "A base model supports the characters in its vocabulary. Check it when your language is not in the list above, or "
    "when clips are dropped for unsupported characters. The check uses the text file below, or the dataset's training "
    "clips."
)
CORPUS = _("Text in the language (optional: .txt, .csv, .json, .jsonl)")
LOOK_AT_LANGUAGE = _("Check language support")
LOOK_STARTED = _("Checking the texts ...")
NEW_TOKENS = _("New tokens")
NEW_TOKENS_HELP = _("Maximum number of tokens to add; 0 adds the language token only.")
EXTEND_BASE = _("Extend the base model")
LATIN_BASE = _("Create a base for Amharic in Latin script")
ADOPT_BASE = _("Use the extended base for this project")
ADOPTED = _("The project now uses the extended base. Create the dataset again (Step 1), then train.")
NO_EXTENDED_BASE = _("this project has no extended base yet")
NO_EXTENDED_BASE_FIX = _("extend the base model first")
LOOKING_NOW = _("a language job of this project is already running")
LOOKING_NOW_FIX = _("wait until it is finished")
NO_TEXTS = _("there are no texts to check yet")
NO_TEXTS_FIX = _("upload a text file in the language, or create the dataset first (Step 1)")
NO_LANGUAGE = _("no language is selected")
NO_LANGUAGE_FIX = _("select one at the top of the page, or enter its code")
READING_COLUMNS = ("", _("Before"), _("After"))
READING_COLUMN = ("", _("Now"))
READING_ROWS = {
    "texts": _("Texts"),
    "tokens_per_word": _("Tokens per word"),
    "tokens_per_second": _("Tokens per second of speech"),
    "over_limit": _("Longer than the base's limit"),
    "unknown": _("Unsupported characters"),
}
NO_UNKNOWN = _("none")
NO_SOUND = _("no recordings provided")
SEGMENTATION = _("Tokenized examples")
READ_LITERALLY = _("No text normalization rule; kept as written")
ADVICE = _("Advice")
NO_READING = _("The last result cannot be read. Run the check again.")
MADE_BASE = _("Extended base created")
NEXT_BASE = _("The new base will be called {name}. Earlier ones are kept, and all of them are listed under Base model.")
EXTENDING = _("Creating the base {name} with new tokens ...")
LATIN_STARTED = _("Creating the base {name} for Amharic in Latin script ...")
ADOPT = _("Use {name} for this project")


def share_over(count: int, total: int, limit: int) -> str:
    """Texts over the limit."""
    return _(
        "{count:,} of {total:,} ({share:.1%}; limit {limit} tokens)",
        count=count,
        total=total,
        share=count / max(total, 1),
        limit=limit,
    )


def unknown_letters(shown: str, more: int) -> str:
    """Letters without a token, with their counts."""
    if more <= 0:
        return shown
    return ngettext("{shown}, and {more} more", "{shown}, and {more} more", more, shown=shown, more=more)


READING_TITLE = _("{language} with base {base}, texts from {source}")
