"""A project with a dataset of four clips: two in use, one that was split, one held out; their wavs hold no sound."""

from pathlib import Path
from typing import Any

from utils.dataset.storage.report import ClipReport, Flag, Report
from utils.project.paths import Project
from utils.project.projects import ProjectSettings, create_project


def make_project(output: Path, name: str) -> Project:
    """The project, new on disk."""
    project = create_project(name, output, ProjectSettings(language="en", base="tiny"))
    (project.dataset / "wavs").mkdir(parents=True)
    found = [
        clip("a", status="used", split="train", text="One two three four"),
        clip("b", status="used", split="train", text="Five", flags=(Flag(measure="noise", detail="12 dB"),)),
        clip("c", status="dropped", reason="replaced", detail="split; restore the clip to undo this", text="Six"),
        clip("d", status="used", split="eval", text="Seven", made_from=("id-c",)),
    ]
    for path, names in ((project.train_csv, "ab"), (project.eval_csv, "d")):
        rows = [f"wavs/{item.id[3:]}.wav|{item.text}|one" for item in found if item.id[3:] in names]
        path.write_text("\n".join(["audio_file|text|speaker_name", *rows]) + "\n", encoding="utf-8")
    for item in found:
        (project.dataset / item.clip).write_bytes(b"sound")
    Report(clips=found, settings={}).save(project.report)
    project.language_file.write_text("en", encoding="utf-8")
    return project


def clip(name: str, **values: Any) -> ClipReport:
    return ClipReport(
        source=f"/in/{name}.wav", id=f"id-{name}", clip=f"wavs/{name}.wav", speaker="one", num_samples=66_150, **values
    )


def add_checkpoint(run: Path, name: str) -> None:
    """A checkpoint of a run that is complete."""
    folder = run / "checkpoints" / name
    folder.mkdir(parents=True)
    (folder / "state.json").write_text("{}", encoding="utf-8")
    (folder / "complete.json").write_text('{"state.json": {"size": 2}}', encoding="utf-8")
