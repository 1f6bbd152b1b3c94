"""Small inputs made of the bundled voice, and what a dataset looks like from outside."""

import json
import shutil
from pathlib import Path

from utils.bases.find import find_base
from utils.dataset.edits.edit import FixConfig, FixKind
from utils.dataset.edits.fixes import apply
from utils.dataset.segmentation.long_audio import LongAudio
from utils.dataset.settings import PrepareConfig
from utils.dataset.sources.read import read_sources
from utils.dataset.sources.recording import ReadOptions, Recording
from utils.dataset.storage.manifest import Clip, read_manifest, write_manifest
from utils.dataset.storage.report import ClipReport, Report
from utils.project.paths import Project, assets_folder

DEMO_VOICE = assets_folder() / "demo_voice"
SENTENCE = ("Good", "morning,", "dear", "friends.")
"""What the recognizer of toy size recognizes in any recording."""


def read_source(path: Path, reading: ReadOptions | None = None) -> list[Recording]:
    """As `read_sources`, for one path."""
    return read_sources([path], reading or ReadOptions(long_audio=LongAudio(kept=path / ".kept")))


def demo_clips(count: int) -> list[Clip]:
    """The first clips of the bundled voice."""
    return read_manifest(DEMO_VOICE / "metadata.csv")[:count]


def make_source(folder: Path, count: int, *, first: int = 0) -> Path:
    """A folder with `count` clips of the bundled voice and their metadata.csv."""
    (folder / "wavs").mkdir(parents=True, exist_ok=True)
    clips = []
    for clip in demo_clips(first + count)[first:]:
        shutil.copy(clip.audio, folder / "wavs")
        clips.append(Clip(audio=folder / "wavs" / clip.audio.name, text=clip.text, speaker=clip.speaker))
    write_manifest(folder / "metadata.csv", clips)
    return folder


def add_row(source: Path, audio: str, text: str) -> None:
    """Append a row to a source's metadata.csv."""
    with (source / "metadata.csv").open("a", encoding="utf-8") as file:
        file.write(f"{audio}|{text}|demo\n")


def config(
    source: Path, output: Path, *, project: str = "voice", language: str = "en", **more: object
) -> PrepareConfig:
    """Settings that leave the sound as it is and measure nothing, unless `more` says otherwise."""
    plain = {"base": "tiny", "loudness": None, "trim": False, "remove_dc": False, "quality": False}
    return PrepareConfig(input=source, output=output, project=project, language=language, **(plain | more))  # type: ignore[arg-type]


def clip_of(project: Project, number: int) -> ClipReport:
    """The clip of a recording of the bundled voice, which no fix made."""
    clips = Report.load(project.report).clips
    return next(clip for clip in clips if f"demo-{number:02}" in clip.source and not clip.made_from)


def fix_clip(project: Project, kind: FixKind, clip: str, **values: object) -> Report:
    """Fix a clip as the command does."""
    return apply(FixConfig(project=project.name, output=project.output, fix=kind, clip=clip, **values))  # type: ignore[arg-type]


def copy_of_tiny(folder: Path, **training: int) -> Path:
    """The tiny base with training defaults of its own."""
    shutil.copytree(find_base("tiny").folder, folder)
    about = folder / "about.json"
    content = json.loads(about.read_text(encoding="utf-8"))
    about.write_text(json.dumps(content | {"training": content["training"] | training}), encoding="utf-8")
    return folder


def snapshot(project: Project) -> dict[str, bytes]:
    """Every file of the project, by name, but for the work that a preparation keeps for the next."""
    files = (path for path in project.folder.rglob("*") if path.is_file() and ".work" not in path.parts)
    return {path.relative_to(project.folder).as_posix(): path.read_bytes() for path in files}
