"""A base model: a folder with weights, config.json, vocab.json, DVAE, mel_stats and speakers."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from safetensors import safe_open
from torch import Tensor

from utils.bases.catalog import DOWNLOADED, LICENSE_ID, has_weights
from utils.errors import UserError
from utils.model.shapes import NUM_MELS, DecoderShape, GptShape, decoder_shape, gpt_shape, read_config
from utils.model.weights import State, read_weights
from utils.options import STARTER, Conditioning
from utils.project.paths import assets_folder, bases_folder
from utils.text.tokenizer import Tokenizer

XTTS_CROP = (66_150, 132_300)
"""Shortest and longest conditioning crop that XTTS v2 was trained with, in samples: 3 and 6 s (coqui-tts, GPTArgs)."""
XTTS_ROWS = 6_681
"""Text rows of XTTS v2."""
FORMER_STARTER = 5
"""Version of the starter that models and runs without one were made from."""
AFTER_NEW_VERSION = "train again from this version; an exported model keeps working"
ADDED_ROWS = "added_rows"
"""In about.json: first and last ids of the rows that the vocabulary was grown by."""


@dataclass(frozen=True, kw_only=True)
class TrainingDefaults:
    """What a base recommends for its own fine-tuning; a setting given by the user wins."""

    learning_rate: float = 5e-6
    """Peak learning rate."""
    num_epochs: int = 10
    max_audio_length: int = 255_995
    """Longest clip, in samples at 22 050 Hz."""
    max_text_length: int = 200
    """Longest transcript, in tokens."""
    dropout: float = 0.1
    """Share dropped from embeddings, residuals and attention weights while training."""
    crop: tuple[int, int] = XTTS_CROP
    """Shortest and longest conditioning crop the base was trained with, in samples."""
    conditioning: Conditioning = "own"
    """Where the crop is from; XTTS v2 was trained on crops of the clip itself."""
    dvae_learning_rate: float | None = None
    """Of its DVAE's training; `learning_rate` when None."""
    decoder_steps: int = 0
    """Steps in which an export teaches the decoder's acoustic trunk the voice; XTTS v2's decoder has none."""


