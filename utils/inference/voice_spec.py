"""Find the voice that a name, a recording, several of them, or a mixture by weight stands for."""

from collections.abc import Sequence
from pathlib import Path

from utils.errors import UserError
from utils.inference.engine import Synthesizer
from utils.model.voices import Voice, mixed
from utils.speech.voice_library import DEFAULT_VOICE, VoiceLibrary, voice_parts

VoiceSpec = str | Path | Sequence[str | Path] | None


def find_voice(synthesizer: Synthesizer, spec: VoiceSpec, *, library: VoiceLibrary | None = None) -> Voice:
    """The voice that is meant.

    Args:
        synthesizer: whose voice.
        spec: None or "default": the model's own; a voice's name; a recording; several, which count alike; or
            "anna:0.7,ben:0.3", names or recordings with their weights.
        library: whose voices have names, too; they go before those that came with the model.

    Raises:
        UserError: there is no such voice, a recording is not usable, or the weights are not above 0.
    """
    if spec is None:
        return synthesizer.default_voice()
    if isinstance(spec, str) and library is not None:
        named = voice_parts(spec)
        voices = [(library.find(name), name, weight) for name, weight in named]
        return mixed([(_one(synthesizer, found.path if found else name), weight) for found, name, weight in voices])
    if not isinstance(spec, str | Path):
        if not spec:
            raise UserError(what="the list of recordings is empty", fix="give one at least")
        return mixed([(_one(synthesizer, one), 1.0) for one in spec])
    if isinstance(spec, Path) or spec in synthesizer.speakers() or _is_file(spec):
        return _one(synthesizer, spec)
    parts = [part.strip() for part in spec.split(",") if part.strip()]
    weighted = [_weighted(part) for part in parts]
    if len(weighted) == 1 and weighted[0][1] is None:
        return _one(synthesizer, spec)
    return mixed([(_one(synthesizer, name), 1.0 if weight is None else weight) for name, weight in weighted])


def _weighted(part: str) -> tuple[str, float | None]:
    # C:\voice.wav has a colon, too, and no number after it.
    name, _, weight = part.rpartition(":")
    try:
        return (name.strip(), float(weight)) if name else (part, None)
    except ValueError:
        return part, None


def _is_file(name: str | Path) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # longer than a name may be, or with a zero byte
        return False


def _one(synthesizer: Synthesizer, name: str | Path) -> Voice:
    speakers = {} if isinstance(name, Path) else synthesizer.speakers()
    if isinstance(name, str) and name in speakers:
        return speakers[name]
    if name == DEFAULT_VOICE:
        return synthesizer.default_voice()
    if _is_file(name):
        return synthesizer.voice(Path(name))
    known = ", ".join(sorted(speakers)) or "none"
    raise UserError(
        what=f"there is no voice or recording {str(name)!r}",
        where=str(synthesizer.base.folder),
        fix=f"give the path of a recording, or a voice of this model: {known}",
    )
