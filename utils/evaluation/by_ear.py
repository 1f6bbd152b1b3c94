"""Measure by ear how models of one run speak: its checkpoints against evaluation clips, its export against its base.

The words are judged by a recognizer where one is installed. Without one, a text counts whose speech is nearest to its
own reference among all.

Shapes: N samples at 16 000 Hz.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from utils.audio.decode import load_audio
from utils.audio.resample import resample
from utils.errors import UserError
from utils.evaluation.defects import find_defects
from utils.evaluation.features import RATE, Features, mfccs, trimmed
from utils.evaluation.measure import Said, embedder, speak_texts, usual_pace
from utils.evaluation.recognition import UNDERSTOOD, Recognized, find_recognizer
from utils.evaluation.scores import error_rates
from utils.evaluation.words import rank
from utils.inference.batch import Piece
from utils.inference.engine import Synthesizer
from utils.inference.model_cache import ModelCache
from utils.inference.sampling import Sampling
from utils.jobs.json_lines import Message, Replies
from utils.model.voices import Voice
from utils.options import OUTPUT_RATE
from utils.runs.layout import REFERENCE_FILE

USED = 0.9
"""Share of the time given that is used: the waiting process ends this one when the time is over."""
SEED = 1
"""The same for every checkpoint, so that they differ by their weights only; an export and its base use the next."""
CHUNK = 4
"""Texts of an export that are spoken side by side, and after which the time that all take is known."""
SHORTEST_S = 0.3
"""Shorter clips are ignored: the speaker embedding is unreliable, and they are no reference."""

log = logging.getLogger(__name__)


class TimeTooShort(Exception):
    """Nothing that is worth an answer can be measured until the deadline."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A text said right."""

    text: str
    wav: Tensor
    """Without silence at both ends, [1, N]."""
    features: Features

    @classmethod
    def of(cls, text: str, wav: Tensor) -> "Reference":
        inner = trimmed(wav)
        return cls(text=text, wav=inner, features=mfccs(inner))

    @property
    def is_speech(self) -> bool:
        return self.wav.shape[1] > SHORTEST_S * RATE


class Examiner:
    """What all models of a request are measured with.

    Args:
        request: what `utils.jobs.measuring.measure_speech` sends.
    """

    def __init__(self, request: Message) -> None:
        self.request, self.run = request, Path(request["run"])
        recognizer = find_recognizer(None, request["language"])
        self.recognizer = None if isinstance(recognizer, str) else recognizer
        self.models = ModelCache(request["device"])

    def speak(self, synthesizer: Synthesizer, texts: Sequence[list[Piece]], voice: Voice, seed: int) -> list[Said]:
        """Texts as a model speaks them side by side, without guards; at 16 000 Hz."""
        said = speak_texts(synthesizer, texts, voice=voice, sampling=Sampling(), seed=seed)
        return [Said(wav=resample(one.wav.cpu(), OUTPUT_RATE, RATE), finished=one.finished) for one in said]

    def words(self, said: Said, reference: Reference, among: Sequence[Reference]) -> tuple[bool, Recognized | None]:
        """Whether a text's words are right, and what the recognizer made of them."""
        if self.recognizer:
            found = self.recognizer.recognize(said.wav, reference.text)
            return found.wer < UNDERSTOOD, found
        others = [one.features for one in among if one is not reference]
        return rank(mfccs(trimmed(said.wav)), reference.features, others) == 1, None

    def shares(self, said: Sequence[Said], references: Sequence[Reference]) -> dict[str, float]:
        """Shares of texts, from 0 to 1, with the right words and without any defect; error rates of a recognizer."""
        right, recognized = zip(
            *(self.words(*pair, references) for pair in zip(said, references, strict=True)), strict=True
        )
        rates = error_rates(recognized) if self.recognizer else {}
        return {"words": sum(right) / len(said), "flawless": flawless(said, references)} | rates


