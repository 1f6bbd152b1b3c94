"""All stages of the base in order: `python -m recipes.base.run --work FOLDER --voices kokoro-js-1.2.1.tgz`.

Each stage resumes, and a stage whose gate is not passed ends the run: what comes after it could not be better.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recipes.base import codec, corpus, decoder, gpt, package, speaker_encoder, vocoder
from recipes.base.corpus import CorpusConfig
from recipes.base.package import PackageConfig
from recipes.base.speaker_encoder import SpeakerConfig
from recipes.base.stage import StageConfig, main_of
from recipes.base.teacher import VOICES_PACKAGE
from utils.errors import UserError

GATES = {
    "vocoder": {"wer": 0.05},
    "codec": {"wer": 0.08, "phoneme_errors": 0.10},
    "decoder": {"wer": 0.10},
    "package": {"wer": 0.14},
}
"""Most errors of each stage on the choosing set."""


@dataclass(frozen=True, kw_only=True)
class RunConfig(StageConfig):
    """Make the base from packages."""

    voices: Path = Path(VOICES_PACKAGE)
    """The npm package with the teacher's voices."""
    despite_gates: bool = False
    """Continue after a gate that was not passed."""


def train(config: RunConfig) -> None:
    """Run every stage that is not done.

    Raises:
        UserError: a gate is not passed.
    """
    stages: dict[str, Callable[[], object]] = {
        "corpus": lambda: corpus.run(CorpusConfig(work=config.work, voices=config.voices)),
        "vocoder": lambda: vocoder.train(config),
        "codec": lambda: codec.train(config),
        "gpt": lambda: gpt.train(config),
        "speaker": lambda: speaker_encoder.train(SpeakerConfig(work=config.work)),
        "decoder": lambda: decoder.train(config),
        "package": lambda: package.run(PackageConfig(work=config.work, voices=config.voices)),
    }
    for name, stage in stages.items():
        if not (config.work / name / f"{name}.safetensors").is_file():
            stage()
        if name in GATES and not config.despite_gates:
            check_gate(name, config.work)


def check_gate(name: str, work: Path) -> None:
    """Compare a stage's gate.json with its limits.

    Raises:
        UserError: too many errors.
    """
    path = work / name / "gate.json"
    gate = json.loads(path.read_text(encoding="utf-8"))
    found = gate["made"] | {key: value for key, value in gate.items() if key == "phoneme_errors"}
    failed = [f"{key} {found[key]:.1%}, at most {most:.0%}" for key, most in GATES[name].items() if found[key] > most]
    if failed:
        raise UserError(
            what=f"the stage {name} does not pass its gate: {'; '.join(failed)}",
            where=str(path),
            fix="train it longer, or continue with --despite-gates",
        )


if __name__ == "__main__":
    main_of(RunConfig, {"train": train})
