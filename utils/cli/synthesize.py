"""Speak a text: python -m utils.cli.synthesize --project NAME --text "..." --out hello.wav."""

import secrets
import time
from dataclasses import fields, replace
from functools import partial

from utils.cli.common import progress_phases, run_command
from utils.config import SynthesizeConfig
from utils.errors import UserError
from utils.options import SpeechSettings
from utils.runs.layout import READY


def _synthesize(config: SynthesizeConfig) -> None:
    if config.seed is None:
        config = replace(config, seed=secrets.randbelow(2**31))
    with progress_phases() as report:
        report("speaking", 0, None)
        seconds, took = synthesize(config)
        report("speaking", 1, 1)
    print(f"{config.out}: {seconds:.2f} s of speech in {took:.2f} s, seed {config.seed}")


def synthesize(config: SynthesizeConfig) -> tuple[float, float]:
    """Write the wav; its seconds, and the seconds it took to speak (without loading).

    Raises:
        UserError: no such model, voice or language, characters it cannot read, or an unwritable file.
    """
    if not config.out.absolute().parent.is_dir():
        raise UserError(what="the folder of --out does not exist", where=str(config.out), fix="make it first")
    if config.out.is_dir():
        raise UserError(what="--out is a folder", where=str(config.out), fix="name a wav file")
    # Imported late: torch takes seconds to load, and a wrong flag should be answered at once.
    from utils.inference.speaker import Speaker
    from utils.inference.voice_file import base_named_by

    names = ("project", "output", "device", "precision", "transcriber", "adapter")
    base = base_named_by(config.adapter) if config.adapter and not config.model else READY
    speaker = Speaker(config.model or base, **{name: getattr(config, name) for name in names})
    voice = speaker.voice(config.reference or config.voice.strip() or None)
    started = time.perf_counter()
    settings = {one.name: getattr(config, one.name) for one in fields(SpeechSettings)}
    speech = speaker.speak(config.text, voice=voice, **settings)
    speech.save(config.out)
    return speech.seconds, time.perf_counter() - started


main = partial(
    run_command, SynthesizeConfig, _synthesize, "Generate speech from a text with an exported model or a base."
)
"""The command; see `utils.cli.common.run_command` for its exit statuses."""


if __name__ == "__main__":
    main()
