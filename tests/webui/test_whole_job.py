"""The whole job on the tiny base through the page's API, as a script would do it with gradio_client."""

import time
from typing import Any

import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

from tests.webui.app import ROOT

PROJECT = "whole"
VOICE = ROOT / "assets" / "demo_voice"
NUM_CLIPS = 12
LIMIT_S = 240


@pytest.fixture(scope="module")
def client(address: str) -> Client:
    return Client(address, verbose=False, ssl_verify=False)


def wait_until_done(client: Client, kind: str, *, has_steps: int | None = None) -> dict[str, Any]:
    """The newest job of this kind once it has ended, or once it has done this many training steps."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        job = next(job for job in client.predict(project=PROJECT, api_name="/status")["jobs"] if job["kind"] == kind)
        if job["state"] in ("failed", "lost"):
            pytest.fail(f"{kind}: {job['message']}")
        if job["state"] in ("finished", "stopped"):
            return job
        if has_steps is not None and job["what"] == "training" and job["done"] >= has_steps:
            return job
        time.sleep(0.3)
    pytest.fail(f"{kind} took longer than {LIMIT_S} s")


@pytest.mark.slow
def test_a_script_prepares_trains_stops_resumes_and_exports(client, output):
    client.predict(new_project=PROJECT, language="en", base="tiny", api_name="/project_create")
    assert PROJECT in client.predict(api_name="/projects_list")

    clips = sorted((VOICE / "wavs").glob("*.flac"))[:NUM_CLIPS]
    files = [handle_file(path) for path in [*clips, VOICE / "metadata.csv"]]
    client.predict(project=PROJECT, files=files, api_name="/data_upload")
    client.predict(project=PROJECT, language="en", base="tiny", eval_fraction="0.2", api_name="/data_prepare")
    wait_until_done(client, "prepare")
    dataset = client.predict(project=PROJECT, api_name="/status")["dataset"]
    assert dataset["used"] == NUM_CLIPS
    # Rows of the table whose recording was not uploaded are accounted for.
    assert dataset["reasons"] == {"missing file": 40 - NUM_CLIPS}

    client.predict(
        project=PROJECT,
        base="tiny",
        num_epochs="40",
        batch_size=4,
        learning_rate="3e-3",
        gradient_checkpointing=True,
        sdpa=True,
        mixed_precision=False,
        api_name="/train_start",
    )
    wait_until_done(client, "train", has_steps=2)
    client.predict(project=PROJECT, run="", api_name="/train_stop")
    stopped = wait_until_done(client, "train")
    assert stopped["state"] == "stopped"
    assert 2 <= stopped["done"] < stopped["total"]

    client.predict(project=PROJECT, run="", num_epochs="", api_name="/train_resume")
    resumed = wait_until_done(client, "train", has_steps=stopped["done"] + 1)
    assert resumed["name"] == stopped["name"]
    client.predict(project=PROJECT, run="", api_name="/train_stop")
    wait_until_done(client, "train")

    client.predict(project=PROJECT, run="", checkpoint="last", decoder="default", api_name="/train_export")
    wait_until_done(client, "export")
    assert client.predict(project=PROJECT, api_name="/status")["ready"] == str(output / PROJECT / "ready")
    assert (output / PROJECT / "ready" / "model.pth").is_file()


def test_faults_are_messages_that_name_the_fix(client):
    with pytest.raises(AppError, match="no project is selected"):
        client.predict(project="", api_name="/status")
    client.predict(new_project="empty", language="en", base="tiny", api_name="/project_create")
    with pytest.raises(AppError, match=r"no dataset yet[\s\S]*Step 1"):
        client.predict(project="empty", base="tiny", api_name="/train_start")
    with pytest.raises(AppError, match="upload recordings"):
        client.predict(project="empty", language="en", base="tiny", api_name="/data_prepare")


def test_a_folder_outside_the_allowed_ones_is_refused(client, tmp_path):
    client.predict(new_project="outside", language="en", base="tiny", api_name="/project_create")
    for folder in ("/etc", str(tmp_path), "../../etc", "/no/such/folder", "\x00"):
        with pytest.raises(AppError, match="may not read this folder"):
            client.predict(project="outside", language="en", base="tiny", folder=folder, api_name="/data_prepare")
