"""Tab 4: what runs is never hidden by what is over, every byte of a project is counted, and the settings are shown."""

import os
from dataclasses import replace
from pathlib import Path

from tests.webui.test_views import job
from utils.hardware.gpu import REASONS
from utils.hardware.machine import this_machine
from utils.project.paths import Project
from webui import text
from webui.handlers import system
from webui.security import Access
from webui.text.catalog import speaking
from webui.views import system as view

MB = 1_000_000


def test_a_running_training_is_listed_however_many_clips_were_mended_since(tmp_path):
    training = job(tmp_path)
    fixes = [replace(job(tmp_path, state="finished"), kind="fix", started=10.0 + number) for number in range(25)]
    listed = system.live_first([training, *fixes])
    assert listed[0] == training and len(listed) == system.NUM_JOBS
    assert [item.started for item in listed[1:4]] == [34.0, 33.0, 32.0]
    assert len(system.live_first([training] * 30)) == 30


def test_why_there_is_no_gpu_is_in_the_language_of_the_page():
    found = replace(this_machine(), gpu=None, gpu_reason=next(iter(REASONS.values())))
    with speaking("es"):
        assert "no hay ningún controlador de NVIDIA" in view.machine(found)


def test_everything_in_a_projects_folder_is_counted(tmp_path):
    project = Project(name="maria", output=tmp_path)
    sizes = {"dataset/wavs/a.wav": 1, "takes/1/a.wav": 2, "maria-ready.zip": 4, "sources/x": 8, "base-de/m": 16}
    for name, size in {**sizes, "jobs/1/events.jsonl": 32, "evaluation/1/a.wav": 64, "uploads/a": 128}.items():
        (tmp_path / "maria" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "maria" / name).touch()
        os.truncate(tmp_path / "maria" / name, size * MB)
    shown = view.disk([project], 0)
    cells = ["maria", "1 MB", "0 KB", "0 KB", "128 MB", "2 MB", "124 MB", "255 MB"]
    assert "".join(f"<td>{cell}</td>" for cell in cells) in shown
    assert len(cells) == len(text.DISK_COLUMNS)


def test_the_settings_of_the_app_are_shown_and_no_password(tmp_path):
    access = Access(host="0.0.0.0", port=8000, auth=(("anna", "very secret"),), max_upload_bytes=3 * 10**9, share=True)
    shown = view.settings(access, tmp_path, [Path("/srv/<recordings>")], 50 * 10**9)
    for words in ("0.0.0.0, port 8000", "on: 1 name", "3.0 GB", "50.0 GB", str(tmp_path), "/srv/&lt;recordings&gt;"):
        assert words in shown
    assert "secret" not in shown and "this computer only" not in shown
    plain = view.settings(Access(), tmp_path, [], 1)
    assert "this computer only" in plain and text.NO_LOGIN in plain
