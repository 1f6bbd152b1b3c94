"""Measure by ear how models of one run speak: its checkpoints against evaluation clips, its export against its base.

Both are measured as `utils.evaluation.evaluate` does. The words are right where a recognizer understood them; without
one, where the speech is nearest to its own reference among all.

Shapes: N samples at 16 000 Hz.
"""

import logging
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from utils.audio.decode import load_audio
from utils.audio.resample import resample
from utils.errors import UserError
from utils.evaluation.features import RATE, trimmed
from utils.evaluation.measure import Said, SpokenSentence, embedder, score_model, speak_texts
from utils.evaluation.recognition import UNDERSTOOD, find_recognizer, usable
from utils.evaluation.scores import ModelScores, Score
from utils.inference.model_cache import ModelCache
from utils.jobs.json_lines import Message
from utils.jobs.replies import Replies
from utils.options import OUTPUT_RATE, SpeechSettings
from utils.runs.layout import REFERENCE_FILE

USED = 0.9
"""Share of the time given that is used: the waiting process ends this one when the time is over."""
SEED = 1
"""The same for every checkpoint, so that they differ by their weights only; an export and its base use the next."""
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
        self.least, self._spoken, self._total = request["least_texts"], 0, 0
        self._unscored, self._scoring_s = 0, 0.0
        """Texts that were spoken and not scored yet, and what scoring one of them takes."""
        self.recognizer, _ = usable(partial(find_recognizer, None, request["language"]))
        self.cache = ModelCache(request["device"], pronounces=False)
        self.base: dict[str, Any] = {"kind": "run", "source": request["run"]}
        steps = [Path(folder).name[-8:] for folder in request.get("checkpoints", ())]
        self.checkpoints = [{**self.base, "checkpoint": step} for step in steps]
        # The speaker encoder is the base's: one and the same for all models.
        self.embed = embedder(self.cache.load(**next(iter(self.checkpoints), self.base)))
        self.voice = load_audio(Path(request["run"]) / REFERENCE_FILE, RATE)

    def figures(self) -> dict[str, Any]:
        """What the request asks for.

        Raises:
            TimeTooShort: the time does not suffice for two models and the least number of texts.
            UserError: too few texts can be spoken or compared with, or a model or recording is gone or damaged.
        """
        found = self._scores() if self.checkpoints else self._shares()
        return {**found, "recognizer": self.recognizer and self.recognizer.name}

    def _scores(self) -> dict[str, Any]:
        """Scores of as many checkpoints as there is time for, and how many evaluation texts each of them spoke."""
        clips = self.request["clips"]
        found = [_sentence(clip["text"], load_audio(Path(clip["audio"]), RATE)) for clip in clips]
        sentences = [one for one in found if _is_speech(one)]
        if len(sentences) < self.least:
            raise UserError(what=f"{len(sentences)} of {len(found)} evaluation clips are long enough")
        fits = self._texts_in_time(self.checkpoints[0], [one.text for one in sentences], times=2)
        models = self.checkpoints[: int(fits / self.least)]
        measured = self._measured(models, sentences[: int(fits / len(models))], SEED)
        scores = []
        for model, (said, seconds) in zip(models, measured, strict=False):
            one_by_one, summary = said.scores, said.summary
            # Of each text, and at most all of its words: one that is babbled does not outweigh the others.
            rights = [_is_right(one) if one.wer is None else max(0.0, 1 - one.wer) for one in one_by_one]
            # Silence is like no voice.
            cosines = [one.cosine or 0.0 for one in one_by_one]
            means = {"words": sum(rights) / len(rights), "cosine": sum(cosines) / len(cosines)}
            parts = {**means, "flawless": summary["flawless"]}
            # Two digits: what differs by less sounds the same.
            step, score = int(model["checkpoint"]), round(sum(parts.values()), 2)
            scores.append({"step": step, "score": score, **parts, "texts": summary["sentences"], "seconds": seconds})
        return {"scores": scores, "texts": scores[0]["texts"]}

    def _shares(self) -> dict[str, Any]:
        """Shares of texts with the right words, and of texts without a defect, by the base and by the exported model.

        The base speaks each text twice, with two seeds. The first time is the reference of words and endings. The
        second time says how often the base agrees with itself, and what the model is measured by: a base that speaks a
        language badly agrees with nothing, and no model is blamed for it.
        """
        texts = [text for text in self.request["texts"] if self._reads(text)]
        if len(texts) < self.least:
            raise UserError(what=f"the base reads {len(texts)} of {len(self.request['texts'])} texts")
        # Spoken three times, and the model takes half as long again as its base.
        texts = texts[: int(self._texts_in_time(self.base, texts, times=3.5) / 3.5)]
        self._total = 3 * len(texts)
        first = zip(texts, self._say(self.base, texts, SEED), strict=False)
        found = [_sentence(text, resample(said.wav.cpu(), OUTPUT_RATE, RATE)) for text, said in first]
        # What the base did not say at all is no reference.
        sentences = [one for one in found if _is_speech(one)]
        if len(found) >= self.least > len(sentences):
            raise UserError(what=f"the base speaks {len(sentences)} of {len(found)} texts")
        model = {"kind": "ready", "source": self.request["model"]}
        shares = []
        self._unscored = 0
        for measured, _ in self._measured([self.base, model], sentences, SEED + 1):
            words, summary = sum(map(_is_right, measured.scores)) / len(measured.scores), measured.summary
            rates = {name: summary[name] for name in ("wer", "cer")} if self.recognizer else {}
            shares.append({"words": words, "flawless": summary["flawless"], **rates})
        return {"texts": summary["sentences"], "base": shares[0], "model": shares[1]}

    def _measured(
        self, models: Sequence[dict[str, Any]], sentences: Sequence[SpokenSentence], seed: int
    ) -> list[tuple[ModelScores, float]]:
        """Of each model its scores, and the seconds that it spoke for.

        Raises:
            TimeTooShort: two models have not spoken the least number of texts by the deadline.
        """
        spoken: list[tuple[list[Said], float]] = []
        for model in models:
            begun = time.monotonic()
            said = self._say(model, [one.text for one in sentences], seed)
            if len(said) < self.least:
                # The machine has become slower than it was at first: what was measured counts.
                break
            sentences = sentences[: len(said)]
            spoken.append((said, time.monotonic() - begun))
        if len(spoken) < 2:
            raise TimeTooShort(f"{len(spoken)} of the models spoke {self.least} texts in it")
        return [(self._score(said, sentences), seconds) for said, seconds in spoken]

    def _say(self, model: dict[str, Any], texts: Sequence[str], seed: int) -> list[Said]:
        """Texts as a model speaks them side by side in its own voice, without guards; those spoken by the deadline."""
        synthesizer, found = self.cache.load(**model), list[Said]()
        pieces = [synthesizer.pieces(text, self.request["language"]) for text in texts]
        settings = SpeechSettings(seed=seed)
        for one in speak_texts(synthesizer, pieces, voice=synthesizer.default_voice(), settings=settings):
            found.append(one)
            if self._total:
                self._spoken += 1
                self.replies.send("progress", done=self._spoken, total=self._total)
            self._unscored += 1
            if time.monotonic() + self._unscored * self._scoring_s > self.deadline:
                break
        return found

    def _score(self, said: Sequence[Said], sentences: Sequence[SpokenSentence]) -> ModelScores:
        """The scores of those that `sentences` has."""
        how: dict[str, Any] = {"voice": self.voice, "embed": self.embed, "recognizer": self.recognizer}
        with tempfile.TemporaryDirectory() as folder:
            return score_model("spoken", said[: len(sentences)], sentences, folder=Path(folder), **how)

    def _texts_in_time(self, model: dict[str, Any], texts: Sequence[str], *, times: float) -> float:
        """How many texts can be spoken and measured until the deadline, by the time of the least number.

        Raises:
            TimeTooShort: not as many times the least number.
        """
        self.cache.load(**model)
        begun = time.monotonic()
        said = self._say(model, texts[: self.least], SEED)
        spoken = time.monotonic()
        self._score(said, [_sentence(text, self.voice) for text, _ in zip(texts, said, strict=False)])
        took = time.monotonic() - begun
        self._unscored, self._scoring_s = 0, (time.monotonic() - spoken) / len(said)
        fits = (self.deadline - time.monotonic()) / took
        if fits < times:
            raise TimeTooShort(f"it took {took:.0f} s for {self.least} texts")
        return fits * self.least

    def _reads(self, text: str) -> bool:
        try:
            return bool(self.cache.load(**self.base).pieces(text, self.request["language"]))
        except UserError:
            return False


def _sentence(text: str, wav: Tensor) -> SpokenSentence:
    return SpokenSentence(text=text, reference=wav)


def _is_right(score: Score) -> bool:
    """Whether the words of a text were understood, or are nearest to themselves where there is no recognizer."""
    return score.retrieval_rank == 1 if score.wer is None else score.wer < UNDERSTOOD


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
