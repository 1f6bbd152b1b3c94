"""How many texts of two sentences lose one, by each way to speak: python -m benchmarks.lost_sentences --texts 40.

The starter speaks each text through the command line, the page's queue, the speech server and `Speaker`, with their
defaults and one seed, and once in one generation without guards, where sentences do get lost. A sentence is lost where
a recognizer finds less than a third of its words and the speech is too short for it: by more than half of the time that
the sentence takes at the voice's usual pace. Where the speech is long enough, it was misread, which is counted apart.
"""

import io
import runpy
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest.mock import patch

import httpx
import tyro

from tests.server.conftest import start_server
from utils.audio.decode import load_audio
from utils.evaluation.features import RATE, trimmed
from utils.evaluation.recognition import find_recognizer, normalizer
from utils.inference.speaker import Speaker
from utils.options import SpeechSettings
from utils.project.paths import open_project
from utils.speech.take_queue import GenerationQueue

SENTENCES = Path(__file__).with_name("sentences.txt")
FOUND = 1 / 3
"""Share of a sentence's words that the recognizer must find: it misreads some of the starter's."""
SEED = 1
"""Of every text and way."""
Say = Callable[[str, Path], None]
"""Writes a recording of a text."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to measure."""

    texts: int = 40
    """Texts of two sentences, through each way."""


def main() -> None:
    texts = tyro.cli(Settings, description=__doc__).texts
    sentences = SENTENCES.read_text(encoding="utf-8").splitlines()
    pairs = [(first, sentences[-1 - number]) for number, first in enumerate(sentences[:texts])]
    recognizer = find_recognizer(None, "en")
    words = normalizer("en")
    with tempfile.TemporaryDirectory() as folder:
        for name, say in ways(Path(folder)):
            spoken = []
            for number, pair in enumerate(pairs):
                wav = Path(folder) / f"{number}.wav"
                say(" ".join(pair), wav)
                sound = load_audio(wav, RATE)
                spoken.append((words(recognizer.hear(sound)), trimmed(sound).shape[1] / RATE))
            verdicts = judged([tuple(map(words, pair)) for pair in pairs], spoken)
            for what in ("lost", "misread"):
                found = [number for number, verdict in enumerate(verdicts, start=1) if verdict == what]
                print(
                    f"{name:26} {len(found):3} of {len(pairs)} texts have a {what} sentence  {found or ''}", flush=True
                )


def judged(texts: Sequence[Sequence[str]], spoken: Sequence[tuple[str, float]]) -> list[str]:
    """Whether each text has a `lost` sentence, else a `misread` one; empty where all words are there.

    Args:
        texts: sentences of each text, normalized.
        spoken: what the recognizer understood of each text, normalized, and the seconds of speech.
    """
    pace = statistics.median(seconds / sum(map(len, text)) for text, (_, seconds) in zip(texts, spoken, strict=True))
    verdicts = []
    for text, (recognized, seconds) in zip(texts, spoken, strict=True):
        found = set(recognized.split())
        unheard = [one for one in text if len(found & set(one.split())) < FOUND * len(set(one.split()))]
        missing_s = pace * sum(map(len, text)) - seconds
        is_lost = any(missing_s > pace * len(one) / 2 for one in unheard)
        verdicts.append("lost" if is_lost else "misread" if unheard else "")
    return verdicts


def ways(folder: Path) -> Iterator[tuple[str, Say]]:
    """Each way to speak by its name."""
    speaker = Speaker("starter", device="cpu")
    yield (
        "one generation, unguarded",
        lambda text, out: speaker.speak(text, split="joined", guard=False, seed=SEED).save(out),
    )
    yield "Speaker", lambda text, out: speaker.speak(text, seed=SEED).save(out)
    yield "synthesize", _by_command
    with ExitStack() as stack:
        queue = GenerationQueue(folder, device="cpu")
        stack.callback(queue.release, "measured")
        yield "page", partial(_by_page, queue, folder)
    server = start_server(folder, "--model", "starter", "--device", "cpu")
    try:
        yield "server", partial(_by_server, server.url)
    finally:
        if server.process:
            server.process.terminate()


def _by_command(text: str, out: Path) -> None:
    flags = ["--model", "starter", "--device", "cpu", "--text", text, "--out", str(out), "--seed", str(SEED)]
    with patch.object(sys, "argv", ["synthesize", *flags]), redirect_stdout(io.StringIO()):
        runpy.run_module("utils.cli.synthesize", run_name="__main__")


def _by_page(queue: GenerationQueue, folder: Path, text: str, out: Path) -> None:
    project = open_project("measured", folder)
    project.folder.mkdir(exist_ok=True)
    take = queue.submit(project, [text], model="base/starter", settings=SpeechSettings(language="en", seed=SEED))
    take = [take, *queue.follow(take)][-1]
    out.write_bytes(take.wavs[0].read_bytes())


def _by_server(url: str, text: str, out: Path) -> None:
    body = {"model": "starter", "voice": "default", "input": text, "response_format": "wav", "seed": SEED}
    out.write_bytes(httpx.post(f"{url}/v1/audio/speech", json=body, timeout=300).raise_for_status().content)


if __name__ == "__main__":
    main()
