"""The list of takes: each is read once, and again when its file changed or its process is gone."""

from pathlib import Path

import pytest

from utils.errors import UserError
from utils.options import SpeechSettings
from utils.project.paths import Project
from utils.project.projects import ProjectSettings
from utils.speech.takes import TAKE_FILE, Take, new_take
from webui import takes, text
from webui.handlers import take_list
from webui.studio import Studio
from webui.takes import TakeWatch


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(name="voice", output=tmp_path)


def make_take(project: Project, *words: str) -> Take:
    return new_take(project, list(words), model="base/tiny", settings=SpeechSettings())


def test_a_take_is_read_once_until_it_changes(project, monkeypatch):
    read: list[Path] = []
    monkeypatch.setattr(takes, "read_take", lambda folder: read.append(folder) or found[folder])
    ended = [make_take(project, *(f"line {n}" for n in range(3))).changed(state="finished") for _ in range(2)]
    found = {take.folder: take for take in ended}
    for take in ended:
        take.save()
    watch = TakeWatch()
    first = watch.newest(project)
    assert [one.id for one in first] == sorted((take.id for take in ended), reverse=True)
    assert watch.newest(project) == first and len(read) == 2
    ended[0].changed(message="fixed", state="stopped").save()
    found[ended[0].folder] = ended[0].changed(state="stopped")
    assert any(text.TAKE_STATES["stopped"] in one.label for one in watch.newest(project))
    monkeypatch.setattr(takes, "MAX_TAKES", 1)
    assert len(read) == 3 and len(watch.newest(project)) == 1


def test_a_take_whose_process_is_gone_reads_as_cut_though_its_file_is_as_it_was(project, monkeypatch):
    take = make_take(project, "one", "two")
    watch = TakeWatch()
    (shown,) = watch.newest(project)
    assert shown.progress is not None and text.TAKE_STATES["waiting"] in shown.label
    before = (take.folder / TAKE_FILE).stat()
    monkeypatch.setattr("utils.runs.process.ProcessId.process", lambda self: None)
    (shown,) = watch.newest(project)
    assert shown.progress is None and text.TAKE_STATES["cut"] in shown.label
    assert (take.folder / TAKE_FILE).stat().st_mtime_ns == before.st_mtime_ns
    (take.folder / TAKE_FILE).write_text("{", encoding="utf-8")
    assert watch.newest(project) == []


def test_takes_are_named_written_and_deleted_from_the_list(project, tmp_path):
    ProjectSettings().save(project)
    studio = Studio(output=tmp_path)
    take = make_take(project, "one").changed(state="finished")
    take.save()
    chosen = {"project.project": "voice", "inference.take": take.id}
    renamed = take_list.rename(studio, chosen | {"inference.take_name": "Chapter <1>"})
    ((label, identity),) = renamed["inference.take"]["choices"]
    assert "Chapter <1>" in label and identity == take.id
    for name in (3, ["x"], "x" * 81):
        with pytest.raises(UserError):
            take_list.rename(studio, chosen | {"inference.take_name": name})
    for kind in ("mp3", "exe", None, ["wav"]):
        with pytest.raises(UserError):  # nothing was spoken, or no such format
            take_list.write_file(studio, chosen | {"inference.take_format": kind})
    deleted = take_list.delete(studio, chosen | {"inference.current": take.id})
    assert deleted["inference.take"] == {"choices": [], "value": None}
    assert deleted["inference.whole"] is None and not take.folder.exists()
    with pytest.raises(UserError, match="there is no take"):
        take_list.delete(studio, chosen | {"inference.current": ""})
