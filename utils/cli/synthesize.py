"""Speak a text: python -m utils.cli.synthesize --project NAME --text "..." --out hello.wav."""

import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from utils.cli.common import progress_phases, run_command
from utils.config import SynthesizeConfig
from utils.errors import UserError
from utils.options import OUTPUT_RATE
from utils.project.paths import open_project
from utils.runs.layout import READY
from utils.speech.models import named_model
from utils.speech.voice_library import VoiceLibrary


def main(args: Sequence[str] | None = None) -> None:
    """The command; see `utils.cli.common.run_command` for its exit statuses."""
    run_command(SynthesizeConfig, _synthesize, "Generate speech from a text with an exported model or a base.", args)


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
    # Imported late: torch takes seconds to load, and a wrong flag should be answered at once.
    from utils.audio.write import write_wav
    from utils.inference.device import speech_device
    from utils.inference.model_cache import ModelCache
    from utils.inference.sampling import Sampling
    from utils.inference.voice_spec import find_voice, named_voice
    from utils.inference.word_check import WordCheck

    if not config.out.absolute().parent.is_dir():
        raise UserError(what="the folder of --out does not exist", where=str(config.out), fix="make it first")
    if config.out.is_dir():
        raise UserError(what="--out is a folder", where=str(config.out), fix="name a wav file")
    device = speech_device(config.device, config.output)
    project = open_project(config.project, config.output) if config.project else None
    model = ModelCache(device, precision=config.precision).load(**named_model(config.model or READY, project))
    language = config.language or model.language
    if not language:
        raise UserError(what="this model does not say which language it speaks", fix="give one: --language en")
    synthesizer = model.synthesizer
    if config.transcriber:
        # Left at auto on a GPU: a recognizer that lacks a library there has a way back to the CPU.
        beside = config.device if device == "cuda" else device
        synthesizer.word_check = WordCheck(config.transcriber, device=beside).error
    recordings = {voice.name: voice.path for voice in VoiceLibrary(config.output).all()}
    voice = find_voice(synthesizer, config.reference or config.voice.strip() or None, recordings=recordings)
    started = time.perf_counter()
    wav = synthesizer.speak(
        config.text,
        language=language,
        voice=voice,
        sampling=Sampling.of(config),
        speed=config.speed,
        seed=config.seed,
        split=config.split,
        named=partial(named_voice, synthesizer, config.output),
    )
    write_wav(config.out, wav, OUTPUT_RATE)
    return wav.shape[1] / OUTPUT_RATE, time.perf_counter() - started


if __name__ == "__main__":
    main()
