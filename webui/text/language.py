"""Words of the language panel in tab 1."""

LANGUAGE_PANEL = "Language: can the base read it?"
LANGUAGE_PANEL_HELP = (
    "A base reads the letters its tokens know. Look here first when the language is not in the list above, or when "
    "clips are left out for unknown letters. The look uses the text file below, or else the dataset's training clips."
)
CORPUS = "Text in the language (optional: .txt, .csv, .json, .jsonl)"
LOOK_AT_LANGUAGE = "See how the base reads it"
LOOK_STARTED = "The texts are being read."
NEW_TOKENS = "New tokens"
NEW_TOKENS_HELP = "At most so many; 0 adds the language's own token only."
EXTEND_BASE = "Extend the base"
LATIN_BASE = "Base that reads Amharic in Latin letters"
ADOPT_BASE = "Use the extended base for this project"
ADOPTED = "The project uses the extended base now. Make the dataset again (Step 1), then train."
NO_EXTENDED_BASE = "no base was made for this project yet"
NO_EXTENDED_BASE_FIX = "extend the base first"
LOOKING_NOW = "the language of this project is being looked at already"
LOOKING_NOW_FIX = "wait until that is done"
NO_TEXTS = "there are no texts to read yet"
NO_TEXTS_FIX = "give a text file in the language, or make the dataset first (Step 1)"
NO_LANGUAGE = "no language is chosen"
NO_LANGUAGE_FIX = "choose one at the top of the page, or type its code"
READING_COLUMNS = ("", "before", "after")
READING_COLUMN = ("", "now")
READING_ROWS = {
    "texts": "Texts",
    "tokens_per_word": "Tokens a word",
    "tokens_per_second": "Tokens a second of speech",
    "over_limit": "Longer than the base's limit",
    "unknown": "Unknown letters",
}
NO_UNKNOWN = "none"
NO_SOUND = "no recordings given"
SEGMENTATION = "Cut into tokens like this"
READ_LITERALLY = "No rule to read these in words; they are read as they stand"
ADVICE = "Advice"
NO_READING = "What was found cannot be read; look again."
MADE_BASE = "The extended base is ready"


def next_base(name: str) -> str:
    """What a base that is made now will be called."""
    return f"A base made here is called {name}; those made before stay. All of them are offered under Base model."


def extending(name: str) -> str:
    """A base with new tokens is being made."""
    return f"The base {name} with new tokens is being made."


def latin_started(name: str) -> str:
    """A base for Amharic in Latin letters is being made."""
    return f"The base {name}, which reads Amharic in Latin letters, is being made."


def adopt(name: str) -> str:
    """Use the base that was made last."""
    return f"Use {name} for this project"


def share_over(count: int, total: int, limit: int) -> str:
    """Texts over the limit."""
    return f"{count:,} of {total:,} ({count / max(total, 1):.1%}; limit {limit} tokens)"


def unknown_letters(shown: str, more: int) -> str:
    """Letters without a token, with their counts."""
    return f"{shown}, and {more} more" if more > 0 else shown


def reading_title(language: str, base: str, source: str) -> str:
    """What was read with what."""
    return f"{language} as {base} reads it, in {source}"
