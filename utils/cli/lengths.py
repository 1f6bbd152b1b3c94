"""Plan a dataset's limits: python -m utils.cli.lengths --csv metadata.csv."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from utils.cli.common import progress_phases, run_command
from utils.options import DATASET_RATE, STARTER
from utils.project.paths import open_project
from utils.settings import Config

SHOWN_DROPS = 5
MOST = "the most this base takes"


@dataclass(frozen=True, kw_only=True)
class LengthsConfig(Config):
    """Measure how long clips and texts are."""

    csv: Path | None = None
    """Table of clips: audio_file|text|speaker_name, or any that preparing reads."""
    project: str | None = None
    """Project whose training clips are measured, instead of a table."""
    output: Path = Path("output")
    """The folder that holds all projects."""
    base: str = STARTER
    """Base model whose tokenizer and limits count: a base name or a folder."""
    language: str | None = None
    """Language code of the transcripts; that of lang.txt beside the table when not given, or else en."""
    use_amharic_g2p: bool = False
    """Read Amharic in its Latin form, as training with this flag does."""

    def problems(self) -> list[str]:
        return ["give either a csv or a project"] if (self.csv is None) == (self.project is None) else []

    @property
    def table(self) -> Path:
        """The table to read."""
        if self.csv is not None:
            return self.csv
        assert self.project is not None
        return open_project(self.project, self.output).train_csv


def _lengths(config: LengthsConfig) -> None:
    # Imported late: torch takes seconds to load, and a wrong flag should be answered at once.
    from utils.bases.download import fetched_base
    from utils.language.lengths import (
        AUDIO_MULTIPLE,
        LIMIT_PERCENTILE,
        PERCENTILES,
        TEXT_MULTIPLE,
        measure_lengths,
        percentile,
    )

    base = fetched_base(config.base)
    language, source = _language(config)
    with progress_phases() as report:
        lengths = measure_lengths(config.table, base, language, use_amharic_g2p=config.use_amharic_g2p, progress=report)
    hours = lengths.seconds.sum() / 3600
    print(
        f"{config.table}: {len(lengths.samples)} clips, {hours:.2f} h; base {base.name}, language {language} ({source})"
    )
    print("\npercentile     " + "".join(f"{percent:>10g}" for percent in PERCENTILES))
    for name, values, form in (
        ("seconds", lengths.seconds, ">10.2f"),
        ("samples", lengths.samples, ">10.0f"),
        ("audio codes", lengths.num_codes, ">10.0f"),
        ("text tokens", lengths.tokens, ">10.0f"),
    ):
        print(f"{name:15}" + "".join(format(percentile(values, percent), form) for percent in PERCENTILES))
    audio, text, why_audio, why_text = lengths.max_audio_length, lengths.max_text_length, MOST, MOST
    if audio != lengths.max_samples:
        why_audio = f"a multiple of {AUDIO_MULTIPLE} samples, the hop of the mel spectrograms"
    if text != lengths.max_tokens:
        why_text = f"a multiple of {TEXT_MULTIPLE}, as tensor cores want half-precision matrices"
    print(f"\nrecommended: the {LIMIT_PERCENTILE:g}th percentile, rounded up")
    print(f"  --max-audio-length {audio:<7}  {audio / DATASET_RATE:.2f} s; {why_audio}")
    print(f"  --max-text-length {text:<8}  tokens; {why_text}")
    beyond = lengths.num_beyond(audio, text)
    print(f"{beyond} of {len(lengths.samples)} clips {'is' if beyond == 1 else 'are'} longer and would be excluded")
    for drop in lengths.dropped[:SHOWN_DROPS]:
        print(f"not counted: {drop['clip']}: {drop['reason']}")
    if len(lengths.dropped) > SHOWN_DROPS:
        print(f"not counted: {len(lengths.dropped) - SHOWN_DROPS} more")


def _language(config: LengthsConfig) -> tuple[str, str]:
    """The language and where it is known from."""
    if config.language:
        return config.language, "as given"
    beside = config.table.with_name("lang.txt")
    if beside.is_file():
        return beside.read_text(encoding="utf-8").strip(), "from lang.txt"
    return "en", "assumed; give --language if it is another"


main = partial(run_command, LengthsConfig, _lengths, "Show how long clips and texts are, and the limits to train with.")
"""The command; see `utils.cli.common.run_command` for its exit statuses."""


if __name__ == "__main__":
    main()
