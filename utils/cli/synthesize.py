"""Speak a text: python -m utils.cli.synthesize --project NAME --text "..." --out hello.wav."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from utils.cli.common import progress_report, run_command
from utils.config import OUTPUT_RATE, SynthesizeConfig
from utils.errors import UserError
from utils.project.paths import open_project
from utils.speech.voice_library import VoiceLibrary

if TYPE_CHECKING:
    from utils.bases.base import Base


def main(args: Sequence[str] | None = None) -> None:
    """The command; see `utils.cli.common.run_command` for its exit statuses."""
    run_command(SynthesizeConfig, _synthesize, "Generate speech from a text with an exported model or a base.", args)


def _synthesize(config: SynthesizeConfig) -> None:
    with progress_report("speaking") as report:
        seconds, took = synthesize(config)
        report(1, 1)
    print(f"{config.out}: {seconds:.2f} s of speech in {took:.2f} s")


def synthesize(config: SynthesizeConfig) -> tuple[float, float]:
    """Write the wav; its seconds, and the seconds it took to speak (without loading).

    Raises:
        UserError: no such model, voice or language, characters it cannot read, or an unwritable file.
    """
    # Imported late: torch takes seconds to load, and a wrong flag should be answered at once.
    from utils.audio.write import write_wav
    from utils.inference.device import speech_device
    from utils.inference.engine import Synthesizer
    from utils.inference.sampling import Sampling
    from utils.inference.voice_spec import find_voice
    from utils.inference.word_check import WordCheck

    if not config.out.absolute().parent.is_dir():
        raise UserError(what="the folder of --out does not exist", where=str(config.out), fix="make it first")
    if config.out.is_dir():
        raise UserError(what="--out is a folder", where=str(config.out), fix="name a wav file")
    base = _model(config)
    language = config.language or base.about.get("language")
    if not language:
        raise UserError(what="this model does not say which language it speaks", fix="give one: --language en")
    device = speech_device(config.device, config.output)
    check = WordCheck(config.transcriber, device=device) if config.transcriber else None
    synthesizer = Synthesizer(base, device=device, precision=config.precision, word_check=check)
    if config.reference:
        voice = synthesizer.voice(config.reference)
    else:
        voice = find_voice(synthesizer, config.voice.strip() or None, library=VoiceLibrary(config.output))
    started = time.perf_counter()
    wav = synthesizer.speak(
        config.text,
        language=language,
        voice=voice,
        sampling=Sampling(
            temperature=config.temperature,
            top_k=config.top_k,
            top_p=config.top_p,
            repetition_penalty=config.repetition_penalty,
        ),
        speed=config.speed,
        seed=config.seed,
        split=config.split,
    )
    write_wav(config.out, wav, OUTPUT_RATE)
    return wav.shape[1] / OUTPUT_RATE, time.perf_counter() - started


def _model(config: SynthesizeConfig) -> "Base":
    """The model that speaks: the one named, or the project's exported one."""
    from utils.bases.base import Base
    from utils.bases.find import find_base
    from utils.runs.layout import READY, ModelRef

    if config.model is not None:
        return find_base(config.model, accept_license=False)
    assert config.project is not None, "checked by SynthesizeConfig.problems"
    return Base(ModelRef.parse(READY).resolve(open_project(config.project, config.output)))


if __name__ == "__main__":
    main()
