"""Evaluate a project's checkpoints against its base, or a single model, on held-out sentences."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from utils.audio.decode import load_audio
from utils.bases.find import find_base
from utils.callbacks import ProgressFn
from utils.dataset.storage.manifest import read_manifest
from utils.errors import UserError, disk_errors
from utils.evaluation.features import RATE, trimmed
from utils.evaluation.measure import Embed, SpokenSentence, embedder, score_model, speak_texts
from utils.evaluation.plots import draw
from utils.evaluation.recognition import find_recognizer, usable
from utils.evaluation.reference import find_voice, near_misses, say
from utils.evaluation.scores import ModelScores, as_values, error_rates
from utils.evaluation.second_encoder import second_encoder
from utils.evaluation.settings import RESULT_FILE, EvaluateConfig
from utils.inference.device import held_device
from utils.inference.model_cache import ModelCache
from utils.options import SpeechSettings
from utils.project.paths import Project, new_run_id, open_project
from utils.runs.layout import READY, REFERENCE_FILE, ModelRef, Which, checkpoint_of, find_run, newest_run

MIN_REFERENCE_S = 0.1
"""Of speech, in a reference: what is shorter says nothing."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What was found."""

    folder: Path
    """Holds evaluation.json, summary.png, sentences.png, and the wavs in a folder a model."""
    models: list[ModelScores]
    missing: dict[str, str]
    """Measures that could not be taken, each with the reason."""
    floor: dict[str, float] | None = None
    """Error rates (wer, cer) of the recognizer on the original recordings: what it misreads of perfect speech."""


@disk_errors()
def evaluate(config: EvaluateConfig, *, progress: ProgressFn | None = None) -> Evaluation:
    """Speak and measure.

    Args:
        config: which models and sentences.
        progress: called with (phase, sentences done, in all).

    Raises:
        UserError: no such model or sentences, or nothing to compare them with.
    """
    config = config.validate(where="evaluation settings")
    project = open_project(config.project, config.output) if config.project else None
    sources, recording = _sources(config, project)
    language = _language(config, project)
    voice, no_voice = usable(partial(find_voice, language, config.synthesiser_voice))
    recognizer, no_recognizer = usable(partial(find_recognizer, config.whisper, language))
    second, no_second = usable(second_encoder)
    reasons = {"near_miss": no_voice, "wer": no_recognizer, "cer": no_recognizer, "second_cosine": no_second}
    missing = {measure: reason for measure, reason in reasons.items() if reason}
    sentences = _sentences(config, project, voice, no_voice)
    if all(not sentence.near_misses for sentence in sentences):
        missing.setdefault("near_miss", "the sentences have too few different words, or a script without spaces")
    assert project is not None or config.out is not None, "checked by EvaluateConfig.problems"
    folder = config.out or open_project(config.project or "", config.output).folder / "evaluation" / new_run_id()
    folder.mkdir(parents=True, exist_ok=True)
    models: list[ModelScores] = []
    with held_device("evaluate", config.device, output=config.output, folder=folder) as device:
        embed: Embed | None = None
        cache = ModelCache(device, precision=config.precision, pronounces=False)
        for name, source in sources.items():
            synthesizer = cache.load(**source)
            # The first one's speaker encoder embeds them all.
            embed = embed or embedder(synthesizer)
            said = speak_texts(
                synthesizer,
                [synthesizer.pieces(sentence.text, language) for sentence in sentences],
                voice=synthesizer.voice(recording),
                settings=SpeechSettings(temperature=config.temperature, seed=config.seed),
                guard=config.guard,
            )
            scores = score_model(
                name,
                said,
                sentences,
                voice=load_audio(recording, RATE),
                folder=folder,
                embed=embed,
                second_embed=second,
                recognizer=recognizer,
                progress=progress and partial(progress, f"speaking: {name}"),
            )
            models.append(scores)
    facts = _facts(config, language, sentences, recording)
    floor = None
    if recognizer is not None:
        # Sentences of a text file have no recordings, and a synthesizer's speech is no floor.
        if config.sentences is None:
            floor = error_rates([recognizer.recognize(one.reference, one.text) for one in sentences])
        facts |= {"recognizer": recognizer.name, "recognizer_floor": floor}
    values = as_values(models, missing, facts)
    (folder / RESULT_FILE).write_text(json.dumps(values, indent=1, ensure_ascii=False), encoding="utf-8")
    draw(models, folder)
    return Evaluation(folder=folder, models=models, missing=missing, floor=floor)


