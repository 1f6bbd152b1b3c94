"""The library of voices: python -m utils.cli.voices list; make, mix, rename, remove.

Its voices are known by name to the page, `utils.cli.synthesize --voice` and the speech server.
"""

from functools import partial
from pathlib import Path

from utils.cli.common import run_subcommands
from utils.project.advice import command
from utils.speech.voice_library import VoiceLibrary

OUTPUT = Path("output")


def list_voices(output: Path = OUTPUT) -> None:
    """Show all voices by name.

    Args:
        output: the folder that holds all projects.
    """
    make = command("voices", "make", name="anna", recordings="anna.wav", output=output)
    print("\n".join(voice.name for voice in VoiceLibrary(output).all()) or f"no voices yet; next: {make}")


def make(name: str, recordings: tuple[Path, ...], output: Path = OUTPUT) -> None:
    """Make a voice of one recording, or of several of the same person.

    Args:
        name: name of the voice.
        recordings: up to 8; of each, the first 60 s are kept.
        output: the folder that holds all projects.
    """
    print(f"voice {VoiceLibrary(output).make(name, recordings).name} made; {_next(name, output)}")


def mix(name: str, voices: str, output: Path = OUTPUT) -> None:
    """Make a voice between others of the library.

    Args:
        name: name of the voice.
        voices: names and weights: anna:0.7,ben:0.3.
        output: the folder that holds all projects.
    """
    print(f"voice {VoiceLibrary(output).mix(name, voices).name} made; {_next(name, output)}")


def rename(name: str, to: str, output: Path = OUTPUT) -> None:
    """Give a voice another name.

    Args:
        name: name of the voice.
        to: its new name.
        output: the folder that holds all projects.
    """
    print(f"voice {name} is now {VoiceLibrary(output).rename(name, to).name}")


def remove(name: str, output: Path = OUTPUT) -> None:
    """Remove a voice; takes that spoke with it keep their copy.

    Args:
        name: name of the voice.
        output: the folder that holds all projects.
    """
    library = VoiceLibrary(output)
    library.get(name)
    library.remove(name)
    print(f"voice {name} removed")


def _next(name: str, output: Path) -> str:
    """How to speak with a voice."""
    return f"next: {command('synthesize', output=output, model='starter', voice=name, text='Hello.', out='hello.wav')}"


main = partial(
    run_subcommands, {"list": list_voices, "make": make, "mix": mix, "rename": rename, "remove": remove}, __doc__
)
"""The command; exits with 2 after a fault that the user can fix."""


if __name__ == "__main__":
    main()
