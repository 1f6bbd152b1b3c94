"""A published corpus gives the clips that its files would give; what is damaged or unsafe is refused or reported."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from tests.dataset.recordings import config, demo_clips, make_source
from tests.dataset.recordings import read_source as read_folder
from utils.dataset.build import prepare
from utils.dataset.formats import corpora
from utils.dataset.formats.corpora import unpack_corpus
from utils.dataset.segmentation.long_audio import LongAudio
from utils.dataset.sources.recording import ReadOptions, Recording
from utils.dataset.storage.manifest import read_manifest
from utils.dataset.storage.report import Report
from utils.errors import UserError
from utils.project.paths import Project

CLIPS = 6


def read_source(path: Path) -> list[Recording]:
    return read_folder(path, ReadOptions(long_audio=LongAudio(kept=path.parent / "kept")))


def tar_of(path: Path, members: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def webdataset(path: Path, first: int = 0, count: int = CLIPS) -> Path:
    """Clips of the bundled voice, the text of every other one in JSON, beside what other tasks need."""
    members: dict[str, bytes] = {}
    for number, clip in list(enumerate(demo_clips(CLIPS)))[first : first + count]:
        key = f"part/{clip.audio.stem}"
        said = {"text": clip.text, "speaker": clip.speaker, "duration": 1.0, "start": 5.0, "wav": "elsewhere/a.wav"}
        members[f"{key}.flac"] = clip.audio.read_bytes()
        members |= {f"{key}.json": json.dumps(said).encode()} if number % 2 else {f"{key}.txt": clip.text.encode()}
        members[f"{key}.cls"] = b"7"
    return tar_of(path, members)


def huggingface(path: Path) -> Path:
    datasets = pytest.importorskip("datasets", reason="not installed: requirements-huggingface.txt")
    clips = demo_clips(CLIPS)
    sounds = [{"bytes": clip.audio.read_bytes(), "path": clip.audio.name} for clip in clips]
    values = {"id": list(range(CLIPS)), "audio": sounds, "sentence": [clip.text for clip in clips]}
    data = datasets.Dataset.from_dict(values | {"speaker_id": [clip.speaker for clip in clips]})
    data = data.cast_column("audio", datasets.Audio(sampling_rate=22_050, decode=path.suffix == ".parquet"))
    if path.suffix == ".parquet":
        data.to_parquet(str(path))
    else:
        datasets.DatasetDict({"train": data}).save_to_disk(str(path))
    return path


SOURCES = {
    "one tar": lambda folder: webdataset(folder / "corpus.tar"),
    "a folder of tars": lambda folder: (
        webdataset(folder / "in" / "0.tar", 0, 2).parent,
        webdataset(folder / "in" / "1.tar", 2),
    )[0],
    "parquet": lambda folder: huggingface(folder / "corpus.parquet"),
    "saved dataset": lambda folder: huggingface(folder / "corpus"),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_a_corpus_gives_the_clips_that_its_files_give(tmp_path: Path, kind: str) -> None:
    source = SOURCES[kind](tmp_path)
    prepare(config(make_source(tmp_path / "files", CLIPS), tmp_path / "out", project="files"))
    prepare(config(source, tmp_path / "out", project="corpus"))
    found = []
    for name in ("files", "corpus"):
        project = Project(name=name, output=tmp_path / "out")
        clips = [clip for csv in (project.train_csv, project.eval_csv) for clip in read_manifest(csv)]
        found.append(sorted((clip.text, clip.audio.read_bytes()) for clip in clips))
    assert found[0] == found[1] and len(found[0]) == CLIPS


def test_what_a_corpus_lacks_is_reported_and_it_is_unpacked_once(tmp_path: Path) -> None:
    sound, other = (clip.audio.read_bytes() for clip in demo_clips(2))
    members = {
        "a.flac": sound,
        "a.txt": b"Said.",
        "o.flac": other,
        "o.txt": b"Told.",
        "b.flac": sound,
        "c.json": b'{"text": "No sound."}',
        "d.flac": sound,
    }
    source = tar_of(tmp_path / "corpus.tar", members | {"d.txt": b"\xff\xfe\xff", "e.npy": b"", ".x.txt": b"hidden"})
    result = prepare(config(source, tmp_path / "out"))
    entries = Report.load(Project(name="voice", output=tmp_path / "out").dataset / "report.json").clips
    said = {Path(entry.source).name: entry.reason or "" for entry in entries}
    assert said == {
        **{"a.flac": "", "o.flac": "", "b.flac": "empty text", "d.flac": "empty text"},
        "metadata.jsonl": "unreadable row",
    }
    assert result.added == 2
    folder = unpack_corpus(source, tmp_path / "out" / "voice" / "sources")
    (folder / "a.flac").write_bytes(b"mine")
    assert unpack_corpus(source, folder.parent) == folder and (folder / "a.flac").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"../x.flac": b"1", "../x.txt": b"1"}, "names a file outside itself"),
        ({"x.flac": b"1", "y.flac": b"2"}, "has no recordings with text"),
        ({"x.csv": b"audio_file|text\n"}, "has no recordings with text"),
    ],
)
def test_a_tar_that_is_unsafe_or_no_webdataset_is_refused(tmp_path: Path, members: dict[str, bytes], said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_source(tar_of(tmp_path / "corpus.tar", members))
    assert [path.name for path in tmp_path.rglob("*.flac")] == []


def test_links_and_what_is_no_tar_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        link = tarfile.TarInfo("x.flac")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(UserError, match="holds a link"):
        unpack_corpus(tmp_path / "a.tar", tmp_path / "into")
    whole = webdataset(tmp_path / "b.tar").read_bytes()
    for content in (b"no tar", whole[: len(whole) // 2]):
        (tmp_path / "b.tar").write_bytes(content)
        with pytest.raises(UserError, match="cannot be unpacked"):
            unpack_corpus(tmp_path / "b.tar", tmp_path / "into")
    assert list((tmp_path / "into").iterdir()) == []


def test_of_several_tars_a_damaged_one_is_reported(tmp_path: Path) -> None:
    webdataset(tmp_path / "in" / "0.tar", 0, 2)
    (tmp_path / "in" / "1.tar").write_bytes(b"no tar")
    recordings = read_source(tmp_path / "in")
    assert [recording.audio.name for recording in recordings if recording.fault] == ["1.tar"]
    assert len(recordings) == 3


def test_without_datasets_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "find_spec", lambda name: None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match="datasets, which is not installed") as refused:
        read_source(tmp_path / "a.parquet")
    assert "requirements-huggingface.txt" in refused.value.fix


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    source = huggingface(tmp_path / "a.parquet")
    source.write_bytes(source.read_bytes()[:-500])
    with pytest.raises(UserError, match="cannot be read by the package datasets"):
        unpack_corpus(source, tmp_path / "into")


def test_a_tar_beside_recordings_is_left_alone(tmp_path: Path) -> None:
    source = make_source(tmp_path / "in", 2)
    webdataset(source / "copy.tar")
    assert [recording.audio.suffix for recording in read_source(source)] == [".flac", ".flac"]


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="two files of the name"):
        read_source(tar_of(tmp_path / "a.tar", {"a.x.flac": b"1", "b?.flac": b"1", "b_.flac": b"1", "b_.txt": b"1"}))
