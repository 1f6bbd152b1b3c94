"""What a run starts from: a published base, another run's, or a copy that reads Latin Amharic; and what it keeps of it.

Clips of other languages, mixed into its epochs, keep a base from losing these.
"""

import hashlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from utils.bases.amharic import latin_extension, needs_latin
from utils.bases.base import Base
from utils.bases.find import find_base, run_base
from utils.bases.grow import grow_base
from utils.config import TrainConfig
from utils.errors import UserError
from utils.model.weights import GPT_PREFIX, State, read_weights
from utils.options import LORA_RANK, kept_shares
from utils.project.paths import Project
from utils.runs.checkpoints import load_checkpoint
from utils.runs.layout import MODEL_FILE, ModelRef
from utils.text.languages import AMHARIC, language_token

log = logging.getLogger(__name__)

START_FILE = "start.safetensors"
"""In the folder of a run with LoRA: the weights of another run that its additions belong to."""
ADDED = "added_tokens"
"""In about.json: the tokens that a copy has beyond the chosen base."""


@dataclass(frozen=True)
class TrainedBase(Base):
    """A run's base with the GPT that the run ended with."""

    gpt: Path
    """Its weight file."""

    def state(self) -> State:
        """The base's tensors, those of the GPT replaced.

        Raises:
            UserError: the checkpoint is damaged, or gone.
        """
        gpt = read_weights(self.gpt) if self.gpt.name == START_FILE else load_checkpoint(self.gpt.parent)
        others = {name: tensor for name, tensor in super().state().items() if not name.startswith(GPT_PREFIX)}
        return others | {GPT_PREFIX + name: tensor for name, tensor in gpt.items()}

    @property
    def weight_files(self) -> list[Path]:
        return [*super().weight_files, self.gpt]


def starting_base(config: TrainConfig, project: Project, resumed: Path | None = None) -> Base:
    """What the settings' base names.

    Args:
        config: `base` is a `ModelRef`.
        project: whose run.
        resumed: the folder of the run that is resumed: it needs nothing of the run it started from any more.

    Raises:
        UserError: there is no such base, run or complete checkpoint.
    """
    ref = ModelRef.parse(config.base)
    if resumed is None:
        if ref.kind == "base":
            return find_base(ref.name)
        folder = ref.resolve(project)
        if ref.kind == "ready":
            return find_base(str(folder))
        return TrainedBase(run_base(folder.parents[1]).folder, folder / MODEL_FILE)
    kept = resumed / START_FILE
    if kept.is_file():
        return TrainedBase(run_base(resumed).folder, kept)
    # All other weights come from its own checkpoint. A base in the project's folder may have moved with it.
    is_elsewhere = Path(config.base).is_absolute() and not Path(config.base).exists()
    return run_base(resumed, find_base(ref.name) if ref.kind == "base" and not is_elsewhere else None)


def language_base(config: TrainConfig, project: Project, base: Base) -> Base:
    """`base` itself, or a copy of it in the project's dataset folder that reads Amharic in its Latin form.

    The copy has the Amharic token and the letters that the base lacks; `what_was_added` is for the user.

    Args:
        config: the run's settings.
        project: where the copy goes; it is made once and used by all runs.
        base: the base that was chosen.

    Raises:
        UserError: as `needs_latin`, or a copy that was made before is damaged.
    """
    language = config.language or project.language()
    if not needs_latin(base, language, use_amharic_g2p=config.use_amharic_g2p):
        return base
    extension = latin_extension(base.vocab)
    # Letters count as well: a copy that was made with the token alone cannot spell the texts.
    sizes = (f"{file.st_size} {file.st_mtime_ns}" for file in map(Path.stat, base.weight_files))
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


def what_was_added(chosen: Base, base: Base) -> str | None:
    """For people: how the base that `language_base` gave differs from the chosen one; None where it is that one."""
    if base.folder == chosen.folder:
        return None
    tokens = " ".join(base.about.get(ADDED, ()))
    return (
        f"base {chosen.name} got tokens for Amharic in its Latin form ({tokens}); the run trains a copy: {base.folder}"
    )


class KeptLanguage(NamedTuple):
    """A prepared dataset in another language."""

    project: Project
    language: str
    """Code, as the tokenizer names it."""
    share: float
    """Of an epoch's clips."""


def kept_languages(config: TrainConfig, base: Base) -> list[KeptLanguage]:
    """What `keep_languages` names.

    Raises:
        UserError: a folder is no prepared dataset, or the base does not read its language.
    """
    found, taken = list[KeptLanguage](), {Project(name=config.project, output=Path(config.output)).folder.resolve()}
    for folder, share in kept_shares(config.keep_languages):
        project = Project(name=Path(folder).name, output=Path(folder).parent)
        if not project.train_csv.is_file():
            fix = "name the folder of a project that was prepared in another language, such as output/spanish:0.1"
            raise UserError(what="keep_languages names no prepared dataset", where=folder, fix=fix)
        if project.folder.resolve() in taken:
            fix = "name each project of another language once"
            raise UserError(what="keep_languages names a project that the run has already", where=folder, fix=fix)
        taken.add(project.folder.resolve())
        language = base.tokenizer().check_language(project.language())
        if language == config.language:
            log.warning("keep_languages: %s is in %s, the language of the run itself", folder, language)
        found.append(KeptLanguage(project, language, share))
    return found


def other_languages(config: TrainConfig, base: Base, kept: Iterable[KeptLanguage]) -> str:
    """For people: what a run of all weights in one language may cost a base that speaks several; empty for others."""
    own = {config.language, *(one.language for one in kept)}
    others = [code for code in base.tokenizer().languages if code not in own]
    if len(others) < 2 or config.lora_rank or not base.can_speak:
        return ""
    return (
        f"{base.name} reads {len(others)} languages besides {' and '.join(sorted(map(str, own)))}; training all "
        f"weights on {'one' if len(own) == 1 else 'these'} may cost it the others: --lora-rank {LORA_RANK} changes "
        "fewer weights, --keep-languages FOLDER mixes in clips of others"
    )
