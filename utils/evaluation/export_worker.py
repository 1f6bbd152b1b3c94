"""The process that compares how an exported model and its base speak, without recordings.

It reads one request (`utils.inference.comparison.ComparisonRequest`) and answers once: `compared` with the shares of
both, `skipped` where the time is too short, or `failed`; the last two with the reason. Before, `progress` says how
many texts were spoken.

Where a recognizer is installed, it judges the words: a text counts whose words it misreads less than a fifth of.
Without one, a text counts that is nearest to the base's own speech of it among all.

The base speaks each text twice, with two seeds. The first time is the reference of words and endings. The second time
says how often the base agrees with itself, and what the model is measured by: a base that speaks a language badly
agrees with nothing, and no model is blamed for it.

Shapes: N samples at 16 000 Hz.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from utils.errors import UserError
from utils.evaluation.worker import Spoken, TimeTooShort, serve, speak
from utils.jobs.json_lines import Message, Replies

if TYPE_CHECKING:
    from utils.evaluation.features import Features
    from utils.inference.batch import Piece
    from utils.inference.engine import Synthesizer

REFERENCE_SEED, SEED = 1, 2
"""Of the base's first time, and of the speech that is compared with it."""
CHUNK = 4
"""Texts that are spoken side by side, and after which the time that all take is known."""
SHORTEST_S = 0.1
"""Less sound is no reference."""


def compare(request: Message, deadline: float, replies: Replies) -> dict[str, Any]:
    """Shares of texts with the right words, and of texts without a defect, by the base and by the model.

    Args:
        request: see the module's docstring.
        deadline: of the monotonic clock.
        replies: take the progress.

    Raises:
        TimeTooShort: it does not suffice for the least number of texts.
        UserError: too few of the texts can be read, or a model is gone or damaged.
    """
    # Imported late, here and below: loading takes seconds, in which the end of the exporting process must be noticed.
    import torch

    from utils.bases.base import Base
    from utils.bases.find import run_base
    from utils.evaluation.features import mfccs, trimmed
    from utils.evaluation.recognition import UNDERSTOOD, find_recognizer
    from utils.evaluation.scores import error_rates
    from utils.inference.engine import Synthesizer
    from utils.runs.layout import REFERENCE_FILE

    run, device = Path(request["run"]), request["device"]
    base = Synthesizer(run_base(run), device=device, precision="auto")
    readable = list(_readable(base, request["texts"], request["language"]))
    if len(readable) < request["least_texts"]:
        raise UserError(what=f"the base reads {len(readable)} of {len(request['texts'])} texts")
    texts = [pieces for _, pieces in readable]
    recognizer = find_recognizer(None, request["language"])
    voice = base.voice(run / REFERENCE_FILE)
    references: list[Spoken] = []
    again: list[Spoken] = []
    begun = time.monotonic()
    while len(references) < len(texts):
        chunk = texts[len(references) : len(references) + CHUNK]
        references += speak(base, chunk, voice=voice, seed=REFERENCE_SEED)
        again += speak(base, chunk, voice=voice, seed=SEED)
        # The model takes half as long again.
        each = 1.5 * (time.monotonic() - begun) / len(references)
        fits = int((deadline - begun) / each)
        if fits < request["least_texts"]:
            raise TimeTooShort(f"the time is too short: {each:.0f} s a text, for {len(texts)} texts")
        texts = texts[: max(fits, len(references))]
        replies.send("progress", done=len(references), total=2 * len(texts))
    del base
    if device != "cpu":
        torch.cuda.empty_cache()
    model = Synthesizer(Base(Path(request["model"])), device=device, precision="auto")
    voice = model.voice(Path(request["model"]) / REFERENCE_FILE)
    said: list[Spoken] = []
    for start in range(0, len(texts), CHUNK):
        if time.monotonic() > deadline and len(said) >= request["least_texts"]:
            # A model that does not end its sentences takes longer than its base: what it has spoken counts.
            break
        said += speak(model, texts[start : start + CHUNK], voice=voice, seed=SEED)
        replies.send("progress", done=len(texts) + len(said), total=2 * len(texts))
    # What the base did not say at all is no reference.
    kept = [number for number in range(len(said)) if _is_speech(references[number])]
    if len(kept) < request["least_texts"]:
        raise UserError(what=f"the base speaks {len(kept)} of {len(said)} texts")
    wanted = [references[number] for number in kept]
    features = [mfccs(trimmed(one.wav)) for one in wanted]
    base_shares, model_shares = (_shares([one[number] for number in kept], wanted, features) for one in (again, said))
    if not isinstance(recognizer, str):
        for shares, speech in ((base_shares, again), (model_shares, said)):
            found = [recognizer.recognize(speech[number].wav, readable[number][0]) for number in kept]
            shares |= {"words": sum(one.wer < UNDERSTOOD for one in found) / len(kept)} | error_rates(found)
    name = None if isinstance(recognizer, str) else recognizer.name
    return {"texts": len(kept), "base": base_shares, "model": model_shares, "recognizer": name}


def _is_speech(spoken: Spoken) -> bool:
    from utils.evaluation.features import RATE, trimmed

    return trimmed(spoken.wav).shape[1] > SHORTEST_S * RATE


def _readable(synthesizer: "Synthesizer", texts: Sequence[str], language: str) -> "Iterator[tuple[str, list[Piece]]]":
    """The texts, each with its pieces; those with characters that the base has no tokens for are left out."""
    for text in texts:
        try:
            pieces = synthesizer.pieces(text, language)
        except UserError:
            continue
        if pieces:
            yield text, pieces


def _shares(said: Sequence[Spoken], references: Sequence[Spoken], features: "list[Features]") -> dict[str, float]:
    """Shares of texts, from 0 to 1: nearest to their own reference's features among all, and without any defect."""
    from utils.evaluation.defects import find_defects
    from utils.evaluation.features import mfccs, trimmed
    from utils.evaluation.measure import usual_pace
    from utils.evaluation.words import rank

    pace = usual_pace([one.wav for one in said], [one.wav for one in references])
    right = flawless = 0
    for number, (one, reference) in enumerate(zip(said, references, strict=True)):
        others = features[:number] + features[number + 1 :]
        right += rank(mfccs(trimmed(one.wav)), features[number], others) == 1
        flawless += not find_defects(one.wav, reference.wav, finished=one.finished, pace=pace).names
    return {"words": right / len(said), "flawless": flawless / len(said)}


if __name__ == "__main__":
    serve("compared", compare)
