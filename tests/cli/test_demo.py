"""make demo: the whole job on the bundled voice."""

import re
from pathlib import Path

import pytest

from utils.cli import demo
from utils.project.paths import open_project


def test_the_demo_does_the_whole_job(tmp_path: Path, capsys) -> None:
    demo.main(["--output", str(tmp_path), "--base", "tiny"])
    printed = capsys.readouterr()
    assert "40 in, 40 used, 0 dropped" in printed.out
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
