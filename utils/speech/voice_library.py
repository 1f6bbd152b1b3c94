"""Voices by name, for all projects, the page, the command line and the speech server; without torch.

output/.voices/ holds NAME.wav, one recording, or NAME.voice, several with their weights: a zip of wavs and voice.json,
{"parts": [{"file", "weight"}, ...]}. Either is whole by itself, so that takes copy it like any reference recording.
"""

import io
import json
import math
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from utils.errors import UserError, disk_errors
from utils.files import replacing
from utils.project.paths import check_name

DEFAULT_VOICE = "default"
"""The model's own voice."""
VOICES_FOLDER = ".voices"
"""In the output folder; no project can have this name."""
VOICE_SUFFIX = ".voice"
MAX_VOICES = 1_000
MOST_VOICES = 8
"""In one mixture, or recordings of one voice."""
MOST_PARTS = 32
"""Recordings that a mixture of mixtures may come to."""
VOICE_S = 60
"""So much of a recording is kept: models hear 30 s at most."""
_INDEX, _MOST_BYTES = "voice.json", 64 * 2**20
_DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile, NotImplementedError)


@dataclass(frozen=True)
class NamedVoice:
    """A voice of the library."""

    name: str
    path: Path


class VoiceLibrary:
    """The voices of an output folder.

    Args:
        output: the folder that holds all projects.
    """

    def __init__(self, output: Path) -> None:
        self.folder = output / VOICES_FOLDER

    def all(self) -> list[NamedVoice]:
        """By name."""
        files = self.folder.glob("*") if self.folder.is_dir() else ()
        found = {path.stem: NamedVoice(path.stem, path) for path in files if path.suffix in (".wav", VOICE_SUFFIX)}
        return [found[name] for name in sorted(found)]

    def recordings(self) -> dict[str, Path]:
        """The file of each voice, by its name."""
        return {voice.name: voice.path for voice in self.all()}

    def find(self, name: str) -> NamedVoice | None:
        """The voice of a name."""
        try:
            name = check_name(name, kind="voice")
        except UserError:
            return None
        paths = (self.folder / f"{name}{suffix}" for suffix in (VOICE_SUFFIX, ".wav"))
        return next((NamedVoice(name, path) for path in paths if path.is_file()), None)

    def get(self, name: str) -> NamedVoice:
        """The voice of a name.

        Raises:
            UserError: there is none.
        """
        found = self.find(name)
        if found is None:
            known = ", ".join(voice.name for voice in self.all()[:8]) or "none yet"
            raise UserError(
                what=f"the library has no voice {name!r}", where="voice library", fix=f"use one that it has: {known}"
            )
        return found

    @disk_errors()
    def make(self, name: str, recordings: Sequence[Path]) -> NamedVoice:
        """A voice of one recording or several of the same person, which count alike.

        Raises:
            UserError: the name cannot be used or is taken, there is no recording or too many, or one is silent, too
                short or not readable.
        """
        if not 1 <= len(recordings) <= MOST_VOICES:
            what = f"a voice cannot be made of {len(recordings)} recordings"
            raise UserError(what=what, where=name, fix=f"choose 1 to {MOST_VOICES}")
        return self._write(self.free_name(name), [(_as_wav(path), 1.0) for path in recordings])

    @disk_errors()
    def mix(self, name: str, mixture: str) -> NamedVoice:
        """A voice between others of the library.

        Args:
            name: of the new voice.
            mixture: such as anna:0.7,ben:0.3.

        Raises:
            UserError: the name cannot be used or is taken, one of the voices is not there or damaged, or they are too
                many.
        """
        name = self.free_name(name)
        parts: list[tuple[bytes, float]] = []
        for voice, weight in voice_parts(mixture):
            with opened(self.get(voice).path) as recordings:
                total = sum(share for _, share in recordings)
                parts += [(path.read_bytes(), weight * share / total) for path, share in recordings]
        if len(parts) > MOST_PARTS:
            what = f"the mixture comes to {len(parts)} recordings"
            raise UserError(what=what, where=name, fix=f"mix voices with {MOST_PARTS} or fewer in all")
        return self._write(name, parts)

    @disk_errors()
    def rename(self, name: str, new_name: str) -> NamedVoice:
        """Call a voice otherwise; takes keep the copy they have.

        Raises:
            UserError: there is no such voice, or the new name cannot be used or is taken.
        """
        found = self.get(name)
        path = found.path.with_name(f"{self.free_name(new_name)}{found.path.suffix}")
        found.path.rename(path)
        return NamedVoice(path.stem, path)

    @disk_errors()
    def remove(self, name: str) -> bool:
        """Forget a voice; whether it was there. Takes keep the copy they have."""
        found = self.find(name)
        if found is not None:
            found.path.unlink(missing_ok=True)
        return found is not None

    def free_name(self, name: str) -> str:
        """A name for a new voice, as it is kept.

        Raises:
            UserError: it cannot be used or is taken, or the library is full.
        """
        name = self.usable_name(name)
        # Names that differ in case only are one file on some systems.
        if name.casefold() in (voice.name.casefold() for voice in self.all()):
            raise UserError(
                what=f"there is a voice {name!r} already", fix="use another name, or delete that voice first"
            )
        return name

    def usable_name(self, name: str) -> str:
        """As `free_name`, of a voice that may take the place of another."""
        name = check_name(name, kind="voice")
        if name == DEFAULT_VOICE:
            raise UserError(what=f"{DEFAULT_VOICE!r} is the model's own voice", fix="use another name")
        if len(self.all()) >= MAX_VOICES:
            raise UserError(what=f"there are {MAX_VOICES} voices already", fix="delete one first")
        return name

    def _write(self, name: str, parts: Sequence[tuple[bytes, float]]) -> NamedVoice:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}{VOICE_SUFFIX}"
        names = [f"{number}.wav" for number in range(1, len(parts) + 1)]
        index = [{"file": file, "weight": weight} for file, (_, weight) in zip(names, parts, strict=True)]
        with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            archive.writestr(_INDEX, json.dumps({"parts": index}))
            for file, (wav, _) in zip(names, parts, strict=True):
                archive.writestr(file, wav)
        return NamedVoice(name, path)


