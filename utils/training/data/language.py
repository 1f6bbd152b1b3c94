"""The base that a run really starts from: for the Latin form of Amharic, the chosen one with what that form needs."""

import hashlib
import logging

from utils.bases.amharic import language_tokenizer, latin_extension, needs_latin
from utils.bases.base import Base
from utils.bases.find import find_base
from utils.bases.grow import grow_base
from utils.config import TrainConfig
from utils.errors import UserError
from utils.project.paths import Project
from utils.text.languages import AMHARIC, language_token

log = logging.getLogger(__name__)

__all__ = ["language_base", "language_tokenizer", "what_was_added"]

ADDED = "added_tokens"
"""In about.json: the tokens that a copy has beyond the chosen base."""


def language_base(config: TrainConfig, project: Project, base: Base) -> Base:
    """`base` itself, or a copy of it in the project's dataset folder that reads Amharic in its Latin form.

    The copy has the Amharic token and the letters that the base lacks; `what_was_added` tells the user.

    Args:
        config: the run's settings.
        project: where the copy goes; it is made once and used by all runs.
        base: the base that was chosen.

    Raises:
        UserError: as `needs_latin`, or a copy that was made before is damaged.
    """
    language = config.language or project.language()
    return _latin_copy(project, base) if needs_latin(base, language, use_amharic_g2p=config.use_amharic_g2p) else base


def what_was_added(chosen: Base, base: Base) -> str | None:
    """For people: how the base that `language_base` gave differs from the chosen one; None where it is that one."""
    if base.folder == chosen.folder:
        return None
    tokens = " ".join(base.about.get(ADDED, ()))
    return (
        f"base {chosen.name} got tokens for Amharic in its Latin form ({tokens}); the run trains a copy: {base.folder}"
    )


def _latin_copy(project: Project, base: Base) -> Base:
    extension = latin_extension(base.vocab)
    files = (file.stat() for file in base.weight_files)
    # Letters count as well: a copy that was made with the token alone cannot spell the texts.
    sizes = (f"{file.st_size} {file.st_mtime_ns}" for file in files)
    facts = " ".join([str(base.folder.absolute()), *sizes, *extension.added])
    folder = project.dataset / f"base-amh-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"
    if not (folder / "about.json").is_file():
        tokens = [language_token(AMHARIC), *extension.added]
        log.info("a copy of the base with tokens for Amharic (%s): %s", " ".join(tokens), folder)
        about = {"name": f"{base.name}-{AMHARIC}", "language": AMHARIC, "amharic_g2p": True, ADDED: tokens}
        try:
            grow_base(base, extension.content, extension.pieces, folder, about)
        except (OSError, UserError):
            # Another process of the same run may have made it first: then it is as good.
            if not (folder / "about.json").is_file():
                raise
    return find_base(str(folder))
