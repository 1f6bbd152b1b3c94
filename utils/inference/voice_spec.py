"""Find the voice that a name, a recording, several of them, or a mixture by weight stands for."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from utils.errors import UserError
from utils.inference.engine import Synthesizer
from utils.model.voices import Voice, mixed
from utils.speech.generation import UnknownVoiceError
from utils.speech.voice_library import DEFAULT_VOICE, VoiceLibrary, voice_parts

VoiceSpec = str | Path | Sequence[str | Path] | None


def find_voice(
    synthesizer: Synthesizer,
    spec: VoiceSpec,
    *,
    recordings: Mapping[str, Path] = MappingProxyType({}),
    has_files: bool = True,
) -> Voice:
    """The voice that is meant.

    Args:
        synthesizer: whose voice.
        spec: None or "default": the model's own; a voice's name; a recording; several, which count alike; or
            "anna:0.7,ben:0.3", names or recordings with their weights.
        recordings: further voices by name; they go before those that came with the model.
        has_files: whether what is no name may be the path of a recording.

    Raises:
        UnknownVoiceError: there is none of that name.
        UserError: a recording is not usable, the weights are not above 0, or there are too many.
    """

    def one(name: str) -> Voice:
        if name in recordings:
            return synthesizer.voice(recordings[name])
        if name in synthesizer.speakers():
            return synthesizer.speakers()[name]
        if name == DEFAULT_VOICE:
            return synthesizer.default_voice()
        if has_files and _is_file(name):
            return synthesizer.voice(Path(name))
        known = ", ".join([DEFAULT_VOICE, *recordings, *sorted(synthesizer.speakers())][:8])
        raise UnknownVoiceError(
            what=f"there is no voice {'or recording ' * has_files}{name!r}",
            where=str(synthesizer.base.folder),
            fix=f"use {'the path of a recording, or ' * has_files}one of: {known}",
        )

    if spec is None or isinstance(spec, Path):
        return synthesizer.voice(spec) if spec else synthesizer.default_voice()
    if isinstance(spec, str):
        is_one = spec in synthesizer.speakers() or (has_files and _is_file(spec))
        return mixed([(one(name), weight) for name, weight in ([(spec, 1.0)] if is_one else voice_parts(spec))])
    if not spec:
        raise UserError(what="the list of recordings is empty", fix="give one at least")
    return mixed([(synthesizer.voice(part) if isinstance(part, Path) else one(part), 1.0) for part in spec])


def named_voice(synthesizer: Synthesizer, output: Path, name: str) -> Voice:
    """A voice that a mark in a text names: one of the library in an output folder, or of the model."""
    return find_voice(synthesizer, name, recordings=VoiceLibrary(output).recordings(), has_files=False)


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # longer than a name may be, or with a zero byte
        return False
