"""Look at a language and add it to a base: python -m utils.cli.language --project NAME --language xx --extend 2000."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from utils.cli.common import progress_phases, run_command
from utils.config import MIN_CLIP_SECONDS, SAMPLE_RATE, Config, Device
from utils.paths import Project, open_project

if TYPE_CHECKING:
    from utils.model.base import Base
    from utils.model.extend import AddedLanguage
    from utils.training.language_plan import Reading
    from utils.training.tune_dvae import TunedDvae

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
    max_text_length: int | None = None
    """Longest transcript that the new base takes by default, in tokens; 400 when not given (XTTS v2 has 402)."""
    max_audio_length: int | None = None
    """Longest clip that the new base takes by default, in samples; 330 750 (15 s) when not given."""
    train_dvae: bool = False
    """Train the new base's DVAE on with the project's prepared clips, for sounds that the published one never heard."""
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
        found = []
        if self.dvae_steps < 1:
            found.append(f"dvae_steps is {self.dvae_steps}; use 1 or more, such as 1000")
        if self.dvae_learning_rate is not None and not 0 < self.dvae_learning_rate < 1:
            found.append(f"dvae_learning_rate is {self.dvae_learning_rate}; use a value between 1e-7 and 1e-2")
        shortest = int(MIN_CLIP_SECONDS * SAMPLE_RATE)
        if self.max_audio_length is not None and self.max_audio_length < shortest:
            found.append(f"max_audio_length is {self.max_audio_length} samples; use {shortest} (0.5 s) or more")
        if self.max_text_length is not None and self.max_text_length < 1:
            found.append(f"max_text_length is {self.max_text_length} tokens; use 1 or more")
        if (self.max_text_length or self.max_audio_length) and not self.makes_base:
            found.append(
                "max_text_length and max_audio_length are limits of a new base; give extend, g2p or train_dvae"
            )
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
    if not config.makes_base:
        print(f"advice: {advice(before, config.language, base)}")
        return
    made = _make(config, project, base, source)
    limit = made.defaults.max_text_length
    _print_reading("after", read_texts(texts, config.language, made.tokenizer(), limit=limit), limit)
    print(f"base    {made.folder}")
    print(f"limits  {limit} tokens, {made.defaults.max_audio_length / SAMPLE_RATE:.1f} s")
    flag = " --use-amharic-g2p" if config.g2p else ""
    place = f"--project {config.project} --output {config.output}"
    print(f"next    python -m utils.cli.train {place} --base {made.folder}{flag}")


def _make(config: LanguageConfig, project: Project, base: "Base", source: Path) -> "Base":
    """The new base, written."""
    from utils.model.extend import add_language, free_home
    from utils.model.grow import TUNED_DVAE
    from utils.training.language_plan import long_limits

    # Before hours of work: what would stop it in the end.
    free_home(project.folder, config.g2p or config.language, own_dvae=config.train_dvae)
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
        )
    _print_added(config, made)
    return made.base


@contextmanager
def _dvae(config: LanguageConfig, project: Project, base: "Base") -> "Iterator[TunedDvae | None]":
    """A DVAE trained on, for as long as the block lasts; None when it was not asked for."""
    if not config.train_dvae:
        yield None
        return
    from utils.training.precision import make_accelerator
    from utils.training.tune_dvae import tuned_dvae

    with (
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
    print(f"\nadded   {len(made.extension.added)} tokens and the language's own, as ids {made.ids}")
    if config.extend and len(made.extension.added) < config.extend:
        print(f"        the corpus gives no more than that; {config.extend} were asked for")
    if made.extension.shared:
        print(f"        {made.extension.shared} left out: of letters the base reads, which would change old languages")
    if made.extension.unproduced:
        print(f"        {made.extension.unproduced} left out: no text of the corpus would have produced them")


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
