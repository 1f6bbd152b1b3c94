"""One source clip as the user gave it, and the settings for reading inputs."""

from dataclasses import dataclass, field
from pathlib import Path

from utils.audio.recognizer import Transcriber, TranscriberSettings
from utils.dataset.formats.listing import Listing
from utils.dataset.formats.table import DEFAULT_SPEAKER
from utils.dataset.segmentation.cut import CutLengths
from utils.dataset.segmentation.long_audio import LongAudio
from utils.dataset.settings import PrepareConfig
from utils.dataset.storage.report import Fault, Ignored, Span


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One clip as the user gave it; its sound has not been looked at."""

    audio: Path
    """Absolute path; need not exist when `fault` says so."""
    text: str = ""
    speaker: str = DEFAULT_SPEAKER
    origin: str = ""
    """What it was made of, for people: which cues of which subtitles, which line of a table."""
    fault: Fault | None = None
    """Why it cannot be used, when that is already known."""
    start_s: float = 0.0
    """Where the clip begins in the recording, in seconds."""
    end_s: float | None = None
    """Where it ends, in seconds; None is the end of the file."""
    joined: tuple[Span, ...] = ()
    """Further parts that follow it without a pause, when clips were merged."""
    made_from: tuple[str, ...] = ()
    """Ids of the clips that a fix made it from; empty for a clip of the source."""


def transcriber_of(config: PrepareConfig, *, detect_language: bool) -> Transcriber | None:
    """The recognizer that the settings name; it listens in the dataset's language unless it is to detect one."""
    if config.transcriber is None:
        return None
    settings = TranscriberSettings(
        model=config.transcriber,
        language=None if detect_language else config.language.split("-")[0].lower(),
        device=config.transcriber_device,
        compute_type=config.compute_type,
        beam_size=config.beam_size,
    )
    return Transcriber(settings)


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How what the user gave is read."""

    long_audio: LongAudio
    encoding: str | None = None
    """Of text files that are neither UTF-8 nor UTF-16."""
    clean_subtitles: bool = True
    """Remove what is not spoken from subtitles."""
    language: str = ""
    """Code of the dataset's language; rows of another are reported. Empty takes any."""
    files: Listing = field(default_factory=Listing)
    """What lies in the folders of one input."""
    notes: list[str] = field(default_factory=list)
    """What was read otherwise than written, each thing once."""
    ignored: list[Ignored] = field(default_factory=list)
    """Files that are no part of the dataset."""

    @classmethod
    def of(cls, config: PrepareConfig, kept: Path) -> "ReadOptions":
        """How the settings say it; what need not be found twice is kept in the folder `kept`."""
        long_audio = LongAudio(
            kept=kept,
            limits=CutLengths(shortest_s=config.shortest, longest_s=config.longest, padding_s=config.padding),
            transcriber=transcriber_of(config, detect_language=config.detect_language),
            language=config.language if config.detect_language else "",
        )
        return cls(
            long_audio=long_audio,
            encoding=config.encoding,
            language=config.language,
            clean_subtitles=config.clean_subtitles,
        )

    @property
    def no_transcript(self) -> str:
        """What helps a recording without words."""
        return "" if self.long_audio.transcriber else "; --transcriber small would transcribe it"