def flawless(said: Sequence[Said], references: Sequence[Reference]) -> float:
    """Share of texts without any defect."""
    pairs = [(one.wav, reference.wav, one.finished) for one, reference in zip(said, references, strict=True)]
    pace = usual_pace([wav for wav, _, _ in pairs], [wanted for _, wanted, _ in pairs])
    return sum(not find_defects(wav, to, finished=ended, pace=pace).names for wav, to, ended in pairs) / len(pairs)


@dataclass(frozen=True, kw_only=True)
class Rendition:
    """One text as a checkpoint spoke it."""

    said: Said
    words: float
    """Share of the text's words that the recognizer understood; without one, 1 where they are right, else 0."""
    cosine: float
    """Between the speaker embeddings of speech and recording; 0 for silence."""


class CheckpointExaminer(Examiner):
    """Has checkpoints speak the texts of evaluation clips.

    Raises:
        UserError: too few clips are long enough, or a recording is gone or damaged.
    """

    def __init__(self, request: Message) -> None:
        super().__init__(request)
        found = [Reference.of(clip["text"], load_audio(Path(clip["audio"]), RATE)) for clip in request["clips"]]
        self.references = [one for one in found if one.is_speech]
        if len(self.references) < request["least_texts"]:
            raise UserError(what=f"{len(self.references)} of {len(found)} evaluation clips are long enough")

    def scores(self, deadline: float) -> dict[str, Any]:
        """Scores of as many checkpoints as there is time for, and how many texts each of them spoke.

        Args:
            deadline: of the monotonic clock.

        Raises:
            TimeTooShort: it does not suffice for two checkpoints.
            UserError: a checkpoint is gone or damaged.
        """
        least = self.request["least_texts"]
        left = [Path(folder) for folder in self.request["checkpoints"]]
        measured: list[tuple[Path, list[Rendition], float]] = []
        limit = len(self.references)
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
                    # How long the least takes is known now: checkpoints that there is no time for are skipped.
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
        scores = [self._score(folder, spoken[:limit], seconds) for folder, spoken, seconds in measured]
        return {"scores": scores, "texts": limit, "recognizer": self.recognizer and self.recognizer.name}

    def _chunks(self, checkpoint: Path, size: int, limit: int) -> Iterator[list[Rendition]]:
        """The texts as a checkpoint speaks them, some side by side at a time."""
        synthesizer = self._with_weights(checkpoint)
        embed = embedder(synthesizer)
        # The weights also hear the reference: its voice is another one with each checkpoint.
        voice = synthesizer.voice(self.run / REFERENCE_FILE)
        for start in range(0, limit, size):
            chunk = self.references[start : min(start + size, limit)]
            texts = [synthesizer.pieces(one.text, self.request["language"]) for one in chunk]
            found = []
            for reference, said in zip(chunk, self.speak(synthesizer, texts, voice, SEED), strict=True):
                right, recognized = self.words(said, reference, self.references)
                inner = trimmed(said.wav)
                cosine = float(embed(inner) @ embed(reference.wav)) if inner.shape[1] > SHORTEST_S * RATE else 0.0
                words = max(0.0, 1 - recognized.wer) if recognized else float(right)
                found.append(Rendition(said=said, words=words, cosine=cosine))
            yield found

    def _with_weights(self, checkpoint: Path) -> Synthesizer:
        return self.models.load(kind="run", source=str(self.run), checkpoint=checkpoint.name[-8:]).synthesizer

    def _score(self, checkpoint: Path, spoken: list[Rendition], seconds: float) -> dict[str, Any]:
        parts = {
            "words": sum(one.words for one in spoken) / len(spoken),
            "flawless": flawless([one.said for one in spoken], self.references[: len(spoken)]),
            "cosine": sum(one.cosine for one in spoken) / len(spoken),
        }
        # Two digits: what differs by less sounds the same.
        score = round(sum(parts.values()), 2)
        step = int(checkpoint.name.rsplit("-", 1)[1])
        return {"step": step, "score": score, **parts, "texts": len(spoken), "seconds": seconds}


