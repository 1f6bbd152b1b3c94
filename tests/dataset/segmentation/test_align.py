"""A transcript gets the times of the recognized words; what only one side has is reported."""

from utils.audio.recognizer import Word
from utils.dataset.segmentation.align import align, with_deviations, word_units
from utils.dataset.segmentation.cut import Cut, CutLengths, cut_units


def _words(text: str, *, step: float = 0.4, lone: bool = False) -> list[Word]:
    pieces = list(text) if lone else [f" {word}" for word in text.split()]
    return [Word(start_s=round(i * step, 3), end_s=round(i * step + step, 3), text=p) for i, p in enumerate(pieces)]


def _cuts(transcript: str, words: list[Word]) -> list[Cut]:
    cuts = cut_units(align(transcript, words), [], duration_s=words[-1].end_s, limits=CutLengths(shortest_s=0.5))
    return with_deviations(cuts, words)


def test_the_transcript_stands_with_its_marks_and_recognized_times():
    transcript = "“Good morning,” he said — my Friend!"
    units = align(transcript, _words("good morning he said my friend"))
    assert " ".join(unit.text for unit in units) == transcript
    assert [unit.start_s for unit in units] == [0.0, 0.4, 0.8, 1.2, 1.6, 2.0]


def test_a_name_spelled_otherwise_is_no_deviation_to_speak_of():
    (cut,) = _cuts("It was Siobhan who visited us all that day.", _words("it was Shivawn who visited us all that day"))
    assert cut.fault is None and cut.text.startswith("It was Siobhan who")


def test_a_clip_in_which_something_else_is_said_is_reported_with_the_recognized_words():
    (cut,) = _cuts("The cat sat on the mat.", _words("a dog sat in my bed"))
    assert cut.fault and cut.fault.reason == "text differs" and "a dog sat in my bed" in cut.fault.detail


def test_a_passage_that_was_not_said_and_one_that_is_not_written():
    words = _words("one two three four and now some words from nowhere five six seven eight")
    units = align("one two three four five six seven eight and this was never said", words)
    details = [unit.fault.detail for unit in units if unit.fault]
    assert details[0].startswith("spoken, but not in the transcript: “and now some words from nowhere”")
    assert details[1].startswith("not found in the recording: “and this was never said”")
    assert [unit.text for unit in units if not unit.fault] == [
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
    ]


def test_scripts_without_spaces_are_aligned_letter_by_letter():
    units = align("你好，世界。", _words("你好世界", lone=True))
    assert [(unit.text, unit.start_s) for unit in units] == [("你", 0.0), ("好，", 0.4), ("世", 0.8), ("界。", 1.2)]


def test_a_long_transcript_is_aligned_in_time_that_grows_with_its_length():
    text = " ".join(f"word{number % 977} x{number}" for number in range(6_000))
    units = align(text, _words(text))
    assert len(units) == 12_000 and units[-1].start_s == 11_999 * 0.4 and not any(unit.fault for unit in units)


def test_nothing_recognized_and_nothing_written():
    assert align("", _words("one two three four five"))[0].fault is not None
    assert align("", []) == []


def test_pieces_without_a_space_belong_to_the_word_before():
    words = [
        Word(start_s=0, end_s=1, text=" well"),
        Word(start_s=1, end_s=2, text="-known"),
        Word(start_s=2, end_s=3, text=" —"),
    ]
    (unit,) = word_units(words)
    assert unit.text == "well-known —" and unit.end_s == 2
