"""A published corpus gives the clips that its files would give; what is damaged or unsafe is refused or reported."""

from pathlib import Path

import pytest

from tests.dataset.recordings import config, demo_clips, make_source
from tests.dataset.recordings import read_source as read_folder
from utils.dataset.build import prepare
from utils.dataset.formats import archive as corpora
from utils.dataset.formats.archive import unpack_corpus
from utils.dataset.segmentation.long_audio import LongAudio
from utils.dataset.sources.recording import ReadOptions, Recording
from utils.dataset.storage.manifest import read_manifest
from utils.errors import UserError
from utils.project.paths import Project

CLIPS = 6


def read_source(path: Path) -> list[Recording]:
    return read_folder(path, ReadOptions(long_audio=LongAudio(kept=path.parent / "kept")))


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


@pytest.mark.parametrize("name", ["corpus.parquet", "corpus"])
def test_a_corpus_gives_the_clips_that_its_files_give(tmp_path, name):
    source = huggingface(tmp_path / name)
    prepare(config(make_source(tmp_path / "files", CLIPS), tmp_path / "out", project="files"))
    prepare(config(source, tmp_path / "out", project="corpus"))
    found = []
    for voice in ("files", "corpus"):
        project = Project(name=voice, output=tmp_path / "out")
        clips = [clip for csv in (project.train_csv, project.eval_csv) for clip in read_manifest(csv)]
        found.append(sorted((clip.text, clip.audio.read_bytes()) for clip in clips))
    assert found[0] == found[1] and len(found[0]) == CLIPS


def test_without_datasets_the_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "find_spec", lambda name: None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match="datasets, which is not installed") as refused:
        read_source(tmp_path / "a.parquet")
    assert "requirements-huggingface.txt" in refused.value.fix


def test_a_damaged_parquet_file_is_refused(tmp_path):
    source = huggingface(tmp_path / "a.parquet")
    source.write_bytes(source.read_bytes()[:-500])
    with pytest.raises(UserError, match="cannot be read by the package datasets"):
        unpack_corpus(source, tmp_path / "into")