class ExportExaminer(Examiner):
    """Has an exported model and its base speak, without recordings.

    The base speaks each text twice, with two seeds. The first time is the reference of words and endings. The second
    time says how often the base agrees with itself, and what the model is measured by: a base that speaks a language
    badly agrees with nothing, and no model is blamed for it.
    """

    def compare(self, deadline: float, replies: Replies) -> dict[str, Any]:
        """Shares of texts with the right words, and of texts without a defect, by the base and by the model.

        Args:
            deadline: of the monotonic clock.
            replies: take the progress.

        Raises:
            TimeTooShort: it does not suffice for the least number of texts.
            UserError: too few of the texts can be read, or a model is gone or damaged.
        """
        least, model_folder = self.request["least_texts"], Path(self.request["model"])
        base = self.models.load(kind="run", source=str(self.run)).synthesizer
        texts = self._readable(base)
        voice = base.voice(self.run / REFERENCE_FILE)
        references: list[Reference] = []
        again: list[Said] = []
        said: list[Said] = []
        begun = time.monotonic()
        while len(references) < len(texts):
            chunk = texts[len(references) : len(references) + CHUNK]
            pieces = [one for _, one in chunk]
            first = self.speak(base, pieces, voice, SEED)
            references += [Reference.of(text, one.wav) for (text, _), one in zip(chunk, first, strict=True)]
            again += self.speak(base, pieces, voice, SEED + 1)
            # The model takes half as long again.
            each = 1.5 * (time.monotonic() - begun) / len(references)
            fits = int((deadline - begun) / each)
            if fits < least:
                raise TimeTooShort(f"the time is too short: {each:.0f} s a text, for {len(texts)} texts")
            texts = texts[: max(fits, len(references))]
            replies.send("progress", done=len(references), total=2 * len(texts))
        del base
        model = self.models.load(kind="ready", source=str(model_folder)).synthesizer
        voice = model.voice(model_folder / REFERENCE_FILE)
        for start in range(0, len(texts), CHUNK):
            if time.monotonic() > deadline and len(said) >= least:
                # A model that does not end its sentences takes longer than its base: what it has spoken counts.
                break
            said += self.speak(model, [pieces for _, pieces in texts[start : start + CHUNK]], voice, SEED + 1)
            replies.send("progress", done=len(texts) + len(said), total=2 * len(texts))
        # What the base did not say at all is no reference.
        kept = [number for number in range(len(said)) if references[number].is_speech]
        if len(kept) < least:
            raise UserError(what=f"the base speaks {len(kept)} of {len(said)} texts")
        wanted = [references[number] for number in kept]
        shares = [self.shares([speech[number] for number in kept], wanted) for speech in (again, said)]
        name = self.recognizer and self.recognizer.name
        return {"texts": len(kept), "base": shares[0], "model": shares[1], "recognizer": name}

    def _readable(self, base: Synthesizer) -> list[tuple[str, list[Piece]]]:
        """The texts, each with its pieces, without those with characters that the base has no tokens for."""
        found = []
        for text in self.request["texts"]:
            try:
                pieces = base.pieces(text, self.request["language"])
            except UserError:
                continue
            if pieces:
                found.append((text, pieces))
        if len(found) < self.request["least_texts"]:
            raise UserError(what=f"the base reads {len(found)} of {len(self.request['texts'])} texts")
        return found


def answer(request: Message, begun: float, replies: Replies) -> None:
    """Measure, and reply `measured` with the figures, or `skipped` or `failed` with the reason.

    Args:
        request: see `Examiner`; with `seconds`, the time that there is.
        begun: when that time began.
        replies: take the answer.
    """
    deadline = begun + USED * request["seconds"]
    try:
        if "checkpoints" in request:
            found = CheckpointExaminer(request).scores(deadline)
        else:
            found = ExportExaminer(request).compare(deadline, replies)
    except TimeTooShort as reason:
        replies.send("skipped", reason=str(reason))
    except Exception as error:
        log.exception("nothing was measured")
        what = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        replies.send("failed", reason=what)
    else:
        replies.send("measured", **found)
