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


ROWS = (b"GPU,,\n", b"\xff,x,\n", b"Dr,Doctor, so,en\n")


@pytest.mark.parametrize("content", [b"Dr;Doctor\n", *(b"word,say,language\n" + row for row in ROWS)])
def test_table_that_is_none_is_refused_by_its_path(path, content):
    path.write_bytes(content)
    with pytest.raises(UserError, match="word,say,language") as error:
        read_pronunciations(path)
    assert error.value.where == str(path)
