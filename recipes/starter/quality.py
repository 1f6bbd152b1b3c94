"""Stage I: the quality table of the packed base on sentences nobody trained on; leaves work/evaluation/.

Two say the held-out list, the twelve voices taking turns: the base, and "ceiling", the true recording's codes through
the same GPT and decoder. espeak-ng's own recording is the reference of all distances.
"""

from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor

from recipes.starter.corpus import read_manifest, read_wav
from recipes.starter.judge import load_recording, reference_voice, table
from recipes.starter.package import made
from recipes.starter.voices import GPT_VOICES
from utils.audio.resample import resample
from utils.bases.base import Base
from utils.bases.find import find_base
from utils.decoder_training.latents import known_latents
from utils.evaluation.evaluate import embedder, make_sentence, write_evaluation
from utils.evaluation.features import RATE
from utils.evaluation.measure import Said, SpokenSentence, TestedModel, score_model
from utils.evaluation.scores import ModelScores
from utils.inference.engine import Synthesizer
from utils.inference.sampling import Sampling
from utils.model.dvae import load_code_encoder
from utils.model.voices import Voice
from utils.options import DATASET_RATE

NUM_SENTENCES = (50, 100)
"""Retrieval is among 50; false ends are too rare to be counted on so few."""
REFERENCE_CLIPS = 3


def run(work: Path) -> None:
    """Measure the packed base, print the tables and write figures, pictures and wavs.

    Raises:
        UserError: the corpus stage has not been run: the sentences' recordings are its.
    """
    made(work / "corpus" / "metadata_heldout.csv", "corpus")
    for count in NUM_SENTENCES:
        models = evaluate(find_base("starter"), work, work / "evaluation" / str(count), count=count)
        Console().print(table(f"assets/starter, {count} held-out sentences", models))


def evaluate(base: Base, work: Path, folder: Path, *, count: int, seed: int = 1) -> list[ModelScores]:
    """Scores of the base, sampling with `seed`, and of its codec's ceiling on the first `count` held-out sentences."""
    synthesizer = Synthesizer(base)
    rows = read_manifest(work / "corpus" / "metadata_heldout.csv")[:count]
    texts = [text for _, text, _ in rows]
    sentences = [
        make_sentence(text, texts, reference_voice(name), recording=load_recording(path), of=name)
        for path, text, name in rows
    ]
    voices, recordings = synthesizer.speakers(), {text: path for path, text, _ in rows}
    speakers = [
        TestedModel(name="starter", speak=partial(map, _base(synthesizer, voices, seed))),
        TestedModel(name="ceiling", speak=partial(map, _ceiling(synthesizer, voices, recordings))),
    ]
    targets = references(work)
    folder.mkdir(parents=True, exist_ok=True)
    embed = embedder(synthesizer)
    models = [score_model(speaker, sentences, voices=targets, folder=folder, embed=embed) for speaker in speakers]
    write_evaluation(
        folder, models, dict.fromkeys(("wer", "cer"), "the recipe has no recognizer"), {"base": base.about}
    )
    return models


def references(work: Path) -> dict[str, Tensor]:
    """Some training clips of each voice in a row, [1, N] at 16 000 Hz."""
    rows = read_manifest(work / "corpus" / "metadata_train.csv")
    found = {}
    for voice in GPT_VOICES:
        clips = islice((path for path, _, name in rows if name == voice.name), REFERENCE_CLIPS)
        found[voice.name] = resample(torch.cat([read_wav(clip) for clip in clips], dim=1), DATASET_RATE, RATE)
    return found


def _base(synthesizer: Synthesizer, voices: dict[str, Voice], seed: int) -> Callable[[SpokenSentence], Said]:
    def speak(sentence: SpokenSentence) -> Said:
        pieces = synthesizer.pieces(sentence.text, "en")
        spoken = list(synthesizer.sentences(pieces, voice=voices[sentence.voice], sampling=Sampling(), seed=seed))
        return Said(wav=torch.cat([one.wav for one in spoken], dim=1), finished=all(one.finished for one in spoken))

    return speak


def _ceiling(
    synthesizer: Synthesizer, voices: dict[str, Voice], recordings: dict[str, Path]
) -> Callable[[SpokenSentence], Said]:
    encoder = load_code_encoder(synthesizer.base.dvae, synthesizer.base.mel_stats())

    @torch.inference_mode()
    def speak(sentence: SpokenSentence) -> Said:
        wav, voice = read_wav(recordings[sentence.text]), voices[sentence.voice]
        (codes,) = encoder(wav, [wav.shape[1]])
        tokens = torch.tensor(synthesizer.tokenizer.encode(sentence.text, "en"))
        (latents,) = known_latents(synthesizer.gpt, voice.latents, [tokens], [codes])
        return Said(wav=synthesizer.vocoder(latents[None], voice.embedding), finished=True)

    return speak
