"""A project with a dataset of four clips, an app that knows it, and what would have been started for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from utils import jobs
from utils.dataset.report import ClipReport, Flag, Report
from utils.paths import Project
from utils.projects import ProjectSettings, create_project
from webui.studio import Studio


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = create_project("maria", tmp_path / "output", ProjectSettings(language="en", base="tiny"))
    (project.dataset / "wavs").mkdir(parents=True)
    found = [
        clip("a", status="used", split="train", text="One two three four"),
        clip("b", status="used", split="train", text="Five", flags=(Flag(measure="noise", detail="12 dB"),)),
        clip("c", status="dropped", reason="replaced", detail="split; restore it to undo that", text="Six"),
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


@pytest.fixture
def studio(project: Project) -> Studio:
    return Studio(output=project.output)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What would have been started, once what it needs was freed."""
    found: list[tuple[str, Any]] = []

    def start(kind: str, config: Any, *, before: Callable[[], object] | None = None) -> None:
        if before:
            before()
        found.append((kind, config))

    monkeypatch.setattr(jobs, "start", start)
    return found
