"""Look at a language and add it to a base: python -m utils.cli.language --project NAME --language xx --extend 2000."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from utils.cli.common import progress_phases, run_command
from utils.config import SAMPLE_RATE
from utils.errors import disk_errors
from utils.files import write_atomic
from utils.project.advice import FOLDER, command
from utils.project.paths import Project, open_project
from utils.text.language_settings import READING_FILE, LanguageConfig

if TYPE_CHECKING:
    from utils.bases.base import Base
    from utils.bases.extend import AddedLanguage
    from utils.codec_training.tune_dvae import TunedDvae
    from utils.training.data.vocabulary_plan import Reading

SHOWN = 40
"""Characters and notes that are listed."""


def main(args: Sequence[str] | None = None) -> None:
    """The command; see `utils.cli.common.run_command` for its exit statuses."""
    run_command(LanguageConfig, look, "See how a base reads a language, and make one that reads it well.", args)


def look(config: LanguageConfig) -> None:
    """See how the base reads the language, make another base when one is asked for, and keep what was found.

    Raises:
        UserError: no texts, no such base, or the base to make exists already.
    """
    # Imported late: torch takes seconds to load, and a wrong flag should be answered at once.
    from utils.bases.fetch import fetch_base
    from utils.bases.find import find_base
    from utils.training.data.vocabulary_plan import advice, read_texts, texts_of

    project = open_project(config.project, config.output)
    with progress_phases() as phases:
        fetch_base(config.base, progress=phases)
    base = find_base(config.base)
    source = config.corpus or project.train_csv
    texts = texts_of(source, is_manifest=config.corpus is None)
    limit = base.defaults.max_text_length
    before = read_texts(texts, config.language, base.tokenizer(), limit=limit)
    print(f"{source}: {before.num_texts} texts, base {base.name}")
    _print_reading("before", before, limit)
    found: dict[str, Any] = {"language": config.language, "base": base.name, "source": str(source)}
    found |= {"before": _values(before, limit), "after": None, "made": None}
    if not config.makes_base:
        found["advice"] = advice(before, config.language, base)
        _keep(project, found)
        print(f"advice: {found['advice']}")
        return
    added = _make(config, project, base, source)
    made, limit = added.base, added.base.defaults.max_text_length
    after = read_texts(texts, config.language, made.tokenizer(), limit=limit)
    found |= {"after": _values(after, limit), "made": str(made.folder), "left_out": dict(added.extension.reasons)}
    _keep(project, found | {"added": len(added.extension.added)})
    _print_reading("after", after, limit)
    print(f"base    {made.folder}")
    print(f"limits  {limit} tokens, {made.defaults.max_audio_length / SAMPLE_RATE:.1f} s")
    print(f"next    {_next(config, project, made.folder)}")


def _next(config: LanguageConfig, project: Project, base: Path) -> str:
    """The command that uses the new base: clips are checked with it before it is trained."""
    if not project.train_csv.is_file():
        return command("prepare", project=project, language=config.language, base=base, input=FOLDER)
    return command("train", project=project, base=base, use_amharic_g2p=True if config.g2p else None)


def _values(reading: "Reading", limit: int) -> dict[str, Any]:
    """A reading as plain values: what the page shows."""
    counts = {name: getattr(reading, name) for name in ("num_texts", "num_tokens", "over_limit", "samples")}
    rates = {name: getattr(reading, name) for name in ("tokens_per_word", "tokens_per_second")}
    lists = {name: getattr(reading, name).most_common(SHOWN) for name in ("unknown", "notes")}
    return {**counts, **rates, **lists, "num_unknown": len(reading.unknown), "limit": limit}


@disk_errors()
def _keep(project: Project, found: dict[str, Any]) -> None:
    """Write what was found to the project's folder, whole or not at all."""
    project.folder.mkdir(parents=True, exist_ok=True)
    write_atomic(project.folder / READING_FILE, json.dumps(found, ensure_ascii=False, indent=1))


