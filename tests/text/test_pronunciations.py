"""Words of a table are replaced in a text: whole words, in the case they are written in."""

from pathlib import Path

import pytest

from utils.errors import UserError
from utils.text.pronunciations import pronounce, read_pronunciations

TABLE = """word,say,language
GPU,gee pee you,
New York,Nu Jork,de
New,Niu,
C++,see plus plus,en
"Smith, John",John Smith,
राम,X,
北京,Beijing,zh-cn
Cafe\u0301,Kaffee,de
Café,coffee place,
"""


@pytest.fixture
def path(tmp_path) -> Path:
    (tmp_path / "pronunciations.csv").write_text(TABLE, encoding="utf-8-sig")
    return tmp_path / "pronunciations.csv"


@pytest.mark.parametrize(
    ("language", "text", "said"),
    [
        ("en", "The GPU's GPUs, a gpu. GPU!", "The gee pee you's GPUs, a gpu. gee pee you!"),
        ("de", "New Yorker in New York", "Niu Yorker in Nu Jork"),
        ("en", "New York", "Niu York"),
        ("en", "C++ of Smith, John", "see plus plus of John Smith"),
        ("hi", "राम रामी", "X रामी"),
        ("zh", "我在北京住", "我在Beijing住"),
        ("de", "Café", "Kaffee"),
        ("en", "Cafe\u0301", "coffee place"),
    ],
)
def test_whole_words_are_replaced(path, language, text, said):
    found, used = pronounce(text, language, read_pronunciations(path))
    assert found == said and all(one.partition(": ")[2] in said for one in used) and used


def test_text_without_such_words_stays(path, tmp_path):
    assert pronounce("Nothing.", "en", read_pronunciations(path)) == ("Nothing.", [])
    assert pronounce("Nothing.", "en", read_pronunciations(tmp_path / "none.csv")) == ("Nothing.", [])


HEADER = b"word,say,language\n"


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (b"Dr;Doctor\n", 1, "Dr;Doctor"),
        (HEADER + b"GPU,,\n", 2, "GPU,,"),
        (HEADER + b"Dr,Doctor, so,en\n", 2, "more than three fields"),
        (HEADER + b'\nGPU,"gee,en\nTPU,tee,en\n', 3, "GPU,\"gee,en'"),
        (HEADER + b'TPU,tee,en\nGPU,"gee,en', 3, "GPU,\"gee,en'"),
        (HEADER + b'GPU,"gee\nTPU",x,en\n', 2, "GPU"),
        (HEADER + b"GPU,gee,english\n", 2, "'english'; use amh, ar,"),
        (HEADER + b"GPU,en,gee pee you\n", 2, "'gee pee you'"),
    ],
)
def test_table_that_is_none_is_refused_by_its_line(path, content, line, words):
    path.write_bytes(content)
    with pytest.raises(UserError, match="word,say,language") as error:
        read_pronunciations(path)
    assert error.value.where == f"{path}, line {line}" and words in error.value.what


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_table_in_another_encoding_is_refused_for_that(path, encoding):
    path.write_text("word,say,language\ncafé,ka fé,fr\n", encoding=encoding)
    with pytest.raises(UserError, match="not UTF-8") as error:
        read_pronunciations(path)
    assert error.value.where == str(path) and error.value.fix == "save the file again as UTF-8"


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_first_line_shows_what_is_between_the_columns(path, mark):
    rows = ['"word"', "say", "language"], ["GPU", f'"gee{mark} pee"', "en-US"], ["Lodz", "Woodge", ""], ["", "", ""]
    path.write_text("\r\n".join(map(mark.join, rows)), encoding="utf-8")
    assert read_pronunciations(path) == [("GPU", f"gee{mark} pee", "en"), ("Lodz", "Woodge", "")]
