"""An extended vocabulary: old ids and segmentations stay, added tokens are produced, corpora of all kinds are read."""

import json
import random
import unicodedata
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as BpeTokenizer

from tests.text.alphabets import ALPHABETS
from utils.bases.base import Base
from utils.bases.extend import AddedLanguage, add_language, count_words
from utils.bases.find import find_base
from utils.bases.grow import EMBEDDING, HEAD, grown_state
from utils.errors import UserError
from utils.text.tokenizer import Tokenizer
from utils.text.vocabulary import corpus as corpus_module
from utils.text.vocabulary.corpus import extract, iter_texts, work_folder
from utils.text.vocabulary.extend import extend_vocabulary
from utils.text.vocabulary.learn import iter_words, learn_pieces
from utils.text.vocabulary.merge import BEYOND

WORDS = ["ሰላም", "ኢትዮጵያ", "አገር", "ነው", "ተማሪ", "ትምህርት", "ቤት", "መጽሐፍ", "ውሃ", "ቡና", "ጠዋት", "ማታ", "ልጅ", "ሴት", "ወንድ", "ሰው"]


@pytest.fixture(scope="module")
def text_file(tmp_path_factory) -> Path:
    chance = random.Random(1)
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    lines = [" ".join(chance.choice(["", "የ", "በ"]) + chance.choice(WORDS) for _ in range(7)) + "።" for _ in range(400)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def added(text_file, tmp_path_factory) -> AddedLanguage:
    return add_language(find_base("tiny"), "am", tmp_path_factory.mktemp("project"), corpus=text_file, target=160)


def test_old_ids_stay_and_new_ones_follow(added):
    old = json.loads(find_base("tiny").vocab.read_text(encoding="utf-8"))["model"]["vocab"]
    new = json.loads(added.base.vocab.read_text(encoding="utf-8"))["model"]["vocab"]
    assert old.items() <= new.items()
    assert sorted(set(new.values()) - set(old.values())) == list(range(len(old), len(new)))
    assert 90 <= len(added.extension.added) <= 160
    assert sorted(path.name for path in added.base.folder.parent.iterdir()) == ["base-amh"], "nothing temporary stays"


def test_each_added_join_is_produced_by_a_word_of_the_corpus(added, text_file):
    bpe = BpeTokenizer.from_file(str(added.base.vocab))
    produced = {token for words in iter_words(text_file, "amh") for word in words for token in bpe.encode(word).tokens}
    joins = {token for token in added.extension.added if len(token) > 1}
    assert joins and joins <= produced


ALPHABET = [*"abcdefghijklmnopqrstuvwxyzàéñöüßčžğ.,!?'-", *map(chr, (*range(0x430, 0x450), *range(0x621, 0x63B)))]


@given(text=st.text(alphabet=[*ALPHABET, " "], max_size=60))
def test_segmentations_of_old_letters_never_change(added, text):
    assert added.base.tokenizer().segments(text) == find_base("tiny").tokenizer().segments(text)


@given(data=st.data())
def test_ids_of_a_random_sentence_of_an_old_language_never_change(added, data):
    language = data.draw(st.sampled_from(sorted(set(ALPHABETS) - {"amh"})))
    text = data.draw(st.text(alphabet=ALPHABETS[language] + " .,?!", max_size=40))
    old, new = find_base("tiny").tokenizer(), added.base.tokenizer()
    assert new.encode(text, language) == old.encode(text, language)


@given(text=st.text(alphabet=[*"ሰላምኢትዮጵያአገርነውተማሪትህቤመጽሐፍውቡ", *"abcdefgh", *" .,?!፣።"], max_size=40))
def test_what_is_encoded_is_decoded(added, text):
    tokenizer = added.base.tokenizer()
    assert tokenizer.decode(tokenizer.encode(text, "am")) == "[amh]" + tokenizer.normalize(text, "am")


SCRIPTS = {
    "bn": "আমার সোনার বাংলা, আমি তোমায় ভালোবাসি।",
    "ta": "தமிழ் மொழி அழகானது.",
    "th": "สวัสดีครับ ผมรักเมืองไทย",
    "km": "ខ្ញុំស្រឡាញ់ភាសាខ្មែរ។",
    "my": "ကျွန်တော် မြန်မာစာ ချစ်တယ်။",
    "bo": "བཀྲ་ཤིས་བདེ་ལེགས།",
    "hy": "Ինչպե՞ս եք։ Բարև ձեզ, «ընկեր»։",
    "fa": "من می\u200cخواهم بروم؛ چطوری؟",
    "ur": "یہ کتاب ہے۔ کیا حال ہے؟",
    "he": "שָׁלוֹם, מה שלומך? בית־ספר צה״ל",
    "el": "Γειά σου· τι κάνεις; “καλά”",
    "yo": "Ẹ kú àárọ̀ o, ṣé dáadáa ni?",
    "vi": "Xin chào, tôi thường học tiếng Việt.",
    "ti": "ሰላም ዓለም። ከመይ ኣለኻ፧",
}


@pytest.mark.parametrize(("language", "text"), SCRIPTS.items(), ids=SCRIPTS)
def test_every_script_can_be_added_with_its_vowels_marks_and_stops(language, text, tmp_path):
    """Vowels of many scripts are marks, not letters; a full stop of their own would leave each clip out."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(f"{text}\n" * 20, encoding="utf-8")
    work = tmp_path / "work"
    work.mkdir()
    pieces = learn_pieces(corpus, language, size=80, coverage=1.0)
    added = extend_vocabulary(
        find_base("tiny").vocab, language, pieces, target=100, words=count_words(corpus, language, work)
    )
    (tmp_path / "vocab.json").write_text(added.content, encoding="utf-8")
    tokenizer = Tokenizer(tmp_path / "vocab.json")
    assert tokenizer.unknown_characters(text, language) == []
    ids = tokenizer.encode(text, language)
    assert tokenizer.decode(ids) == f"[{language}]" + tokenizer.normalize(text, language)
    assert any(len(token) > 1 for token in added.added), "marks are joined with their letters"


def test_old_rows_stay_and_new_rows_have_the_scale_of_old_ones(added):
    old, new = find_base("tiny").state(), added.base.state()
    rows = old[EMBEDDING].shape[0]
    for name in (EMBEDDING, HEAD):
        assert torch.equal(new[name][:rows], old[name])
        median = old[name].norm(dim=1).median()
        assert (new[name][rows:].norm(dim=1) - median).abs().max() < 1e-4 * median


def test_an_extended_base_takes_another_language(added, tmp_path):
    corpus = tmp_path / "ka.jsonl"
    corpus.write_text("\n".join(json.dumps({"text": "მე მიყვარს საქართველო"}) for _ in range(20)), encoding="utf-8")
    again = add_language(added.base, "ka", tmp_path / "p", corpus=corpus, target=30)
    assert {"amh", "ka", "en"} <= set(again.base.tokenizer().languages)
    before = added.base.tokenizer().encode("የትምህርት ቤት", "am")
    assert again.base.tokenizer().encode("የትምህርት ቤት", "am") == before
    assert again.base.dvae == find_base("tiny").dvae
    assert not (tmp_path / "p" / ".corpus-ka").exists()


def test_fewer_tokens_than_letters_are_given_to_letters_and_the_rest_is_told(text_file, tmp_path):
    made = add_language(find_base("tiny"), "am", tmp_path, corpus=text_file, target=12).extension
    assert len(made.added) == 12 and all(len(token) == 1 for token in made.added)
    assert made.reasons[BEYOND] > 10


def test_holes_in_the_ids_are_left_alone(tmp_path):
    data = json.loads(find_base("tiny").vocab.read_text(encoding="utf-8"))
    last = max(data["model"]["vocab"].values())
    data["model"]["vocab"]["ж ж".replace(" ", "")] = last + 3
    vocab = tmp_path / "vocab.json"
    vocab.write_text(json.dumps(data), encoding="utf-8")
    assert min(extend_vocabulary(vocab, "amh", ["ሀ"]).pieces) == last + 4


def test_weights_of_another_vocabulary_are_refused_with_both_sizes():
    state = find_base("tiny").state()
    rows = state[EMBEDDING].shape[0]
    with pytest.raises(UserError, match=f"have {rows} text rows, the vocabulary needs {rows + 5}"):
        grown_state(state, {rows: [1]}, rows=rows + 5)


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.txt", ""), ("a.txt", "12 34\n5"), ("a.csv", "text|x\n"), ("a.json", "[]")],
    ids=["empty", "digits", "no rows", "empty list"],
)
def test_a_corpus_without_words_is_refused_and_leaves_no_base(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match="no words"):
        add_language(find_base("tiny"), "xx", tmp_path / "p", corpus=tmp_path / name, target=10)
    assert not (tmp_path / "p").exists() or not any((tmp_path / "p").iterdir()), "nothing to resume from is kept"


@pytest.mark.parametrize(
    ("name", "content"), [("a.csv", "a,b\n1,2\n"), ("a.json", "{}"), ("a.jsonl", "{"), ("a.json", '["x"')]
)
def test_a_file_that_is_no_corpus_is_refused(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match="corpus cannot be read"):
        list(iter_texts(tmp_path / name))


def test_a_vocabulary_that_is_no_tokenizer_is_refused(tmp_path):
    (tmp_path / "vocab.json").write_text("{}")
    with pytest.raises(UserError, match="not a tokenizer"):
        extend_vocabulary(tmp_path / "vocab.json", "amh")


CORPORA = {
    "mixed scripts": ("ሰላም Привет hello 你好 ሰላም Привет hello 你好\n" * 20, "am"),
    "right to left with Latin": ("שלום hello עולם, זה windows חדש\n" * 20, "he"),
    "emoji": ("გამარჯობა 😀 👩\u200d👩\u200d👧 საქართველო 🇬🇪\n" * 20, "ka"),
    "zero width": ("გამარ\u200bჯობა \ufeffსაქარ\u00adთველო\u2060\n" * 20, "ka"),
    "one long line": ("გამარჯობა საქართველო " * 2_000, "ka"),
    "one long word": ("გამარჯობა" * 4_000, "ka"),
}


@pytest.mark.parametrize(("content", "language"), CORPORA.values(), ids=CORPORA)
def test_odd_corpora_give_tokens_of_letters_and_nothing_else(tmp_path, content, language):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(content, encoding="utf-8")
    made = add_language(find_base("tiny"), language, tmp_path / "p", corpus=corpus, target=30)
    assert 5 <= len(made.extension.added) <= 30
    assert all(char.isalpha() or unicodedata.combining(char) for token in made.extension.added for char in token)
    assert [path.name for path in (tmp_path / "p").iterdir()] == [f"base-{'amh' if language == 'am' else language}"]


RULED = [*"ሰላምኢትዮጵያአገርነውተማሪትምህርትቤትመጽሐፍውሃቡና", *"0123456789 .,%$።፣", "ዓ.ም", "ወ/ሮ", "፻", "፼"]


@given(parts=st.lists(st.sampled_from(RULED), max_size=20))
def test_what_the_rules_write_is_in_the_extended_vocabulary(added, parts):
    """The corpus has no numbers: their words' letters are added all the same."""
    assert added.base.tokenizer().unknown_characters("".join(parts), "am") == []


def test_a_line_of_a_megabyte_comes_in_parts_that_keep_words(tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("selam alem " * 100_000, encoding="utf-8")
    parts = list(iter_texts(path))
    assert max(map(len, parts)) <= corpus_module.LONGEST_LINE
    assert {word for part in parts for word in part.split()} == {"selam", "alem"}


def test_an_interrupted_extraction_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_module, "SAVE_EVERY", 10)
    path, work = tmp_path / "a.jsonl", tmp_path / "work"
    path.write_text("\n".join(json.dumps({"text": f"line {number}"}) for number in range(95)), encoding="utf-8")
    whole = corpus_module.iter_texts

    def cut(source: Path):
        for number, text in enumerate(whole(source)):
            if number == 57:
                raise KeyboardInterrupt
            yield text

    monkeypatch.setattr(corpus_module, "iter_texts", cut)
    with pytest.raises(KeyboardInterrupt), work_folder(work):
        extract(path, work)
    assert json.loads((work / "progress.json").read_text())["rows"] == 50
    monkeypatch.setattr(corpus_module, "iter_texts", whole)
    with work_folder(work):
        assert extract(path, work).read_text().splitlines() == [f"line {number}" for number in range(95)]
    assert not work.exists()


def test_old_language_speech_is_unchanged(added):
    from tests.decoding import greedy
    from utils.inference.engine import Synthesizer

    old, new = Synthesizer(find_base("tiny")), Synthesizer(Base(added.base.folder))
    voice = next(iter(old.speakers().values()))
    tokens = old.tokenizer.encode("Hello there.", "en")
    assert new.tokenizer.encode("Hello there.", "en") == tokens
    said = [greedy(each.gpt, voice.latents, tokens, limit=20) for each in (old, new)]
    assert torch.equal(said[0][0], said[1][0])
    assert (said[0][1] - said[1][1]).abs().max() <= 1e-6