@dataclass(frozen=True)
class Base:
    """A model folder that training starts from or that speaks."""

    folder: Path

    @cached_property
    def about(self) -> dict[str, Any]:
        """The folder's about.json, or nothing for a folder of other software."""
        path = self.folder / "about.json"
        try:
            about = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        except ValueError as error:
            raise UserError(what=f"about.json is not JSON: {error}", where=str(path)) from error
        if not isinstance(about, dict) or not all(isinstance(about.get(key, {}), dict) for key in ("training", "base")):
            raise UserError(what="about.json does not describe a model", where=str(path), fix="remove the file")
        return about

    @property
    def name(self) -> str:
        return str(self.about.get("name") or self.folder.name)

    @property
    def origin(self) -> Path | None:
        """Folder of the base that it was made from; None where about.json names none."""
        named = self.about.get("base", {}).get("folder")
        # Earlier versions wrote an absolute path.
        return named and where_it_lies(Path(os.path.normpath(self.folder.resolve() / named)), self.folder.parent)

    def as_origin(self, made: Path) -> dict[str, Any]:
        """What about.json of a model says of this base, which has its DVAE; no folder above both, such as a home.

        Args:
            made: the model's folder, or one beside it.
        """
        folder = self.dvae.parent.absolute()
        version = Base(folder).about.get("version")
        is_known = folder.parent in (bases_folder().absolute(), assets_folder().absolute())
        path = folder.name if is_known else os.path.relpath(folder.resolve(), made.resolve())
        return {"name": self.name, "folder": path, "version": version}

    def require_version(self, record: dict[str, Any], *, what: str, where: Path) -> Self:
        """This base, for what was made from it: a new version has other codes, which older weights know nothing of.

        Args:
            record: what it says of the base that it was made from.
            what: what was made, for the message.
            where: its folder.

        Raises:
            UserError: it was made from another version.
        """
        version = self.about.get("version")
        # Records had no version before the starter's sixth.
        made_from = record.get("version", FORMER_STARTER if self.name == STARTER else version)
        if made_from != version:
            raise UserError(
                what=f"{what} was made from version {made_from} of base {self.name}, and this is version {version}",
                where=str(where),
                fix=AFTER_NEW_VERSION,
            )
        return self

    @property
    def license(self) -> str:
        """Its license; empty where its folder names none."""
        return str(self.about.get("license") or (LICENSE_ID if self.name in DOWNLOADED else ""))

    @property
    def defaults(self) -> TrainingDefaults:
        """The base's own training defaults, those of XTTS v2 where it names none."""
        known = TrainingDefaults.__dataclass_fields__
        own = self.about.get("training", {})
        values: dict[str, Any] = {
            # JSON has no tuples.
            key: tuple(value) if isinstance(value, list) else value
            for key, value in own.items()
            if key in known
        }
        return TrainingDefaults(**values)

    @cached_property
    def config(self) -> dict[str, Any]:
        return read_config(self.folder)

    def tokenizer(self) -> Tokenizer:
        """The base's tokenizer, read once."""
        return self._tokenizer

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer(self.vocab, amharic_g2p=self.amharic_g2p)

    @property
    def amharic_g2p(self) -> bool:
        """Whether this model reads Amharic in its Latin form."""
        return bool(self.about.get("amharic_g2p", False))

    @property
    def vocab(self) -> Path:
        return self.folder / "vocab.json"

    @property
    def speakers(self) -> Path:
        return self.folder / "speakers_xtts.pth"

    def added_rows(self) -> tuple[int, ...] | None:
        """Text rows of tokens that were added to the vocabulary since it was published; None where that is unknown.

        Models keep them through fine-tuning and export: few steps of LoRA are not all that a new row needs.

        Raises:
            UserError: about.json names them wrongly.
        """
        spans = self.about.get(ADDED_ROWS)
        if spans is not None:
            return _rows_of(spans, self)
        # One that an earlier version made names the base whose codes it was trained on.
        origin = self.origin
        if not origin or origin == self.folder:
            return () if "kind" in self.about or self.tokenizer().num_rows == XTTS_ROWS else None
        published = Base(origin)
        inherited = published.added_rows() if published.vocab.is_file() else None
        return None if inherited is None else (*inherited, *self.tokenizer().ids_beyond(published.tokenizer()))

    def gpt_shape(self) -> GptShape:
        return gpt_shape(self.config, self.tokenizer())

    def decoder_shape(self) -> DecoderShape:
        return decoder_shape(self.config)

    @property
    def can_speak(self) -> bool:
        """Whether speech comes out: not of the tiny base's random weights, nor of a base without a decoder."""
        if not self.about.get("speaks", self.about.get("kind") != "tiny"):
            return False
        if self.weights.suffix != ".safetensors":
            return True
        with safe_open(self.weights, framework="pt") as file:
            return any(name.startswith("hifigan_decoder.") for name in file.keys())  # noqa: SIM118

    @property
    def weights(self) -> Path:
        """The model's weight file.

        Raises:
            UserError: the folder has none.
        """
        return self._file("model.safetensors", "model.pth")

    @property
    def weight_files(self) -> list[Path]:
        """Every file that `state` reads weights of the model from."""
        return [self.weights]

    def state(self) -> State:
        """The model's tensors under stock's names: gpt.*, hifigan_decoder.*, mel_stats."""
        # Checkpoints of stock's trainer prefix each name with `xtts.` and carry the DVAE and two spectrograms as well;
        # some published files repeat the GPT (coqui-tts, Xtts.get_compatible_checkpoint_state_dict).
        dropped = ("dvae.", "torch_mel_spectrogram", "gpt.gpt_inference.", "gpt.gpt.wte.")
        named = {name.removeprefix("xtts."): tensor for name, tensor in read_weights(self.weights).items()}
        return {name: tensor for name, tensor in named.items() if not name.startswith(dropped)}

    @property
    def dvae(self) -> Path:
        """The DVAE file: the folder's own, or for an exported model that of the base it was made from.

        Raises:
            UserError: neither is there.
        """
        if self.origin and not any((self.folder / name).is_file() for name in _DVAE_NAMES):
            origin = Base(self.origin).require_version(self.about["base"], what="the model", where=self.folder)
            return origin.dvae
        return self._file(*_DVAE_NAMES)

    def mel_stats(self) -> Tensor:
        """Scale of each mel channel, [80]."""
        path = self.folder / "mel_stats.pth"
        state = read_weights(path) if path.is_file() else self.state()
        if "mel_stats" not in state or state["mel_stats"].shape != (NUM_MELS,):
            raise UserError(
                what=f"no mel_stats of {NUM_MELS} channels", where=str(path), fix="download or create the base again"
            )
        return state["mel_stats"].float()

    def _file(self, *names: str) -> Path:
        for name in names:
            if (self.folder / name).is_file():
                return self.folder / name
        raise UserError(
            what=f"the model folder has no {' or '.join(names)}",
            where=str(self.folder),
            fix="download or create the base again, or use the folder that contains these files",
        )


def spans_of(rows: Iterable[int]) -> list[tuple[int, int]]:
    """First and last of each unbroken stretch of ids."""
    spans: list[tuple[int, int]] = []
    for row in sorted(set(rows)):
        if spans and spans[-1][1] == row - 1:
            spans[-1] = (spans[-1][0], row)
        else:
            spans.append((row, row))
    return spans


def _rows_of(spans: Any, base: Base) -> tuple[int, ...]:
    try:
        pairs = [(int(first), int(last)) for first, last in spans]
    except (TypeError, ValueError):
        pairs = [(-1, -1)]
    if not all(0 <= first <= last < base.tokenizer().num_rows for first, last in pairs):
        raise UserError(
            what=f"{ADDED_ROWS} in about.json are not rows of this vocabulary: {spans}",
            where=str(base.folder / "about.json"),
            fix="use the about.json of this base, or remove the line",
        )
    return tuple(row for first, last in pairs for row in range(first, last + 1))


_DVAE_NAMES = ("dvae.safetensors", "dvae.pth")


def where_it_lies(folder: Path, *beside: Path) -> Path:
    """A base's folder that was written down as an absolute path, or where it lies since its surroundings were moved.

    Args:
        folder: as it was.
        beside: folders in which one of that name would be the same base, such as the project's.
    """
    folders = (folder, *(place / folder.name for place in (*beside, bases_folder(), assets_folder())))
    return next((place for place in folders if has_weights(place)), folder)