@contextmanager
def opened(path: Path) -> Iterator[list[tuple[Path, float]]]:
    """The recordings of a voice's file with their weights, as files while the context lasts.

    Args:
        path: of a .voice; any other file is a recording by itself.

    Raises:
        UserError: it is damaged.
    """
    if path.suffix != VOICE_SUFFIX:
        yield [(path, 1.0)]
        return
    with tempfile.TemporaryDirectory(prefix="voice-") as folder:
        yield _unpacked(path, Path(folder))


def voice_parts(voice: str) -> list[tuple[str, float]]:
    """Names and weights of a voice: "anna", or a mixture such as "anna:0.7,ben:0.3".

    Raises:
        UserError: a weight is not above 0, or there are too many.
    """
    found = []
    for part in filter(None, (part.strip() for part in voice.split(","))):
        name, _, weight = part.rpartition(":")
        try:
            found.append((name.strip(), float(weight)) if name else (part, 1.0))
        except ValueError:
            found.append((part, 1.0))
    if len(found) > MOST_VOICES or not all(0 < weight < math.inf for _, weight in found):
        raise UserError(
            what=f"a mixture of {len(found)} voices",
            fix=f"use up to {MOST_VOICES} with weights above 0: anna:0.7,ben:0.3",
        )
    return found or [(DEFAULT_VOICE, 1.0)]


def _as_wav(path: Path) -> bytes:
    """The beginning of a recording as a 16-bit wav."""
    # Imported late: the page opens without it.
    import soundfile

    from utils.audio.sound_file import SoundFile, check_reference

    try:
        with SoundFile(path) as sound:
            rate = sound.samplerate
            samples = sound.read(VOICE_S * rate, dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, TypeError) as error:
        raise UserError(
            what="the recording cannot be read", where=path.name, fix="save it as wav, flac, ogg or mp3"
        ) from error
    check_reference(samples, rate, where=path.name)
    written = io.BytesIO()
    soundfile.write(written, samples, rate, format="WAV", subtype="PCM_16")
    return written.getvalue()


def _unpacked(path: Path, folder: Path) -> list[tuple[Path, float]]:
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _MOST_BYTES:
                raise ValueError("too large")
            parts: list[Mapping[str, object]] = json.loads(archive.read(_INDEX))["parts"]
            if not 1 <= len(parts) <= MOST_PARTS:
                raise ValueError("too many parts")
            found = []
            for number, part in enumerate(parts):
                weight = float(part["weight"])  # type: ignore[arg-type]
                if not 0 < weight < math.inf:
                    raise ValueError("a weight that is none")
                file = folder / f"{number}.wav"
                file.write_bytes(archive.read(str(part["file"])))
                found.append((file, weight))
    except _DAMAGED as error:
        raise UserError(what="the voice is damaged", where=path.name, fix="delete it, and make it again") from error
    return found
