"""Sentences that are spoken side by side, in chunks or again, are what they are alone."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.decoding import decoded, said
from tests.inference.stock import load_stock, stock_greedy
from utils.bases.base import Base
from utils.bases.find import find_base
from utils.inference import decode as decoding
from utils.inference import guards
from utils.inference.batch import Piece, SpeechBatch, Utterance, derived_seed
from utils.inference.cached_attention import attend_at_once, attend_by_slot
from utils.inference.decode import Decoder, Sentence
from utils.inference.engine import Synthesizer
from utils.inference.guards import Judgement, judge
from utils.inference.sentence import draw
from utils.options import SpeechSettings

TEXTS = ["The train was late again.", "It rained.", "She painted the door blue.", "Nobody knew."]
GREEDY = SpeechSettings(temperature=0, repetition_penalty=2.0)


@pytest.fixture(scope="module")
def tiny(tiny_model_folder):
    return Synthesizer(Base(tiny_model_folder))


@pytest.fixture(scope="module")
def starter():
    return Synthesizer(find_base("starter"))


def spoken(speaker: Synthesizer, utterances: list[Utterance], batch: SpeechBatch | None = None) -> list[torch.Tensor]:
    batch = batch or speaker.batch
    for utterance in utterances:
        batch.add(utterance)
    while not batch.is_idle:
        batch.step()
    return [one.spoken.wav for one in utterances if one.spoken is not None]


def utterances(speaker: Synthesizer, *, streamed: bool = False, **settings) -> list[Utterance]:
    voice, found = speaker.default_voice(), []
    for number, text in enumerate(TEXTS):
        chunks: list[torch.Tensor] = []
        one = Utterance(
            piece=speaker.pieces(text, "en")[0],
            voice=voice,
            on_chunk=chunks.append if streamed else None,
            **{"settings": SpeechSettings(), "seed": derived_seed(3, number)} | settings,
        )
        found.append(one)
    return found


def test_eight_sentences_side_by_side_have_the_codes_that_stock_gives_each(tiny, tiny_model_folder, demo_clip):
    stock, voice = load_stock(tiny_model_folder), tiny.voice(demo_clip)
    stock.gpt.max_gen_mel_tokens = 16
    tokens = [tiny.tokenizer.encode(text, "en") for text in TEXTS * 2]
    decoder = Decoder(tiny.gpt, slots=8)
    side_by_side = [Sentence(latents=voice.latents, tokens=one, settings=GREEDY, limit=16) for one in tokens]
    for number, sentence in enumerate(side_by_side):
        decoder.join(sentence)
        if number == 3:  # the others join in the midst
            decoder.step()
    while decoder.sentences:
        decoder.step()
    for one, sentence in zip(tokens, side_by_side, strict=True):
        codes, latents = stock_greedy(stock, one, voice, 2.0)
        assert sentence.codes == codes.tolist()
        assert sentence.hidden is not None and (sentence.hidden - latents[0]).abs().max() < 1e-4


def test_a_seed_says_the_same_alone_and_beside_others_who_come_and_go(starter):
    alone = [spoken(starter, [one])[0] for one in utterances(starter)]
    others = utterances(starter, seed=9)
    stays, goes = others[0], others[1]
    for one in (stays, goes):
        starter.batch.add(one)
    for _ in range(7):
        starter.batch.step()
    starter.batch.drop(goes)
    together = spoken(starter, utterances(starter))
    assert goes.spoken is None and stays.spoken is not None
    assert max(starter.batch.steps) >= 4
    for solo, beside in zip(alone, together, strict=True):
        assert solo.shape == beside.shape and (solo - beside).abs().max() < 0.05


@pytest.fixture
def every_warning(recwarn) -> Iterator[pytest.WarningsRecorder]:
    """Warnings of a test, also those that PyTorch gives once in a process."""
    torch.set_warn_always(True)
    yield recwarn
    torch.set_warn_always(False)


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8", "bf16"])
def test_codes_do_not_depend_on_the_neighbors_in_any_precision(starter, precision, every_warning):
    voice = starter.default_voice()

    def codes(slots: int) -> list[list[int]]:
        decoder = Decoder(starter.gpt, slots=slots, precision=precision)
        waiting = [
            Sentence(latents=voice.latents, tokens=starter.tokenizer.encode(text, "en"), settings=GREEDY, limit=20)
            for text in TEXTS
        ]
        return decoded(decoder, waiting)

    assert codes(1) == codes(4)
    assert [warning for warning in every_warning if "TF32" in str(warning.message)] == []


@pytest.mark.parametrize("speed", [pytest.param(1.0, marks=pytest.mark.slow), 0.7])
def test_chunks_are_the_whole_sentence(starter, speed):
    for whole, streamed in zip(
        spoken(starter, utterances(starter, settings=SpeechSettings(speed=speed))),
        spoken(starter, utterances(starter, streamed=True, settings=SpeechSettings(speed=speed))),
        strict=True,
    ):
        assert whole.shape == streamed.shape and (whole - streamed).abs().max() < 1e-4


@pytest.mark.slow
def test_chunks_of_stocks_decoder_are_the_whole_sentence(tiny):
    latents = torch.randn(1, 18, tiny.gpt.shape.width, generator=torch.Generator().manual_seed(0))
    embedding = tiny.default_voice().embedding
    for speed in (1.0, 2.0):
        whole = tiny.vocoder(latents, embedding, speed=speed)
        stream = tiny.vocoder.stream(embedding, speed=speed)
        chunks = [stream.add(latents[:, :count], is_last=count == 18) for count in (1, 2, 8, 9, 18)]
        assert chunks[2].size(1) > 0 or speed == 2.0
        assert (torch.cat(chunks, dim=1) - whole).abs().max() < 1e-5
    assert tiny.vocoder(latents[:, :1], embedding, speed=4.0).size(1) > 0


def test_drawing_takes_what_hugging_face_would_leave(tiny):
    from transformers import LogitsProcessorList, RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper
    from transformers.generation import TopKLogitsWarper, TopPLogitsWarper

    generator = torch.Generator().manual_seed(4)
    scores = torch.randn(3, 50, generator=generator) * 3
    before = torch.randint(0, 50, (3, 9), generator=generator)
    counted = torch.zeros(3, 50, dtype=torch.bool).scatter_(1, before, True)
    theirs = LogitsProcessorList(
        [
            RepetitionPenaltyLogitsProcessor(2.5),
            TemperatureLogitsWarper(0.7),
            TopKLogitsWarper(12),
            TopPLogitsWarper(0.8),
        ]
    )(before, scores.clone()).softmax(1)
    sampling = torch.tensor([[0.7, 12, 0.8, 2.5]]).expand(3, 4)
    steps = 2_000
    counts = torch.zeros(3, 50)
    for number in range(steps):
        codes = draw(scores, counted, sampling, torch.full((3, 1), (number + 0.5) / steps))
        counts[torch.arange(3), codes] += 1
    assert (counts / steps - theirs).abs().max() < 2 / steps


def test_all_slots_at_once_under_a_mask_speak_as_slot_by_slot(tiny, monkeypatch):
    """The attention of a GPU, computed here."""

    def at_once(cache, lengths):
        return attend_at_once(cache, torch.tensor(lengths), length=decoding.LENGTH_STEP, is_ragged=False)

    voice, said = tiny.default_voice(), []
    for attend in (attend_by_slot, at_once):
        monkeypatch.setattr(decoding, "attend_by_slot", attend)
        decoder = Decoder(tiny.gpt, slots=4)
        sentences = [
            Sentence(latents=voice.latents, tokens=tiny.tokenizer.encode(text, "en"), settings=GREEDY, limit=10)
            for text in TEXTS
        ]
        for sentence in sentences:
            decoder.join(sentence)
            decoder.step()
        while decoder.sentences:
            decoder.step()
        said.append([sentence.codes for sentence in sentences])
    assert said[0] == said[1]


def test_a_sentence_without_end_is_spoken_again_with_another_seed_and_the_best_is_kept(tiny, monkeypatch):
    text = Piece("Nobody knew.", tiny.tokenizer.encode("Nobody knew.", "en"))
    once = Utterance(piece=text, voice=tiny.default_voice(), settings=SpeechSettings(), seed=1, max_codes=12)
    spoken(tiny, [once])
    # The random base never thinks of stopping: it would not the next time either.
    assert once.spoken is not None and not once.spoken.finished and len(once.spoken.attempts) == 1
    monkeypatch.setattr(guards, "NO_STOP", 0.0)
    once.spoken = None
    once._chunks.clear()
    spoken(tiny, [once])
    assert [attempt.faults for attempt in once.spoken.attempts] == [("unfinished",)] * 3
    assert [attempt.seed for attempt in once.spoken.attempts] == [1, derived_seed(1, 1), derived_seed(1, 2)]
    bare = Utterance(
        piece=text, voice=tiny.default_voice(), settings=SpeechSettings(), seed=1, max_codes=12, guard=False
    )
    spoken(tiny, [bare])
    assert bare.spoken is not None and len(bare.spoken.attempts) == 1


def test_a_base_that_does_not_speak_may_talk_about_as_long_as_the_text_would_last(starter):
    limits = []
    for model in (Synthesizer(find_base("tiny")), starter):
        text = Piece("Nobody knew.", list(range(20)))
        asked = Utterance(piece=text, voice=model.default_voice(), settings=SpeechSettings(), seed=1)
        model.batch.add(asked)
        model.batch.step()
        assert asked._sentence is not None
        limits.append(asked._sentence.limit)
        model.batch.drop(asked)
    # 0.5 s and 0.06 s a token; 3 s and 0.5 s.
    assert limits == [int(1.7 * 22_050 / 1_024), int(13.0 * 22_050 / 1_024)]


def test_what_guards_see_in_codes():
    calm = [-9.0] * 200
    healthy = [7 * number % 101 for number in range(60)]
    assert judge([*healthy, 1025], calm[:61], stopped=True, expected=55).faults == ()
    assert judge([*healthy, 1025], calm[:61], stopped=True, expected=None).faults == ()
    looped = judge(healthy + [5, 9, 3, 8] * 20, calm[:140], stopped=False, expected=60)
    assert looped.faults == ("unfinished", "loop") and 60 <= looped.kept <= 68
    assert judge(healthy[:10] + [4] * 40, calm[:50], stopped=False, expected=None).faults == ("unfinished", "loop")
    # A pause within speech holds one code for a while.
    assert judge([*healthy[:30], *[4] * 15, *healthy[30:], 1025], calm[:76], stopped=True, expected=60).faults == ()
    assert judge([*healthy[:12], 1025], calm[:13], stopped=True, expected=60).faults == ("too short",)
    assert judge([*healthy * 3, 1025], calm[:181], stopped=True, expected=60).faults == ("too long",)
    assert guards.usual_codes("It was fifteen letters a second, was it?") == pytest.approx(57.4, abs=0.1)
    assert guards.usual_codes("In 1999.") is None and guards.usual_codes("你好，世界。") is None
    late = calm[:61]
    late[30] = -0.2
    assert judge([*healthy, 1025], late, stopped=True, expected=60).faults == ("late stop",)


def test_a_quiet_tail_is_cut_and_a_pause_is_not():
    from utils.inference.guards import TailCut

    generator = torch.Generator().manual_seed(0)
    loud, quiet = torch.rand(1, 24_000, generator=generator) - 0.5, torch.full((1, 24_000), 1e-4)
    whole = torch.cat([loud, quiet, loud, quiet], dim=1)
    cut = TailCut()
    kept = cut.add(whole, is_last=True)
    assert kept.size(1) == pytest.approx(3.15 * 24_000, abs=480)
    assert cut.cut_s == pytest.approx(0.85, abs=0.03)
    chunked = TailCut()
    parts = [chunked.add(part, is_last=False) for part in whole.split(7_001, dim=1)]
    parts.append(chunked.add(torch.zeros(1, 0), is_last=True))
    assert torch.equal(torch.cat(parts, dim=1), kept)
    short = TailCut().add(torch.cat([loud, quiet[:, :12_000]], dim=1), is_last=True)
    assert short.size(1) == 36_000


def test_joined_piece_that_fails_its_guard_is_spoken_sentence_by_sentence(starter, monkeypatch, caplog):
    text = "Good morning. This is my new voice."
    (piece,) = starter.pieces(text, "en", split="joined")
    joined, grave = guards.usual_codes(piece.text), Judgement(faults=("too short",), kept=9)

    def strict(*spoken: Any, expected: float | None, **ended: bool) -> Judgement:
        return grave if expected == joined else judge(*spoken, expected=expected, **ended)

    monkeypatch.setattr("utils.inference.batch.judge", strict)
    utterances = starter.utterances([piece], voice=starter.default_voice(), settings=SpeechSettings(seed=1))
    (whole,) = starter.batch.speak(utterances)
    assert whole.wav.size(1) > 1.5 * 24_000 and whole.text == text
    assert len(whole.attempts) == 3 + 2 and set(whole.faults) <= {"quiet tail"}, whole.faults
    assert "check this sentence" not in caplog.text


@pytest.mark.slow
def test_sentence_by_sentence_is_a_pause_apart_and_says_what_stays_wrong(starter, monkeypatch, caplog):
    grave = Judgement(faults=("too short",), kept=9)
    (piece,) = starter.pieces("No. The train was late again. No.", "en", split="joined")
    monkeypatch.setattr("utils.inference.batch.judge", lambda *_, **__: grave)
    utterances = starter.utterances([piece], voice=starter.default_voice(), settings=SpeechSettings(seed=1))
    (whole,) = starter.batch.speak(utterances)
    assert len(whole.attempts) == 4 * 3 and whole.faults == ("too short",)
    warned = [record.message for record in caplog.records if "check this sentence" in record.message]
    assert [line.rpartition(": ")[2] for line in warned] == ["No.", "The train was late again.", "No."]


def test_piece_without_a_final_mark_ends_as_with_one(starter):
    bare, marked = (starter.pieces(text, "en")[0] for text in ("Hello", "Hello."))
    assert bare.tokens == marked.tokens and bare.text == "Hello"
    lengths = [said(starter, text, seed=1).size(1) for text in ("Hello", "Hello.")]
    assert lengths[0] == lengths[1] < 36_000
