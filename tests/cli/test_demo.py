"""make demo: the whole job, on some clips of the bundled voice."""

import re
import shutil
from pathlib import Path

import pytest

from utils.cli import demo
from utils.project.paths import assets_folder, open_project

NUM_CLIPS = 16


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    """The shipped files, with fewer clips of the voice."""
    whole, some = assets_folder(), tmp_path / "assets"
    (some / "demo_voice" / "wavs").mkdir(parents=True)
    shutil.copy(whole / "demo_heldout.txt", some)
    heading, *rows = (whole / "demo_voice" / "metadata.csv").read_text(encoding="utf-8").splitlines()
    (some / "demo_voice" / "metadata.csv").write_text("\n".join([heading, *rows[:NUM_CLIPS]]), encoding="utf-8")
    for row in rows[:NUM_CLIPS]:
        name = row.split("|")[0]
        shutil.copy(whole / "demo_voice" / name, some / "demo_voice" / name)
    return some


def test_the_demo_does_the_whole_job(assets: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(demo, "assets_folder", lambda: assets)
    demo.main(["--output", str(tmp_path), "--base", "tiny"])
    printed = capsys.readouterr()
    assert f"{NUM_CLIPS} in, {NUM_CLIPS} used, 0 dropped" in printed.out
    first, last = map(float, re.findall(r"(\d+\.\d+) at the (?:first|last)", printed.out))
    assert last < 0.9 * first
    for stage in ("preparing clips", "encoding clips", "training steps", "writing the model", "speaking"):
        assert stage in printed.err
    project = open_project("demo", tmp_path)
    assert (project.ready / "model.pth").is_file()
    assert all((project.folder / f"spoken_{number}.wav").stat().st_size > 1000 for number in (1, 2))


def test_a_failed_stage_fails_the_demo(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(demo, "assets_folder", lambda: tmp_path / "nothing")
    with pytest.raises(SystemExit) as end:
        demo.main(["--output", str(tmp_path)])
    assert end.value.code == 2
