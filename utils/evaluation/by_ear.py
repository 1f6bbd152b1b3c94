"""Measure by ear how models of one run speak: its checkpoints against evaluation clips, its export against its base.

The words are judged by a recognizer where one is installed. Without one, a text counts whose speech is nearest to its
own reference among all.

Shapes: N samples at 16 000 Hz.
"""

import logging
import time
from collections.abc import Sequence
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
from utils.evaluation.recognition import UNDERSTOOD, find_recognizer
from utils.evaluation.scores import error_rates
from utils.evaluation.words import rank
from utils.inference.engine import Synthesizer
from utils.inference.model_cache import ModelCache
from utils.jobs.json_lines import Message, Replies
from utils.options import OUTPUT_RATE, SpeechSettings

USED = 0.9
"""Share of the time given that is used: the waiting process ends this one when the time is over."""
SEED = 1
"""The same for every checkpoint, so that they differ by their weights only; an export and its base use the next."""
PASSES = 3
"""So often the texts of an export are spoken: twice by its base, once by itself."""
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
        found = [Reference.of(clip["text"], load_audio(Path(clip["audio"]), RATE)) for clip in clips]
        references = [one for one in found if one.is_speech]
        if len(references) < self.least:
            raise UserError(what=f"{len(references)} of {len(found)} evaluation clips are long enough")
        folders = [Path(folder) for folder in self.request["checkpoints"]]
        # The speaker encoder is the base's: one and the same for all checkpoints.
        embed = embedder(self._checkpoint(folders[0]))
        took = self._time_of_least(self._checkpoint(folders[0]), [one.text for one in references])
        fits = int((self.deadline - time.monotonic()) / took)
        folders = folders[:fits]
        references = references[: self.least * fits // max(1, len(folders))]
        measured: list[tuple[Path, list[Said], float]] = []
        for folder in folders if fits > 1 else ():
            begun = time.monotonic()
            said = self.speak(self._checkpoint(folder), [one.text for one in references], SEED)
            if len(said) < self.least:
                # The machine has become slower than it was at first: what was measured counts.
                break
            references = references[: len(said)]
            measured.append((folder, said, time.monotonic() - begun))
        if len(measured) < 2:
            raise TimeTooShort(f"it took {took:.0f} s for {self.least} texts of one checkpoint")
        scores = []
        for folder, said, seconds in measured:
            pairs = [(trimmed(one.wav), reference.wav) for one, reference in zip(said, references, strict=False)]
            cosines = [float(embed(wav) @ embed(to)) if wav.shape[1] > SHORTEST_S * RATE else 0.0 for wav, to in pairs]
            shares = self.shares(said[: len(references)], references)
            parts = {
                # Finer than the share of texts that a recognizer understood.
                "words": max(0.0, 1 - shares["wer"]) if "wer" in shares else shares["words"],
                "flawless": shares["flawless"],
                "cosine": sum(cosines) / len(cosines),
            }
            # Two digits: what differs by less sounds the same.
            score, step = round(sum(parts.values()), 2), int(folder.name.rsplit("-", 1)[1])
            scores.append({"step": step, "score": score, **parts, "texts": len(references), "seconds": seconds})
        return {"scores": scores, "texts": len(references)}

    def _export(self) -> dict[str, Any]:
        """Shares of texts with the right words, and of texts without a defect, by the base and by the exported model.

        The base speaks each text twice, with two seeds. The first time is the reference of words and endings. The
        second time says how often the base agrees with itself, and what the model is measured by: a base that speaks a
        language badly agrees with nothing, and no model is blamed for it.
        """
        base = self.models.load(kind="run", source=str(self.run))
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
        triples = [(Reference.of(text, first.wav), *said) for text, first, *said in zip(texts, *passes, strict=False)]
        if len(triples) < self.least:
            raise TimeTooShort(f"the model spoke {len(triples)} texts in it")
        # What the base did not say at all is no reference.
        kept = [one for one in triples if one[0].is_speech]
        if len(kept) < self.least:
            raise UserError(what=f"the base speaks {len(kept)} of {len(triples)} texts")
        references, again, said = zip(*kept, strict=True)
        return {"texts": len(kept), "base": self.shares(again, references), "model": self.shares(said, references)}

    def speak(
        self, synthesizer: Synthesizer, texts: Sequence[str], seed: int, *, done: int | None = None
    ) -> list[Said]:
        """Texts as a model speaks them side by side in its own voice, without guards; at 16 000 Hz.

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
            found.append(Said(wav=resample(one.wav.cpu(), OUTPUT_RATE, RATE), finished=one.finished))
            if done is not None:
                self.replies.send("progress", done=done + len(found), total=PASSES * len(texts))
            if time.monotonic() > self.deadline:
                break
        return found

    def shares(self, said: Sequence[Said], references: Sequence[Reference]) -> dict[str, float]:
        """Shares of texts, from 0 to 1, with the right words and without any defect; error rates of a recognizer."""
        wavs = [one.wav for one in said]
        if recognizer := self.recognizer:
            recognized = [recognizer.recognize(wav, to.text) for wav, to in zip(wavs, references, strict=True)]
            right, rates = [one.wer < UNDERSTOOD for one in recognized], error_rates(recognized)
        else:
            features = [one.features for one in references]
            spoken = [mfccs(trimmed(wav)) for wav in wavs]
            right = [rank(one, features[n], features[:n] + features[n + 1 :]) == 1 for n, one in enumerate(spoken)]
            rates = {}
        pace = usual_pace(wavs, [one.wav for one in references])
        flaws = [
            find_defects(one.wav, reference.wav, finished=one.finished, pace=pace).names
            for one, reference in zip(said, references, strict=True)
        ]
        return {"words": sum(right) / len(right), "flawless": flaws.count([]) / len(flaws)} | rates

    def _time_of_least(self, synthesizer: Synthesizer, texts: Sequence[str]) -> float:
        """Seconds for the least number of texts, from which the time of all is estimated."""
        begun = time.monotonic()
        spoken = self.speak(synthesizer, texts[: self.least], SEED)
        self.shares(spoken, [Reference.of(text, one.wav) for text, one in zip(texts, spoken, strict=False)])
        return time.monotonic() - begun

    def _checkpoint(self, folder: Path) -> Synthesizer:
        return self.models.load(kind="run", source=str(self.run), checkpoint=folder.name[-8:])

    def _reads(self, synthesizer: Synthesizer, text: str) -> bool:
        try:
            return bool(synthesizer.pieces(text, self.request["language"]))
        except UserError:
            return False


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
