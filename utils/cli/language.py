"""Look at a language and add it to a base: python -m utils.cli.language --project NAME --language xx --extend 2000."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from utils.cli.common import run_command
from utils.config import Config
from utils.paths import Project, open_project

if TYPE_CHECKING:
    from utils.model.base import Base
    from utils.training.language_plan import Reading

SHOWN = 40
"""Characters and notes that are listed."""


@dataclass(frozen=True, kw_only=True)
class LanguageConfig(Config):
    """See how a base reads a language, and make a base that reads it well."""

    project: str
    """Name of the voice; its folder below `output`. The new base goes to its base-<language> folder."""
    language: str
    """Code of the language: amh, ka, sw, ..."""
    output: Path = Path("output")
    """The folder that holds all projects."""
    base: str = "tiny"
    """Base to look at and to start from: a base name or a folder, fine-tuned or extended before."""
    corpus: Path | None = None
    """Text in the language: .csv, .json, .jsonl, or plain text; the project's training clips when not given."""
    extend: int | None = None
    """Make a base with at most this many more tokens; 0 adds the language's token only."""
    g2p: Literal["amh"] | None = None
    """Make a base that reads Amharic in the Latin form of its sounds instead."""
    input_sentence_size: int = 10_000_000
    """Sentences that SentencePiece samples from the corpus; 0 takes all."""
    character_coverage: float = 0.9995
    """Share of the corpus's letters that get a token."""

    def problems(self) -> list[str]:
        found = []
        if self.extend is not None and not 0 <= self.extend <= 100_000:
            found.append(f"extend is {self.extend}; use 0 to 100000, such as 2000")
        if self.extend is not None and self.g2p is not None:
            found.append("extend and g2p are two ways to the same end; give one of them")
        if self.input_sentence_size < 0:
            found.append(f"input_sentence_size is {self.input_sentence_size}; use 0 (all) or more")
        if not 0.9 <= self.character_coverage <= 1:
            found.append(f"character_coverage is {self.character_coverage}; use 0.9 to 1")
        return found


def main(args: Sequence[str] | None = None) -> None:
    """The command; see `utils.cli.common.run_command` for its exit statuses."""
    run_command(LanguageConfig, _language, "See how a base reads a language, and make one that reads it well.", args)


def _language(config: LanguageConfig) -> None:
    # Imported late: torch takes seconds to load, and a wrong flag should be answered at once.
    from utils.model.base import find_base
    from utils.training.language_plan import advice, read_texts, texts_of

    project, base = open_project(config.project, config.output), find_base(config.base)
    source = config.corpus or project.train_csv
    texts = texts_of(source, is_manifest=config.corpus is None)
    limit = base.defaults.max_text_length
    before = read_texts(texts, config.language, base.tokenizer(), limit=limit)
    print(f"{source}: {before.num_texts} texts, base {base.name}")
    _print_reading("before", before, limit)
    made = _make(config, project, base, source)
    if made is None:
        print(f"advice: {advice(before, config.language, base)}")
        return
    _print_reading("after", read_texts(texts, config.language, made.tokenizer(), limit=limit), limit)
    flag = " --use-amharic-g2p" if config.g2p else ""
    print(f"base    {made.folder}")
    print(f"next    python -m utils.cli.train --project {config.project} --base {made.folder}{flag}")


def _make(config: LanguageConfig, project: Project, base: "Base", source: Path) -> "Base | None":
    """The new base, or None when none was asked for."""
    from utils.model.extend import add_language

    if config.extend is None and config.g2p is None:
        return None
    made = add_language(
        base,
        config.g2p or config.language,
        project.folder,
        corpus=source,
        target=config.extend or 0,
        amharic_g2p=config.g2p is not None,
        input_sentence_size=config.input_sentence_size,
        coverage=config.character_coverage,
    )
    print(f"added   {len(made.extension.added)} tokens and the language's own, as ids {made.ids}")
    if config.extend and len(made.extension.added) < config.extend:
        print(f"        the corpus gives no more than that; {config.extend} were asked for")
    if made.extension.shared:
        print(f"        {made.extension.shared} left out: of letters the base reads, which would change old languages")
    if made.extension.unproduced:
        print(f"        {made.extension.unproduced} left out: no text of the corpus would have produced them")
    return made.base


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
