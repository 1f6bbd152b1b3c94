"""Encodings: recognized by their marks or letters, or named."""

import pytest

from utils.dataset.formats.code_pages import guess_encoding
from utils.dataset.formats.textfile import read_text
from utils.errors import UserError

TEXT = "Grüße, ሰላም።\nשלום\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_unicode_is_recognised(tmp_path, encoding):
    (tmp_path / "a.txt").write_bytes(TEXT.replace("\n", "\r\n").encode(encoding))
    assert read_text(tmp_path / "a.txt") == TEXT


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_is_recognised_by_ascii(tmp_path, encoding):
    (tmp_path / "a.txt").write_bytes(f"a.wav|{TEXT}".encode(encoding))
    assert read_text(tmp_path / "a.txt") == f"a.wav|{TEXT}"


PAGES = {
    ("ru", "cp1251"): "a.wav|Доброе утро — №5 «Ёлка» из СССР.",
    ("uk", "cp1251"): "Ґанок і їжак є.",
    ("de", "cp1252"): "Schöne Grüße, “Öl” kostet 5 € – Größe…",
    ("fr", "cp1252"): "Une œuvre créée à l'été.",
    ("ja", "cp932"): "a.wav|おはようございます。東京（日本）です",
}


@pytest.mark.parametrize(("language", "page"), PAGES)
def test_letters_of_a_language_show_the_code_page_and_no_other(tmp_path, language, page):
    text, path = PAGES[language, page], tmp_path / "a.txt"
    path.write_bytes(text.encode(page))
    assert guess_encoding(path, language) == page and read_text(path, other=page) == text
    others = ("utf-8", "utf-16", "utf-16-le", "koi8-u", "cp866", "cp850", "mac_roman", "cp1250", "euc-jp", "gb18030")
    for other in others:
        try:
            path.write_bytes(text.encode(other))
        except UnicodeEncodeError:
            continue
        guessed = guess_encoding(path, language)
        assert guessed is None or path.read_bytes().decode(guessed) == text, other


@pytest.mark.parametrize(
    ("language", "content"),
    [
        ("es", "Está más allá.".encode("cp850")),
        ("es", "La canción.".encode("mac_roman")),
        ("fr", "Il va à Paris, où il vit.".encode("cp850")),
        ("de", "Die Straße.".encode("cp850")),
        ("en", "“Hello,” he said — again…".encode("mac_roman")),
        ("en", "A café.".encode("cp850")),
        ("en", "They don’t.\n".encode() + "A café.\n".encode("cp1252")),
        ("de", "Übung macht Öl.\n".encode() + "Für\n".encode("cp1252")),
        ("pt", "Não é à toa.\n".encode() + "Só\n".encode("cp1252")),
    ],
)
def test_a_sentence_of_another_page_or_of_two_is_not_guessed(tmp_path, language, content):
    """The letters of DOS and of old Macs are marks here, so that few of them look like text."""
    (tmp_path / "a.txt").write_bytes(content)
    assert guess_encoding(tmp_path / "a.txt", language) is None


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "“Hello,” he said – it’s £5… naïve—yes."),
        ("es", "¿Está más allá? Ñandú, el 1º ¡Él!"),
        ("fr", "« Il va à Paris », où l’œuvre coûte 5 €… Écoute !"),
        ("it", "È così perché la città è là."),
        ("fi", "Hyvää päivää."),
    ],
)
def test_sentences_of_windows_are_read(tmp_path, language, text):
    (tmp_path / "a.txt").write_bytes(text.encode("cp1252"))
    assert guess_encoding(tmp_path / "a.txt", language) == "cp1252"


def test_other_encodings_must_be_named(tmp_path):
    (tmp_path / "a.txt").write_bytes("one\ncafé".encode("latin-1"))
    with pytest.raises(UserError, match="not UTF-8") as caught:
        read_text(tmp_path / "a.txt")
    assert "line 2" in caught.value.where and "--encoding" in caught.value.fix
    assert read_text(tmp_path / "a.txt", other="latin-1") == "one\ncafé"


def test_a_wrong_name_is_told(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\n\xff\xfe")
    with pytest.raises(UserError, match="neither UTF-8 nor ascii"):
        read_text(tmp_path / "a.txt", other="ascii")


def test_a_torn_utf16_file_is_refused(tmp_path):
    (tmp_path / "a.txt").write_bytes("abc".encode("utf-16")[:-1])
    with pytest.raises(UserError, match="not UTF-8"):
        read_text(tmp_path / "a.txt")


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_text(tmp_path / "none.txt")