def make_sentence(
    text: str, others: Sequence[str], voice: str | None, *, recording: Tensor | None = None
) -> SpokenSentence:
    """A sentence with its references.

    Args:
        text: what to say.
        others: where the words of its near misses come from.
        voice: how the reference synthesizer speaks; None when there is none.
        recording: the sentence said by a person, [1, N] at 16 000 Hz.

    Raises:
        UserError: the reference is silent.
    """
    rendition = say(text, voice) if voice else None
    reference = recording if recording is not None else rendition
    assert reference is not None, "a sentence needs a recording or a synthesizer"
    if trimmed(reference).shape[1] < MIN_REFERENCE_S * RATE:
        raise UserError(
            what=f"the {'recording' if recording is not None else 'synthesizer'} of {text!r} is silent",
            fix="leave the sentence out, or prepare the dataset again if it is a clip",
        )
    near = [say(variant, voice) for variant in near_misses(text, others)] if voice else []
    return SpokenSentence(text=text, reference=reference, rendition=rendition, near_misses=near)


def _sources(config: EvaluateConfig, project: Project | None) -> tuple[dict[str, dict[str, Any]], Path]:
    """The models in the order asked for, each as `ModelCache.load` takes it, and the recording of the voice."""
    if project is None:
        assert config.model is not None, "checked by EvaluateConfig.problems"
        base = find_base(config.model)
        return {base.name: {"kind": "base", "source": config.model}}, _recording(config, base.folder)
    run = None
    if any(name != READY for name in config.checkpoints):
        which: Which = "last" if "last" in config.checkpoints else "best"
        run = find_run(project, config.run) if config.run else newest_run(project, which)
    sources: dict[str, dict[str, Any]] = {}
    for name in config.checkpoints:
        if name == READY:
            sources[name] = {"kind": "ready", "source": str(ModelRef.parse(READY).resolve(project))}
        else:
            assert run is not None
            checkpoint = "" if name == "base" else checkpoint_of(run, name).name[-8:]
            sources[name] = {"kind": "run", "source": str(run), "checkpoint": checkpoint}
    return sources, _recording(config, run or project.ready)


def _recording(config: EvaluateConfig, folder: Path) -> Path:
    """The recording of the voice that all models should sound like."""
    recording = config.reference or folder / REFERENCE_FILE
    if not recording.is_file():
        raise UserError(
            what="there is no recording of the voice to compare with",
            where=str(recording),
            fix="give one: --reference RECORDING",
        )
    return recording


def _language(config: EvaluateConfig, project: Project | None) -> str:
    language = config.language or (
        project.language() if project else find_base(config.model or "").about.get("language")
    )
    if not language:
        raise UserError(what="this model does not say which language it speaks", fix="give one: --language en")
    return str(language)


def _sentences(
    config: EvaluateConfig, project: Project | None, voice: str | None, no_voice: str
) -> list[SpokenSentence]:
    """The sentences with their references: recordings of the project, else the reference synthesizer."""
    recordings = _texts(config, project)
    if len(recordings) < 2:
        raise UserError(
            what=f"{len(recordings)} sentence cannot be distinguished from others",
            where=str(config.sentences or (project and project.eval_csv)),
            fix="give two or more different ones: --sentences FILE",
        )
    if voice is None and None in recordings.values():
        raise UserError(
            what=f"there is nothing to compare sentences of a text file with: {no_voice}",
            fix="install it, or leave --sentences out to measure on the project's evaluation clips",
        )
    return [
        make_sentence(
            text,
            list(recordings),
            voice,
            recording=None if path is None else load_audio(path, RATE),
        )
        for text, path in recordings.items()
    ]


def _texts(config: EvaluateConfig, project: Project | None) -> dict[str, Path | None]:
    """Different sentences, and the recording of each where there is one."""
    if config.sentences is not None:
        try:
            lines = config.sentences.read_text(encoding="utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise UserError(
                what=f"the sentences are not UTF-8 text: {error}", where=str(config.sentences), fix="save it as UTF-8"
            ) from error
        found: dict[str, Path | None] = dict.fromkeys(line.strip() for line in lines if line.strip())
    else:
        assert project is not None, "checked by EvaluateConfig.problems"
        found = {clip.text: clip.audio for clip in read_manifest(project.eval_csv)}
    return dict(list(found.items())[: config.num_sentences])


def _facts(
    config: EvaluateConfig, language: str, sentences: list[SpokenSentence], recording: Path
) -> dict[str, object]:
    return {
        "made": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "project": config.project,
        "model": config.model,
        "language": language,
        "voice": str(recording),
        "reference": "recordings" if config.sentences is None else "espeak-ng",
        "temperature": config.temperature,
        "seed": config.seed,
        "precision": config.precision,
        "num_sentences": len(sentences),
    }
