"""Settings of the language check, and where its result is stored."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from utils.options import DATASET_RATE, MIN_CLIP_SECONDS, STARTER, Device
from utils.settings import Config

LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")
READING_FILE = "language.json"
"""In the project's folder: what the last look found."""
_SHORTEST = int(MIN_CLIP_SECONDS * DATASET_RATE)
_LIMITS = {
    "dvae_steps": ("[1, inf]", "", "1 or more, such as 1000"),
    "dvae_learning_rate": ("(0, 1)", "", "a value between 1e-7 and 1e-2"),
    "max_audio_length": (f"[{_SHORTEST}, inf]", "samples", f"{_SHORTEST} (0.5 s) or more"),
    "max_text_length": ("[1, inf]", "tokens", "1 or more"),
    "extend": ("[0, 100000]", "", "0 to 100000, such as 2000"),
    "input_sentence_size": ("[0, inf]", "", "0 (all) or more"),
    "character_coverage": ("[0.9, 1]", "", "0.9 to 1"),
}


@dataclass(frozen=True, kw_only=True)
class LanguageConfig(Config):
    """See how a base reads a language, and make a base that reads it well."""

    project: str
    """Name of the voice; its folder below `output`. The new base goes to its base-<language> folder."""
    language: str
    """Code of the language: amh, ka, sw, ..."""
    output: Path = Path("output")
    """The folder that holds all projects."""
    base: str = STARTER
    """Base to look at and to start from: a base name or a folder, fine-tuned or extended before."""
    corpus: Path | None = None
    """Text in the language: .csv, .json, .jsonl, or plain text; the project's training clips when not given."""
    extend: int | None = None
    """Make a base with at most this many more tokens; 0 adds the language's token only."""
    g2p: Literal["amh"] | None = None
    """Make a base that reads Amharic in the Latin form of its sounds instead."""
    another: bool = False
    """Where that base exists already, make another one beside it: base-<language>-2, and so on."""
    input_sentence_size: int = 10_000_000
    """Sentences that SentencePiece samples from the corpus; 0 takes all."""
    character_coverage: float = 0.9995
    """Share of the corpus's letters that get a token."""
    max_text_length: int | None = None
    """Longest transcript that the new base takes by default, in tokens; 400 when not given (XTTS v2 has 402)."""
    max_audio_length: int | None = None
    """Longest clip that the new base takes by default, in samples; 330 750 (15 s) when not given."""
    train_dvae: bool = False
    """Train the new base's DVAE on with the project's prepared clips, for sounds that the published one lacks."""
    dvae_steps: int = 1_000
    """Steps of that."""
    dvae_learning_rate: float | None = None
    """Peak learning rate of that; the base's own when not given."""
    device: Device = "auto"
    """Where the DVAE is trained; auto takes a CUDA GPU when there is one."""

    @property
    def makes_base(self) -> bool:
        """Whether a new base was asked for, rather than a look."""
        return self.extend is not None or self.g2p is not None or self.train_dvae

    def problems(self) -> list[str]:
        found = self.beyond(_LIMITS)
        # The new base's folder is called after it.
        if not LANGUAGE_CODE.fullmatch(self.language):
            found.append(f"language is {self.language!r}; use a code such as amh, ka, sw or zh-cn")
        if (self.max_text_length or self.max_audio_length) and not self.makes_base:
            found.append(
                "max_text_length and max_audio_length are limits of a new base; use them with extend, g2p or train_dvae"
            )
        if self.extend is not None and self.g2p is not None:
            found.append("extend and g2p are alternatives; use one of them")
        return found
