"""The library of voices: python -m utils.cli.voices list; make, mix, rename, remove.

Its voices are known by name to the page, `utils.cli.synthesize --voice` and the speech server.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from utils.cli.common import error_exits, program
from utils.project.advice import command
from utils.speech.voice_library import VoiceLibrary


@dataclass(frozen=True, kw_only=True)
class List:
    """Show all voices by name."""

    output: Path = Path("output")
    """The folder that holds all projects."""

    def do(self, library: VoiceLibrary) -> str:
        make = command("voices", "make", name="anna", recordings="anna.wav", output=self.output)
        return "\n".join(voice.name for voice in library.all()) or f"no voices yet; next: {make}"


@dataclass(frozen=True, kw_only=True)
class _Named:
    name: str
    """Name of the voice."""
    output: Path = Path("output")
    """The folder that holds all projects."""


@dataclass(frozen=True, kw_only=True)
class Make(_Named):
    """Make a voice of one recording, or of several of the same person."""

    recordings: tuple[Path, ...]
    """Up to 8; of each, the first 60 s are kept."""

    def do(self, library: VoiceLibrary) -> str:
        return f"voice {library.make(self.name, self.recordings).name} made; {_next(self)}"


@dataclass(frozen=True, kw_only=True)
class Mix(_Named):
    """Make a voice between others of the library."""

    voices: str
    """Names and weights: anna:0.7,ben:0.3."""

    def do(self, library: VoiceLibrary) -> str:
        return f"voice {library.mix(self.name, self.voices).name} made; {_next(self)}"


@dataclass(frozen=True, kw_only=True)
class Rename(_Named):
    """Call a voice otherwise."""

    to: str
    """Its new name."""

    def do(self, library: VoiceLibrary) -> str:
        return f"voice {self.name} is now {library.rename(self.name, self.to).name}"


@dataclass(frozen=True, kw_only=True)
class Remove(_Named):
    """Forget a voice; takes that spoke with it keep their copy."""

    def do(self, library: VoiceLibrary) -> str:
        library.get(self.name)
        library.remove(self.name)
        return f"voice {self.name} removed"


def _next(voice: _Named) -> str:
    """How to speak with a voice."""
    flags = {"model": "starter", "voice": voice.name, "text": "Hello.", "out": "hello.wav"}
    return f"next: {command('synthesize', output=voice.output, **flags)}"


Action = List | Make | Mix | Rename | Remove


def main(args: Sequence[str] | None = None) -> None:
    """The command; exits with 2 after a fault that the user can fix."""
    with error_exits():
        action = tyro.cli(Action, prog=program(), description=__doc__, args=args)  # type: ignore[call-overload]
        print(action.do(VoiceLibrary(action.output)))


if __name__ == "__main__":
    main()
