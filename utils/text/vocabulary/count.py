"""Count the words of a corpus; an interrupted count resumes."""

from collections import Counter
from itertools import islice
from pathlib import Path

from utils.text.vocabulary.corpus import fingerprint, iter_texts, read_note, save_note
from utils.text.vocabulary.learn import read_words

MOST_TEXTS = 200_000
"""Texts that are counted."""
SAVE_EVERY = 20_000
"""Texts between notes of how far a count is."""


def count_words(texts: Path, language: str, work: Path) -> Counter[str]:
    """The normalized words of the first `MOST_TEXTS` texts.

    Args:
        texts: plain text, a text a line.
        language: its code.
        work: folder of the note from which a count that was interrupted goes on; whoever made it removes it.
    """
    note, source = work / "words.json", [*fingerprint(texts), language]
    saved = read_note(note, source)
    done, counts = saved.get("texts", 0), Counter[str](saved.get("counts"))
    number = done
    for number, text in enumerate(islice(iter_texts(texts), done, MOST_TEXTS), start=done + 1):
        counts.update(read_words(text, language))
        if number % SAVE_EVERY == 0:
            save_note(note, source=source, texts=number, counts=counts)
    save_note(note, source=source, texts=number, counts=counts)
    return counts
