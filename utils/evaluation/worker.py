"""Shared by processes that have models speak and measure the result: speaking, and one request with one answer.

Shapes: N samples at 16 000 Hz.
"""

import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from utils.console import take_output
from utils.errors import UserError
from utils.jobs.json_lines import Message, Replies, Requests

if TYPE_CHECKING:
    from torch import Tensor

    from utils.inference.batch import Piece
    from utils.inference.engine import Synthesizer
    from utils.model.voices import Voice

USED = 0.9
"""Share of the time given that is used: the waiting process ends this one when the time is over."""

log = logging.getLogger(__name__)

Measure = Callable[[Message, float, Replies], dict[str, Any]]
"""Called with the request, the deadline of the monotonic clock and what takes progress; gives the answer's fields."""


class TimeTooShort(Exception):
    """Nothing that is worth an answer can be measured until the deadline."""


@dataclass(frozen=True, kw_only=True)
class Spoken:
    """One text as a model spoke it."""

    wav: "Tensor"
    """[1, N], on the CPU."""
    finished: bool
    """Whether the model ended by itself."""


def speak(synthesizer: "Synthesizer", texts: "Sequence[Sequence[Piece]]", *, voice: "Voice", seed: int) -> list[Spoken]:
    """Texts, each in pieces, as a model speaks them side by side, without guards."""
    # Imported late: loading takes seconds, in which the end of the waiting process must be noticed.
    import torch

    from utils.audio.resample import resample
    from utils.config import OUTPUT_RATE
    from utils.evaluation.features import RATE
    from utils.inference.sampling import Sampling

    pieces = [piece for text in texts for piece in text]
    sounds = synthesizer.sentences(pieces, voice=voice, sampling=Sampling(), seed=seed, guard=False)
    found = []
    for text in texts:
        own = [next(sounds) for _ in text]
        wav = resample(torch.cat([one.wav for one in own], dim=1).cpu(), OUTPUT_RATE, RATE)
        found.append(Spoken(wav=wav, finished=all(one.finished for one in own)))
    return found


def answer(kind: str, measure: Measure, request: Message, begun: float, replies: Replies) -> None:
    """Measure, and reply `kind` with the fields, or `skipped` or `failed` with the reason.

    Args:
        kind: of the answer where it was measured.
        measure: does it.
        request: with `seconds`, the time that there is.
        begun: when that time began.
        replies: take the answer.
    """
    try:
        found = measure(request, begun + USED * request["seconds"], replies)
    except TimeTooShort as reason:
        replies.send("skipped", reason=str(reason))
    except Exception as error:
        log.exception("nothing was measured")
        what = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        replies.send("failed", reason=what)
    else:
        replies.send(kind, **found)


def serve(kind: str, measure: Measure) -> None:
    """Answer one request from standard input."""
    begun = time.monotonic()
    replies, requests = Replies(take_output()), Requests(sys.stdin)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    answer(kind, measure, next(iter(requests)), begun, replies)
