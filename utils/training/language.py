"""The base that a run really starts from: for the Latin form of Amharic, the chosen one with a token for Amharic."""

import hashlib
import logging
import tempfile
from pathlib import Path

from utils.config import TrainConfig
from utils.errors import UserError
from utils.model.base import Base
from utils.model.grow import grow_base
from utils.paths import Project
from utils.text.languages import AMHARIC, plain_code
from utils.text.tokenizer import Tokenizer
from utils.text.vocabulary.extend import extend_vocabulary

log = logging.getLogger(__name__)


def language_base(config: TrainConfig, project: Project, base: Base) -> Base:
    """`base` itself, or a copy of it in the project's dataset folder that has the Amharic token and says how it reads.

    Args:
        config: the run's settings.
        project: where the copy goes; it is made once and used by all runs.
        base: the base that was chosen.

    Raises:
        UserError: the Latin form is asked for another language, or a base that learned it is to read Ethiopic letters.
    """
    needs_token = _needs_token(base, config.language or project.language(), config.use_amharic_g2p)
    return _with_token(project, base) if needs_token else base


def language_tokenizer(base: Base, language: str, *, use_amharic_g2p: bool) -> Tokenizer:
    """What training would read with, for planning: `language_base` copies a whole base for it.

    Raises:
        UserError: as `language_base`.
    """
    if not _needs_token(base, language, use_amharic_g2p):
        return base.tokenizer()
    with tempfile.TemporaryDirectory() as scratch:
        vocab = Path(scratch) / "vocab.json"
        vocab.write_text(extend_vocabulary(base.vocab, AMHARIC).content, encoding="utf-8")
        return Tokenizer(vocab, amharic_g2p=True)


def _needs_token(base: Base, language: str, use_amharic_g2p: bool) -> bool:
    language = plain_code(language)
    if not use_amharic_g2p:
        if base.amharic_g2p and language == AMHARIC:
            raise UserError(
                what="this base reads Amharic in its Latin form, and use_amharic_g2p is off",
                where=str(base.folder),
                fix="set use_amharic_g2p, or start from the base that it was made from",
            )
        return False
    if language != AMHARIC:
        raise UserError(
            what=f"use_amharic_g2p is for Amharic, and the language is {language!r}",
            where="training settings",
            fix="set language to amh, or switch use_amharic_g2p off",
        )
    return not base.amharic_g2p


def _with_token(project: Project, base: Base) -> Base:
    files = (file.stat() for file in base.weight_files)
    facts = " ".join([str(base.folder.absolute()), *(f"{file.st_size} {file.st_mtime_ns}" for file in files)])
    key = hashlib.sha256(facts.encode()).hexdigest()[:12]
    folder = project.dataset / f"base-amh-{key}"
    if not (folder / "about.json").is_file():
        extension = extend_vocabulary(base.vocab, AMHARIC)
        log.info("the base gets a token for Amharic: %s", folder)
        try:
            grow_base(base, extension.content, extension.pieces, folder, {"amharic_g2p": True})
        except (OSError, UserError):
            # Another process of the same run may have made it first: then it is as good.
            if not (folder / "about.json").is_file():
                raise
    return Base(folder)
