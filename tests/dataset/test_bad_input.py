"""Whatever is wrong, it is said in plain words and the dataset that was there stays as it was."""

import errno
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.dataset.recordings import add_row, config, make_source, snapshot
from utils.audio.write import write_wav
from utils.dataset.build import prepare
from utils.dataset.clips import sound
from utils.dataset.storage.report import Report
from utils.dataset.storage.work import Staging
from utils.errors import UserError
from utils.project.paths import Project

BAD_INPUT: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing input": (lambda folder: folder.rmdir(), "the input does not exist"),
    "empty folder": (lambda folder: None, "the input holds no recordings"),
    "missing audio": (lambda folder: _table(folder, "a.wav|Hello."), "missing file"),
    "not audio": (lambda folder: _clip(folder, b"RIFF" + bytes(range(200))), "unreadable audio"),
    "missing columns": (lambda folder: _table(folder, "a.wav|Hello.", header="file|words"), "no columns audio_file"),
    "not UTF-8": (lambda folder: _table(folder, b"a.wav|caf\x81"), "not UTF-8"),
    "no table rows": (lambda folder: _table(folder, ""), "the input holds no recordings"),
    "foreign characters": (lambda folder: _spoken(folder, "ⵣⵣⵣ"), "unsupported characters: ⵣ"),
    "no words": (lambda folder: _spoken(folder, "?!"), "empty text"),
}


def _table(folder: Path, rows: str | bytes, header: str = "audio_file|text") -> None:
    content = rows if isinstance(rows, bytes) else rows.encode()
    (folder / "metadata.csv").write_bytes(header.encode() + b"\n" + content + b"\n")


def _clip(folder: Path, content: bytes) -> None:
    (folder / "a.wav").write_bytes(content)
    _table(folder, "a.wav|Hello.")


def _spoken(folder: Path, text: str) -> None:
    make_source(folder, 1)
    _table(folder, f"wavs/demo-01.flac|{text}")


@pytest.fixture
def project(tmp_path) -> Project:
    """A project with a dataset and a run."""
    prepare(config(make_source(tmp_path / "good", 3), tmp_path / "out"))
    project = Project(name="voice", output=tmp_path / "out")
    (project.runs / "one").mkdir(parents=True)
    (project.runs / "one" / "events.jsonl").write_text("{}\n")
    return project


@pytest.mark.parametrize("kind", BAD_INPUT)
def test_unusable_input_is_refused_and_the_dataset_stays(project, tmp_path, kind):
    make, message = BAD_INPUT[kind]
    (tmp_path / "bad").mkdir()
    make(tmp_path / "bad")
    before = snapshot(project)
    with pytest.raises(UserError, match=message) as caught:
        prepare(config(tmp_path / "bad", project.output))
    assert caught.value.where and caught.value.fix
    assert snapshot(project) == before
    with pytest.raises(UserError):
        prepare(config(tmp_path / "bad", tmp_path / "new"))
    assert not list((tmp_path / "new").glob("*")), "no folder of a new project"


@pytest.mark.parametrize("language", ["amh", ""])
def test_a_language_the_base_cannot_read_is_refused(project, tmp_path, language):
    before = snapshot(project)
    with pytest.raises(UserError, match="cannot read the language"):
        prepare(config(tmp_path / "good", project.output, language=language))
    assert snapshot(project) == before


def test_a_second_language_in_a_dataset_is_refused(project, tmp_path):
    before = snapshot(project)
    with pytest.raises(UserError, match="the dataset is in 'en', not 'de'") as caught:
        prepare(config(tmp_path / "good", project.output, language="de"))
    assert "--language en" in caught.value.fix
    assert snapshot(project) == before


def test_an_unknown_base_is_refused(tmp_path):
    settings = config(make_source(tmp_path / "in", 2), tmp_path / "out", base="nothing")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="there is no base 'nothing'"):
        prepare(settings)


def test_an_evaluation_set_that_would_be_empty_is_refused(tmp_path):
    source = make_source(tmp_path / "in", 1)
    add_row(source, "gone.wav", "Not there.")
    with pytest.raises(UserError, match="the evaluation set would be empty: there is only 1 usable clip"):
        prepare(config(source, tmp_path / "out"))
    assert not list((tmp_path / "out").glob("*"))


def test_the_dataset_as_its_own_input_is_refused(project):
    for source in (project.train_csv, project.dataset, project.output, project.output.parent):
        with pytest.raises(UserError, match="folder overlap"):
            prepare(config(source, project.output))


@pytest.mark.parametrize("name", ["lang.txt", "report.json", "metadata_train.csv", "metadata_eval.csv"])
def test_a_damaged_dataset_is_not_written_over(project, tmp_path, name):
    (project.dataset / name).unlink()
    before = snapshot(project)
    with pytest.raises(UserError, match=f"damaged: {name} missing"):
        prepare(config(tmp_path / "good", project.output))
    assert snapshot(project) == before


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"clips": [{"text": 1}], "totals": {}, "settings": {}}'])
def test_a_report_that_is_none_is_named(project, tmp_path, content):
    project.report.write_text(content)
    with pytest.raises(UserError, match="report cannot be read"):
        prepare(config(tmp_path / "good", project.output))
    assert project.report.read_text() == content


def _full_disk(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def _full_after(count: int) -> Callable[..., None]:
    """Writes that many wavs, then the disk is full."""
    written = io.StringIO()

    def write(path: Path, *args: Any) -> None:
        written.write("x")
        if len(written.getvalue()) > count:
            _full_disk()
        write_wav(path, *args)

    return write


@pytest.mark.parametrize("at", ["first wav", "third wav", "metadata", "report", "page", "marker"])
def test_a_full_disk_leaves_everything_as_it_was(tmp_path, monkeypatch, at):
    project, is_new = Project(name="voice", output=tmp_path / "out"), at not in ("metadata", "page")
    if not is_new:
        prepare(config(make_source(tmp_path / "in", 3), project.output))
    before = snapshot(project)
    make_source(tmp_path / "in", 8)
    with monkeypatch.context() as patch:
        match at:
            case "first wav":
                patch.setattr(sound, "write_wav", _full_disk)
            case "third wav":
                patch.setattr(sound, "write_wav", _full_after(2))
            case "metadata":
                patch.setattr("utils.dataset.build.write_manifest", _full_disk)
            case "report":
                patch.setattr(Report, "save", _full_disk)
            case "page":
                patch.setattr(Path, "write_text", _full_disk)
            case "marker":
                patch.setattr(Staging, "commit", _full_disk)
        with pytest.raises(UserError, match="the disk is full; the dataset is unchanged") as caught:
            prepare(config(tmp_path / "in", project.output))
    assert caught.value.fix
    assert snapshot(project) == before
    # The clips that were finished before are kept for the next run, unless they were on their way in already; what came
    # to nothing leaves nothing.
    assert project.folder.exists() is (not is_new or at not in ("first wav", "marker"))
    assert len(prepare(config(tmp_path / "in", project.output)).used) == 8


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "out").write_text("a file, not a folder")
    with pytest.raises(UserError, match="not usable as it is"):
        prepare(config(make_source(tmp_path / "in", 2), tmp_path / "out"))
