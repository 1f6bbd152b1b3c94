"""Look at a language and add it to a base: python -m utils.cli.language --project NAME --language xx --extend 2000."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from utils.cli.common import progress_phases, run_command
from utils.options import DATASET_RATE
from utils.project.advice import FOLDER, command
from utils.project.paths import Project
from utils.text.language_settings import LanguageConfig

if TYPE_CHECKING:
    from utils.language.reading import Coverage

SHOWN = 40
"""Characters and notes that are listed."""


def look(config: LanguageConfig) -> None:
    """See how the base reads the language, make another base when one is asked for, and print what was found.

    Raises:
        UserError: no texts, no such base, or the base to make exists already.
    """
    # Imported late: torch takes seconds to load, and a wrong flag should be answered at once.
    from utils.language.make import keep_advice, look_at_language, make_base

    with progress_phases() as report:
        found = look_at_language(config, progress=report)
    print(f"{found.source}: {found.before.num_texts} texts, base {found.base.name}")
    _print_reading("before", found.before, found.limit)
    if not config.makes_base:
        print(f"advice: {keep_advice(found)}")
        return
    with progress_phases() as report:
        added, tuned, after = make_base(found, progress=report)
    if tuned:
        before, after_training = tuned.before, tuned.after
        print(f"\ndvae    {tuned.steps} steps at {tuned.learning_rate:g}; on the evaluation clips")
        print(f"  error             {before.error:.4f} before, {after_training.error:.4f} after")
        print(
            f"  explained         {before.explained_variance:.1%} before, {after_training.explained_variance:.1%} after"
        )
        print(f"  codes used        {before.codes_used} before, {after_training.codes_used} after")
        print(f"  codes unchanged   {tuned.same_codes:.1%}")
    extension = added.extension
    print(f"\nadded   {len(extension.added)} tokens and the language's own, as ids {added.ids}")
    if extension.num_found:
        print(f"        {extension.num_found} of them pairs that words repeat, no pieces of SentencePiece")
    if config.extend and len(extension.added) < config.extend:
        print(f"        the corpus gives no more than that; {config.extend} were asked for")
    for reason, count in extension.reasons.most_common():
        print(f"        {count} pieces dropped: {reason}")
    base, limit = added.base, added.base.defaults.max_text_length
    _print_reading("after", after, limit)
    print(f"base    {base.folder}")
    print(f"limits  {limit} tokens, {base.defaults.max_audio_length / DATASET_RATE:.1f} s")
    print(f"next    {_next(config, found.project, base.folder)}")


def _next(config: LanguageConfig, project: Project, base: Path) -> str:
    """The command that uses the new base: clips are checked with it before it is trained."""
    if not project.train_csv.is_file():
        return command("prepare", project=project, language=config.language, base=base, input=FOLDER)
    return command("train", project=project, base=base, use_amharic_g2p=True if config.g2p else None)


def _print_reading(title: str, reading: "Coverage", limit: int) -> None:
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


main = partial(run_command, LanguageConfig, look, "See how a base reads a language, and make one that reads it well.")
"""The command; see `utils.cli.common.run_command` for its exit statuses."""


if __name__ == "__main__":
    main()
