"""make demo: the whole job, on some clips of the bundled voice."""

import re
import shutil
from pathlib import Path

import pytest

from utils.cli import demo
from utils.project.paths import AFTER, BEFORE, assets_folder, open_project

NUM_CLIPS = 8


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


def test_the_demo_does_the_whole_job(assets, tmp_path, monkeypatch, capsys):
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
    assert all((project.folder / name).stat().st_size > 1000 for name in (BEFORE, AFTER))


def test_a_failed_stage_fails_the_demo(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "assets_folder", lambda: tmp_path / "nothing")
    with pytest.raises(SystemExit, match="2"):
        demo.main(["--output", str(tmp_path)])


def summary(wer: float | None, second_cosine: float | None, cosine: float = 0.5) -> dict[str, float | None]:
    return {"wer": wer, "second_cosine": second_cosine, "cosine": cosine}


def test_the_demo_says_in_words_what_changed():
    clearer = demo.what_changed(summary(0.55, 0.6), summary(0.2, 0.8))
    assert clearer == [
        "a recognizer understood 45 of 100 words before training and 80 of 100 after",
        "similarity to the recorded voice was 0.60 before training and is 0.80 after",
    ]
    worse = demo.what_changed(summary(0.2, 0.6), summary(1.3, 0.6))
    assert (
        "80 of 100 words before training and 0 of 100" in worse[0] and "neither clearer nor more similar" in worse[-1]
    )
    assert len(demo.what_changed(summary(None, None, 0.5), summary(None, None, 0.9))) == 1
