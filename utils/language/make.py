"""See how a base reads a language, and make a base that reads it well; the page shows what was found and kept."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from utils.bases.base import Base
from utils.bases.download import fetched_base
from utils.bases.extend import AddedLanguage, add_language, free_home
from utils.bases.grow import TUNED_DVAE
from utils.callbacks import ProgressFn
from utils.codec_training.tune_dvae import TunedDvae, tuned_dvae
from utils.errors import disk_errors
from utils.files import write_atomic
from utils.jobs.child import hold
from utils.language.reading import Coverage, advice, long_limits, read_texts, texts_of
from utils.performance_utils.device import settle_device
from utils.project.paths import Project, open_project
from utils.text.language_settings import READING_FILE, LanguageConfig
from utils.training.switches.optim import make_accelerator

MOST_KEPT = 40
"""Characters and notes that are kept of a reading."""


@dataclass(frozen=True, kw_only=True)
class LanguageLook:
    """How a base reads the texts of a language."""

    config: LanguageConfig
    project: Project
    base: Base
    source: Path
    """Where the texts are from."""
    texts: list[tuple[str, float]]
    """Each with the seconds of its sound, 0 where there is none."""
    before: Coverage

    @property
    def limit(self) -> int:
        """Tokens of the longest text that the base takes."""
        return self.base.defaults.max_text_length


def look_at_language(config: LanguageConfig, *, progress: ProgressFn | None = None) -> LanguageLook:
    """See how the base reads the language.

    Raises:
        UserError: no texts, or no such base.
    """
    project = open_project(config.project, config.output)
    base = fetched_base(config.base, progress=progress)
    source = config.corpus or project.train_csv
    texts = texts_of(source, is_manifest=config.corpus is None)
    before = read_texts(texts, config.language, base.tokenizer(), limit=base.defaults.max_text_length)
    return LanguageLook(config=config, project=project, base=base, source=source, texts=texts, before=before)


def keep_advice(look: LanguageLook) -> str:
    """What to do about the language, kept with what was found."""
    advised = advice(look.before, look.config.language, look.base)
    _keep(look, after=None, made=None, advice=advised)
    return advised


def make_base(
    look: LanguageLook, *, progress: ProgressFn | None = None
) -> tuple[AddedLanguage, TunedDvae | None, Coverage]:
    """Make the base that the settings ask for, in the project's folder.

    Returns:
        The base; the result of training the DVAE, None when it was not requested; and how the base reads the texts.

    Raises:
        UserError: it exists already, or its DVAE cannot be trained.
    """
    config, base, project = look.config, look.base, look.project
    code = config.g2p or config.language
    # Before hours of work: what would stop it in the end.
    free_home(project.folder, code, own_dvae=config.train_dvae, another=config.another)
    limits = long_limits(base, max_text_length=config.max_text_length, max_audio_length=config.max_audio_length)
    with _dvae(look, progress) as tuned:
        facts = {TUNED_DVAE: tuned.facts} if tuned else {}
        added = add_language(
            base,
            code,
            project.folder,
            corpus=look.source,
            target=config.extend or 0,
            amharic_g2p=config.g2p is not None,
            input_sentence_size=config.input_sentence_size,
            coverage=config.character_coverage,
            about={"training": {**base.about.get("training", {}), **limits}, **facts},
            dvae=tuned.file if tuned else None,
            another=config.another,
        )
    limit = added.base.defaults.max_text_length
    after = read_texts(look.texts, config.language, added.base.tokenizer(), limit=limit)
    reasons = dict(added.extension.reasons)
    values, num_added = _values(after, limit), len(added.extension.added)
    _keep(look, after=values, made=str(added.base.folder), left_out=reasons, added=num_added)
    return added, tuned, after


@contextmanager
def _dvae(look: LanguageLook, progress: ProgressFn | None) -> Iterator[TunedDvae | None]:
    """A DVAE trained on, for as long as the block lasts; None when it was not asked for."""
    config, project = look.config, look.project
    if not config.train_dvae:
        yield None
        return
    with (
        hold("language", device=settle_device(config.device)[0], output=project.output, folder=project.folder),
        tuned_dvae(
            look.base,
            project,
            steps=config.dvae_steps,
            learning_rate=config.dvae_learning_rate,
            device=make_accelerator(config.device).device,
            progress=progress,
        ) as tuned,
    ):
        yield tuned


@disk_errors()
def _keep(look: LanguageLook, **outcome: Any) -> None:
    """Write what was found to the project's folder, where the page reads it."""
    found: dict[str, Any] = {"language": look.config.language, "base": look.base.name, "source": str(look.source)}
    found |= {"before": _values(look.before, look.limit), **outcome}
    look.project.folder.mkdir(parents=True, exist_ok=True)
    write_atomic(look.project.folder / READING_FILE, json.dumps(found, ensure_ascii=False, indent=1))


def _values(reading: Coverage, limit: int) -> dict[str, Any]:
    """A reading as plain values: what the page shows."""
    counts = {name: getattr(reading, name) for name in ("num_texts", "num_tokens", "over_limit", "samples")}
    rates = {name: getattr(reading, name) for name in ("tokens_per_word", "tokens_per_second")}
    lists = {name: getattr(reading, name).most_common(MOST_KEPT) for name in ("unknown", "notes")}
    return {**counts, **rates, **lists, "num_unknown": len(reading.unknown), "limit": limit}
