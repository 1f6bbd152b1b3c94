"""Measure by ear how models of one run speak: its checkpoints against evaluation clips, its export against its base.

Both are measured as `utils.evaluation.evaluate` does. The words are right where a recognizer understood them; without
one, where the speech is nearest to its own reference among all.

Shapes: N samples at 16 000 Hz.
"""

import logging
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from utils.audio.decode import load_audio
from utils.audio.resample import resample
from utils.errors import UserError
from utils.evaluation.features import RATE, trimmed
from utils.evaluation.measure import Said, SpokenSentence, embedder, score_model, speak_texts
from utils.evaluation.recognition import UNDERSTOOD, find_recognizer
from utils.evaluation.scores import Summary
from utils.inference.engine import Synthesizer
from utils.inference.model_cache import ModelCache
from utils.jobs.json_lines import Message, Replies
from utils.options import OUTPUT_RATE, SpeechSettings
from utils.runs.layout import REFERENCE_FILE

USED = 0.9
"""Share of the time given that is used: the waiting process ends this one when the time is over."""
SEED = 1
"""The same for every checkpoint, so that they differ by their weights only; an export and its base use the next."""
PASSES = 3
"""So often the texts of an export are spoken: twice by its base, once by itself."""
SHORTEST_S = 0.3
"""Shorter clips are no reference."""

log = logging.getLogger(__name__)


class TimeTooShort(Exception):
    """Nothing that is worth an answer can be measured until the deadline."""


