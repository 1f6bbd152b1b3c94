"""A project written by version 0.1, before the packages were rearranged, opens, resumes, exports and speaks.

earlier_version.tar.xz holds what `utils.training.train.fine_tune` and the export of that version left: a base of the
smallest sizes (small-base/), a dataset of three clips, a run that trained all weights and one with LoRA and 8-bit
moments, and the exported model.
"""

import tarfile
from pathlib import Path

import pytest

from tests.decoding import said
from utils.bases.base import Base
from utils.config import ExportConfig, TrainConfig
from utils.dataset.storage.manifest import read_manifest
from utils.inference.engine import Synthesizer
from utils.inference.export import export_model
from utils.project.paths import Project
from utils.runs.layout import checkpoints_of
from utils.runs.list import list_runs
from utils.training.train import fine_tune

WRITTEN = Path(__file__).with_name("earlier_version.tar.xz")
RESUMED = {
    "plain": [3.58428182, 3.50945949, 3.46630518, 3.46676952],
    "lora": [3.59272159, 3.58949749, 3.59077919, 3.59328636],
}
"""Losses of the epochs where that version itself continued to a fourth one."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    with tarfile.open(WRITTEN) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)  # its settings name the base and the output folder from there
    return Project(name="before", output=Path("output"))


def test_it_opens(project):
    assert [clip.audio.is_file() for clip in read_manifest(project.train_csv)] == [True, True]
    runs = {run.folder.name: run for run in list_runs(project)}
    assert set(runs) == {"plain", "lora"}
    for run in runs.values():
        kept = checkpoints_of(run.folder)
        assert all(checkpoint.is_complete for checkpoint in kept)
        assert {(checkpoint.is_best, checkpoint.step) for checkpoint in kept} >= {(False, 6)}


@pytest.mark.parametrize("name", RESUMED)
def test_its_runs_resume_as_that_version_resumed_them(project, name):
    settings = TrainConfig(
        project=project.name, output=project.output, base="small-base", batch_size=1, device="cpu", num_epochs=4
    )
    result = fine_tune(TrainConfig(**{**vars(settings), "resume": project.runs / name, "sample_text": ""}))
    assert result.num_steps == 8
    # 8-bit moments of that version start from zero: the last epoch is near, not equal.
    assert result.epoch_losses[:3] == pytest.approx(RESUMED[name][:3], rel=1e-5)
    assert result.epoch_losses[3] == pytest.approx(RESUMED[name][3], rel=1e-5 if name == "plain" else 1e-2)


def test_its_model_speaks_and_is_exported_again(project):
    model = Synthesizer(Base(project.ready))
    spoken = said(model, "One.", seed=1)
    assert spoken.size(-1) > 0
    folder = export_model(ExportConfig(project=project.name, output=project.output, run="plain"))
    assert (folder / "model.pth").is_file()
