"""The process that measures how a run's checkpoints speak: with a recognizer where one is installed, else against the
recordings of the evaluation clips.

It reads one request (`utils.training.best_by_speech.ScoreRequest`) and answers once: `scored` with the scores and
their number of texts, `skipped` where the time is too short, or `failed`; both with the reason.

Shapes: N samples at 16 000 Hz.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from utils.errors import UserError
from utils.evaluation.worker import TimeTooShort, serve, speak
from utils.jobs.json_lines import Message, Replies

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from utils.evaluation.measure import Embed
    from utils.inference.engine import Synthesizer

SEED = 1
"""The same for every checkpoint, so that they differ by their weights only."""
SHORTEST_S = 0.3
"""Less sound is nobody's voice."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """An evaluation clip."""

    text: str
    wav: "Tensor"
    """Its recording without silence at both ends, [1, N]."""
    features: "np.ndarray"


@dataclass(frozen=True, kw_only=True)
class Rendition:
    """One text as a checkpoint spoke it."""

    wav: "Tensor"
    """[1, N]."""
    finished: bool
    words: float
    """Share of the text's words that the recognizer understood; without one, 1 where the speech is nearest to its own
    recording among all, else 0."""
    cosine: float
    """Between the speaker embeddings of speech and recording; 0 for silence."""