def _make(config: LanguageConfig, project: Project, base: "Base", source: Path) -> "AddedLanguage":
    """The new base, written."""
    from utils.bases.extend import add_language, free_home
    from utils.bases.grow import TUNED_DVAE
    from utils.training.data.vocabulary_plan import long_limits

    # Before hours of work: what would stop it in the end.
    free_home(project.folder, config.g2p or config.language, own_dvae=config.train_dvae, another=config.another)
    limits = long_limits(base, max_text_length=config.max_text_length, max_audio_length=config.max_audio_length)
    with _dvae(config, project, base) as tuned:
        facts = {TUNED_DVAE: tuned.facts} if tuned else {}
        made = add_language(
            base,
            config.g2p or config.language,
            project.folder,
            corpus=source,
            target=config.extend or 0,
            amharic_g2p=config.g2p is not None,
            input_sentence_size=config.input_sentence_size,
            coverage=config.character_coverage,
            about={"training": {**base.about.get("training", {}), **limits}, **facts},
            dvae=tuned.file if tuned else None,
            another=config.another,
        )
    _print_added(config, made)
    return made


@contextmanager
def _dvae(config: LanguageConfig, project: Project, base: "Base") -> "Iterator[TunedDvae | None]":
    """A DVAE trained on, for as long as the block lasts; None when it was not asked for."""
    if not config.train_dvae:
        yield None
        return
    from utils import jobs
    from utils.codec_training.tune_dvae import tuned_dvae
    from utils.training.optimizer.precision import make_accelerator

    with (
        jobs.hold("language", device=config.device, output=project.output, folder=project.folder),
        progress_phases() as report,
        tuned_dvae(
            base,
            project,
            steps=config.dvae_steps,
            learning_rate=config.dvae_learning_rate,
            device=make_accelerator(config.device).device,
            told=report,
        ) as tuned,
    ):
        _print_dvae(tuned)
        yield tuned


def _print_dvae(tuned: "TunedDvae") -> None:
    before, after = tuned.before, tuned.after
    print(f"\ndvae    {tuned.steps} steps at {tuned.learning_rate:g}; on the evaluation clips")
    print(f"  error             {before.error:.4f} before, {after.error:.4f} after")
    print(f"  explained         {before.explained_variance:.1%} before, {after.explained_variance:.1%} after")
    print(f"  codes used        {before.codes_used} before, {after.codes_used} after")
    print(f"  codes unchanged   {tuned.same_codes:.1%}")


def _print_added(config: LanguageConfig, made: "AddedLanguage") -> None:
    extension = made.extension
    print(f"\nadded   {len(extension.added)} tokens and the language's own, as ids {made.ids}")
    if extension.num_found:
        print(f"        {extension.num_found} of them pairs that words repeat, no pieces of SentencePiece")
    if config.extend and len(extension.added) < config.extend:
        print(f"        the corpus gives no more than that; {config.extend} were asked for")
    for reason, count in extension.reasons.most_common():
        print(f"        {count} pieces left out: {reason}")


def _print_reading(title: str, reading: "Reading", limit: int) -> None:
    rate = reading.tokens_per_second
    print(f"\n{title}")
    print(f"  tokens a word     {reading.tokens_per_word:.2f}")
    print(f"  tokens a second   {'no sound given' if rate is None else format(rate, '.1f')}")
    share = reading.over_limit / max(reading.num_texts, 1)
    print(f"  over {limit} tokens   {reading.over_limit} of {reading.num_texts} texts ({share:.1%})")
    unknown = ", ".join(f"{char} {count}" for char, count in reading.unknown.most_common(SHOWN))
    more = f", and {len(reading.unknown) - SHOWN} more" if len(reading.unknown) > SHOWN else ""
    print(f"  unknown letters   {unknown + more or 'none'}")
    for tokens in reading.samples:
        print(f"  sample            {' '.join(tokens)}")
    for note, count in reading.notes.most_common(SHOWN):
        print(f"  read literally    {note} ({count} times)")


if __name__ == "__main__":
    main()