class Examiner:
    """What all models of a request speak and are measured with.

    Args:
        request: what `utils.jobs.measuring.measure_speech` sends.
        deadline: of the monotonic clock.
        replies: take the progress.
    """

    def __init__(self, request: Message, deadline: float, replies: Replies) -> None:
        self.request, self.deadline, self.replies = request, deadline, replies
        self.run, self.least = Path(request["run"]), request["least_texts"]
        recognizer = find_recognizer(None, request["language"])
        self.recognizer = None if isinstance(recognizer, str) else recognizer
        self.models = ModelCache(request["device"])
        # The speaker encoder is the base's: one and the same for all models.
        self.embed = embedder(self._load(request.get("checkpoints", [""])[0]))
        self.voice = load_audio(self.run / REFERENCE_FILE, RATE)

    def figures(self) -> dict[str, Any]:
        """What the request asks for.

        Raises:
            TimeTooShort: the time does not suffice for two models and the least number of texts.
            UserError: too few texts can be spoken or compared with, or a model or recording is gone or damaged.
        """
        found = self._checkpoints() if "checkpoints" in self.request else self._export()
        return {**found, "recognizer": self.recognizer and self.recognizer.name}

    def _checkpoints(self) -> dict[str, Any]:
        """Scores of as many checkpoints as there is time for, and how many evaluation texts each of them spoke."""
        clips = self.request["clips"]
        found = [_sentence(clip["text"], load_audio(Path(clip["audio"]), RATE)) for clip in clips]
        sentences = [one for one in found if _is_speech(one)]
        if len(sentences) < self.least:
            raise UserError(what=f"{len(sentences)} of {len(found)} evaluation clips are long enough")
        folders: list[str] = self.request["checkpoints"]
        took = self._time_of_least(self._load(folders[0]), [one.text for one in sentences])
        fits = int((self.deadline - time.monotonic()) / took)
        folders = folders[:fits]
        sentences = sentences[: self.least * fits // max(1, len(folders))]
        measured: list[tuple[str, list[Said], float]] = []
        for folder in folders if fits > 1 else ():
            begun = time.monotonic()
            said = self.speak(self._load(folder), [one.text for one in sentences], SEED)
            if len(said) < self.least:
                # The machine has become slower than it was at first: what was measured counts.
                break
            sentences = sentences[: len(said)]
            measured.append((folder, said, time.monotonic() - begun))
        if len(measured) < 2:
            raise TimeTooShort(f"it took {took:.0f} s for {self.least} texts of one checkpoint")
        scores = []
        for folder, said, seconds in measured:
            right, summary = self.score(said, sentences)
            # Finer than the share of texts that a recognizer understood.
            words = right if summary.wer is None else max(0.0, 1 - summary.wer)
            parts = {"words": words, "flawless": summary.flawless, "cosine": summary.cosine or 0.0}
            # Two digits: what differs by less sounds the same.
            score, step = round(sum(parts.values()), 2), int(folder.rsplit("-", 1)[1])
            scores.append({"step": step, "score": score, **parts, "texts": len(sentences), "seconds": seconds})
        return {"scores": scores, "texts": len(sentences)}

    def _export(self) -> dict[str, Any]:
        """Shares of texts with the right words, and of texts without a defect, by the base and by the exported model.

        The base speaks each text twice, with two seeds. The first time is the reference of words and endings. The
        second time says how often the base agrees with itself, and what the model is measured by: a base that speaks a
        language badly agrees with nothing, and no model is blamed for it.
        """
        base = self._load()
        texts = [text for text in self.request["texts"] if self._reads(base, text)]
        if len(texts) < self.least:
            raise UserError(what=f"the base reads {len(texts)} of {len(self.request['texts'])} texts")
        each = self._time_of_least(base, texts) / self.least
        # The base speaks each text twice, and the model takes half as long again.
        fits = int((self.deadline - time.monotonic()) / (3.5 * each))
        if fits < self.least:
            raise TimeTooShort(f"it took {each:.0f} s a text, for {len(texts)} texts")
        texts = texts[:fits]
        passes = [self.speak(base, texts, seed, done=n * len(texts)) for n, seed in enumerate((SEED, SEED + 1))]
        del base
        model = self.models.load(kind="ready", source=self.request["model"])
        # A model that does not end its sentences takes longer than its base: what it has spoken counts.
        passes.append(self.speak(model, texts, SEED + 1, done=2 * len(texts)))
        triples = [
            (_sentence(text, resample(first.wav.cpu(), OUTPUT_RATE, RATE)), *said)
            for text, first, *said in zip(texts, *passes, strict=False)
        ]
        if len(triples) < self.least:
            raise TimeTooShort(f"the model spoke {len(triples)} texts in it")
        # What the base did not say at all is no reference.
        kept = [one for one in triples if _is_speech(one[0])]
        if len(kept) < self.least:
            raise UserError(what=f"the base speaks {len(kept)} of {len(triples)} texts")
        sentences, *spoken = zip(*kept, strict=True)
        shares = []
        for said in spoken:
            words, summary = self.score(said, sentences)
            rates = {"wer": summary.wer, "cer": summary.cer} if self.recognizer else {}
            shares.append({"words": words, "flawless": summary.flawless, **rates})
        return {"texts": len(kept), "base": shares[0], "model": shares[1]}

    def speak(
        self, synthesizer: Synthesizer, texts: Sequence[str], seed: int, *, done: int | None = None
    ) -> list[Said]:
        """Texts as a model speaks them side by side in its own voice, without guards.

        Where the time is over, those that were spoken by then.

        Args:
            synthesizer: the model.
            texts: what it says.
            seed: of each text.
            done: texts that were spoken before, for the progress; None reports none.
        """
        pieces = [synthesizer.pieces(text, self.request["language"]) for text in texts]
        voice, found = synthesizer.default_voice(), list[Said]()
        for one in speak_texts(synthesizer, pieces, voice=voice, settings=SpeechSettings(seed=seed)):
            found.append(one)
            if done is not None:
                self.replies.send("progress", done=done + len(found), total=PASSES * len(texts))
            if time.monotonic() > self.deadline:
                break
        return found

    def score(self, said: Sequence[Said], sentences: Sequence[SpokenSentence]) -> tuple[float, Summary]:
        """Share of texts with the right words, and all figures of those that `sentences` has."""
        how: dict[str, Any] = {"voice": self.voice, "embed": self.embed, "recognizer": self.recognizer}
        with tempfile.TemporaryDirectory() as folder:
            found = score_model("spoken", said[: len(sentences)], sentences, folder=Path(folder), **how)
        right = [one.retrieval_rank == 1 if one.wer is None else one.wer < UNDERSTOOD for one in found.scores]
        return sum(right) / len(right), found.summary

    def _time_of_least(self, synthesizer: Synthesizer, texts: Sequence[str]) -> float:
        """Seconds for the least number of texts, from which the time of all is estimated."""
        begun = time.monotonic()
        said = self.speak(synthesizer, texts[: self.least], SEED)
        self.score(said, [_sentence(text, self.voice) for text, _ in zip(texts, said, strict=False)])
        return time.monotonic() - begun

    def _load(self, checkpoint: str = "") -> Synthesizer:
        """The run's model with a checkpoint's weights, or those of its base."""
        return self.models.load(kind="run", source=str(self.run), checkpoint=Path(checkpoint).name[-8:])

    def _reads(self, synthesizer: Synthesizer, text: str) -> bool:
        try:
            return bool(synthesizer.pieces(text, self.request["language"]))
        except UserError:
            return False


def _sentence(text: str, wav: Tensor) -> SpokenSentence:
    return SpokenSentence(text=text, reference=wav)


def _is_speech(sentence: SpokenSentence) -> bool:
    return trimmed(sentence.reference).shape[1] > SHORTEST_S * RATE


def answer(request: Message, begun: float, replies: Replies) -> None:
    """Measure, and reply `measured` with the figures, or `skipped` or `failed` with the reason.

    Args:
        request: see `Examiner`; with `seconds`, the time that there is.
        begun: when that time began.
        replies: take the answer.
    """
    try:
        found = Examiner(request, begun + USED * request["seconds"], replies).figures()
    except TimeTooShort as reason:
        replies.send("skipped", reason=f"the time is too short: {reason}")
    except Exception as error:
        log.exception("nothing was measured")
        what = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        replies.send("failed", reason=what)
    else:
        replies.send("measured", **found)