class Examiner:
    """Has checkpoints speak, and measures them.

    Args:
        request: see the module's docstring.
    """

    def __init__(self, request: Message) -> None:
        # Imported late, here and below: loading takes seconds, in which the end of the trainer must be noticed.
        from utils.audio.decode import load_audio
        from utils.evaluation.features import RATE, mfccs, trimmed
        from utils.evaluation.recognition import find_recognizer

        self._request, self._run = request, Path(request["run"])
        recordings = [(clip["text"], trimmed(load_audio(Path(clip["audio"]), RATE))) for clip in request["clips"]]
        self._references = [
            Reference(text=text, wav=wav, features=mfccs(wav))
            for text, wav in recordings
            if wav.shape[1] > SHORTEST_S * RATE
        ]
        if len(self._references) < request["least_texts"]:
            raise UserError(what=f"{len(self._references)} of {len(recordings)} evaluation clips are long enough")
        recognizer = find_recognizer(None, request["language"])
        self.recognizer = None if isinstance(recognizer, str) else recognizer
        self._synthesizer: Synthesizer | None = None
        self._embed: Embed | None = None
        self._loaded: Path | None = None

    def scores(self, deadline: float) -> tuple[list[dict[str, Any]], int]:
        """Scores of as many checkpoints as there is time for, and how many texts each of them spoke.

        Args:
            deadline: of the monotonic clock.

        Raises:
            TimeTooShort: it does not suffice for two checkpoints.
            UserError: a checkpoint or a recording is gone or damaged.
        """
        least = self._request["least_texts"]
        left = [Path(folder) for folder in self._request["checkpoints"]]
        measured: list[tuple[Path, list[Rendition], float]] = []
        limit = len(self._references)
        # What is loaded once must not count as the first checkpoint's own time, from which all others' is estimated.
        self._with_weights(left[0])
        while left:
            begun = time.monotonic()
            if len(measured) > 1 and begun + measured[-1][2] > deadline:
                # The machine has become slower than it was at first: what was measured counts.
                break
            spoken: list[Rendition] = []
            for chunk in self._chunks(left[0], least, limit):
                spoken += chunk
                took = time.monotonic() - begun
                if not measured and len(spoken) == len(chunk):
                    # How long the least takes is known now: checkpoints that there is no time for are left out.
                    fits = int((deadline - begun) / took)
                    if fits < 2:
                        seconds = f"{took:.0f} s for {len(chunk)} texts of one checkpoint"
                        raise TimeTooShort(f"the time is too short: it took {seconds}")
                    left = left[:fits]
                # Each has an equal share of the time that was left when its turn came.
                if took * (1 + len(chunk) / len(spoken)) > (deadline - begun) / len(left):
                    break
            measured.append((left.pop(0), spoken, time.monotonic() - begun))
            limit = min(limit, len(spoken))
        return [self._score(folder, spoken[:limit], seconds) for folder, spoken, seconds in measured], limit

    def _chunks(self, checkpoint: Path, size: int, limit: int) -> Iterator[list[Rendition]]:
        """The texts as a checkpoint speaks them, some side by side at a time."""
        from utils.evaluation.features import RATE, mfccs, trimmed
        from utils.evaluation.words import rank
        from utils.runs.layout import REFERENCE_FILE

        synthesizer, embed = self._with_weights(checkpoint)
        # The weights also hear the reference: its voice is another one with each checkpoint.
        voice = synthesizer.voice(self._run / REFERENCE_FILE)
        for start in range(0, limit, size):
            chunk = self._references[start : min(start + size, limit)]
            texts = [synthesizer.pieces(one.text, self._request["language"]) for one in chunk]
            found = []
            for reference, spoken in zip(chunk, speak(synthesizer, texts, voice=voice, seed=SEED), strict=True):
                inner = trimmed(spoken.wav)
                others = [one.features for one in self._references if one is not reference]
                if self.recognizer:
                    words = max(0.0, 1 - self.recognizer.recognize(spoken.wav, reference.text).wer)
                else:
                    words = float(rank(mfccs(inner), reference.features, others) == 1)
                is_silent = inner.shape[1] <= SHORTEST_S * RATE
                cosine = 0.0 if is_silent else float(embed(inner) @ embed(reference.wav))
                found.append(Rendition(wav=spoken.wav, finished=spoken.finished, words=words, cosine=cosine))
            yield found

    def _with_weights(self, checkpoint: Path) -> "tuple[Synthesizer, Embed]":
        from utils.bases.find import run_base
        from utils.evaluation.evaluate import embedder
        from utils.inference.engine import Synthesizer
        from utils.runs.checkpoints import load_checkpoint

        device = self._request["device"]
        if self._synthesizer is None:
            state = load_checkpoint(checkpoint)
            self._synthesizer = Synthesizer(run_base(self._run), gpt_state=state, device=device, precision="auto")
            self._embed = embedder(self._synthesizer)
        elif checkpoint != self._loaded:
            synthesizer, self._synthesizer = self._synthesizer, None
            synthesizer.renew(load_checkpoint(checkpoint))
            self._synthesizer = synthesizer
        self._loaded = checkpoint
        assert self._embed is not None
        return self._synthesizer, self._embed

    def _score(self, checkpoint: Path, spoken: list[Rendition], seconds: float) -> dict[str, Any]:
        from utils.evaluation.defects import find_defects
        from utils.evaluation.measure import usual_pace

        pairs = list(zip(spoken, self._references, strict=False))
        pace = usual_pace([one.wav for one in spoken], [reference.wav for _, reference in pairs])
        flawless = [
            not find_defects(one.wav, reference.wav, finished=one.finished, pace=pace).names for one, reference in pairs
        ]
        parts = {
            "words": sum(one.words for one in spoken) / len(spoken),
            "flawless": sum(flawless) / len(spoken),
            "cosine": sum(one.cosine for one in spoken) / len(spoken),
        }
        # Two digits: what differs by less sounds the same.
        score = round(sum(parts.values()), 2)
        step = int(checkpoint.name.rsplit("-", 1)[1])
        return {"step": step, "score": score, **parts, "texts": len(spoken), "seconds": seconds}


def measure(request: Message, deadline: float, replies: Replies) -> dict[str, Any]:
    """See `Examiner.scores`."""
    examiner = Examiner(request)
    scores, texts = examiner.scores(deadline)
    return {"scores": scores, "texts": texts, "recognizer": examiner.recognizer and examiner.recognizer.name}


if __name__ == "__main__":
    serve("scored", measure)
