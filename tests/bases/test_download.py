"""Downloading a base, against a local server that plays the hub: nothing is fetched twice, nothing wrong is kept."""

import hashlib
import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.model.faults import download_in_child, full_after, wait_for
from tests.model.hub_server import BIG, HubServer, base_files, git_sha1, only_hub
from utils.bases import hub as hub_module
from utils.bases.download import INCOMING, download_base
from utils.bases.find import LOCK_NAME, verify_base
from utils.errors import UserError


@pytest.fixture
def hub(monkeypatch, tmp_path) -> Iterator[HubServer]:
    """A hub with all three versions, and an environment in which only its address matters."""
    monkeypatch.setattr(hub_module, "RETRY_WAIT_S", 0.0)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    revisions = {"v2.0.2": base_files(2), "v2.0.3": base_files(3), "main": base_files(4)}
    with only_hub(monkeypatch, tmp_path / "bases", revisions) as server:
        yield server


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "bases" / "v2.0.2"


def download(folder: Path, **options: Any) -> Path:
    return download_base("v2.0.2", folder=folder, **({"accept_license": True} | options))


def assert_whole(folder: Path, hub: HubServer, *, revision: str = "v2.0.2") -> None:
    """Every file equals the hub's, and nothing of the making is left."""
    wanted = {name: content for name, content in hub.revisions[revision].items() if name != "samples/en.wav"}
    assert {path.name for path in folder.iterdir()} == {*wanted, LOCK_NAME, "about.json"}
    assert {name: (folder / name).read_bytes() for name in wanted} == wanted
    verify_base(folder, hashes=True)


def assert_not_usable(folder: Path) -> None:
    assert not (folder / LOCK_NAME).exists()
    assert not (folder / "model.pth").exists()
    with pytest.raises(UserError, match="no finished download"):
        verify_base(folder)


@pytest.mark.parametrize("version", ["v2.0.2", "v2.0.3", "main"])
def test_a_download_leaves_the_hubs_files_and_their_origin(hub, tmp_path, version):
    seen: list[tuple[str, int, int]] = []
    folder = tmp_path / "bases" / version
    done = download_base(version, folder=folder, accept_license=True, progress=lambda *now: seen.append(now))
    assert done == folder
    assert_whole(folder, hub, revision=version)
    lock = json.loads((folder / LOCK_NAME).read_text())
    files = hub.revisions[version]
    assert lock["commit"] == hub.commit(version)
    assert (lock["repository"], lock["revision"], lock["endpoint"]) == ("coqui/XTTS-v2", version, hub.address())
    assert lock["files"]["model.pth"] == {"size": BIG, "sha256": hashlib.sha256(files["model.pth"]).hexdigest()}
    assert lock["files"]["vocab.json"] == {"size": 50_000, "git_sha1": git_sha1(files["vocab.json"])}
    about = json.loads((folder / "about.json").read_text())
    assert (about["name"], about["kind"], about["license"]) == (version, "xtts-v2", "CPML")
    assert about["training"]["learning_rate"] == 5e-6
    done_bytes = [now for _, now, _ in seen]
    assert done_bytes == sorted(done_bytes)
    assert seen[-1][1] == seen[-1][2] == sum(entry["size"] for entry in lock["files"].values())


def test_the_token_goes_to_the_hub_and_never_to_its_storage(hub, folder):
    download(folder)
    assert {seen.token for seen in hub.requests if seen.server == "hub"} == {"Bearer hf_secret"}
    assert {seen.token for seen in hub.requests if seen.server == "storage"} == {None}


def test_a_whole_base_costs_no_request(hub, folder):
    download(folder)
    hub.requests.clear()
    assert download(folder, accept_license=False) == folder
    assert hub.requests == []


def test_a_cut_is_continued_within_the_same_call(hub, folder):
    hub.cuts["model.pth"] = 2_000_000
    download(folder)
    assert_whole(folder, hub)
    assert hub.ranges() == ["bytes=2000000-"]
    assert hub.sent["model.pth"] == BIG


def test_a_lost_network_keeps_what_came_and_the_next_call_continues(hub, folder):
    hub.cuts["model.pth"], hub.dies_when_cut = 2_000_000, True
    with pytest.raises(UserError, match="connection failed"):
        download(folder)
    assert_not_usable(folder)
    hub.dead = False
    download(folder)
    assert_whole(folder, hub)
    assert "bytes=2000000-" in hub.ranges()
    assert hub.sent["model.pth"] == BIG
    assert hub.sent["dvae.pth"] == 200_000


def test_a_killed_download_is_continued(hub, folder):
    hub.seconds_per_file = 30.0
    child = download_in_child(folder)
    part = wait_for(
        lambda: next((path for path in folder.glob(f"{INCOMING}/model.pth.*") if path.stat().st_size), None)
    )
    wait_for(lambda: part.stat().st_size >= BIG // 2)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert_not_usable(folder)
    hub.seconds_per_file = 0.0
    download(folder)
    assert_whole(folder, hub)
    assert hub.ranges() == [f"bytes={BIG // 2}-"]


def test_a_busy_storage_is_asked_again_and_given_up_in_the_end(hub, folder):
    hub.busy = 1000
    with pytest.raises(UserError, match="status 503"):
        download(folder)
    asked = 1000 - hub.busy
    assert asked == hub_module.MAX_FRUITLESS_TRIES
    hub.busy = 2
    download(folder)
    assert_whole(folder, hub)


def test_a_server_without_ranges_is_read_from_the_start(hub, folder):
    hub.knows_ranges = False
    hub.cuts["model.pth"] = 2_000_000
    download(folder)
    assert_whole(folder, hub)


def test_a_branch_that_moved_meanwhile_is_not_mixed_with_its_old_files(hub, tmp_path):
    folder = tmp_path / "bases" / "main"
    hub.cuts["model.pth"], hub.dies_when_cut = 2_000_000, True
    with pytest.raises(UserError):
        download_base("main", folder=folder, accept_license=True)
    hub.revisions["main"] = base_files(5)
    hub.dead = False
    download_base("main", folder=folder, accept_license=True)
    assert_whole(folder, hub, revision="main")


@pytest.mark.parametrize("name", ["model.pth", "vocab.json"])
def test_a_wrong_checksum_is_refused_and_the_file_removed(hub, folder, name):
    hub.corrupt.add(name)
    with pytest.raises(UserError, match=f"{name} is not the file the hub describes"):
        download(folder)
    assert_not_usable(folder)
    assert not list(folder.rglob(f"{name}*"))
    hub.corrupt.clear()
    download(folder)
    assert_whole(folder, hub)


def test_too_little_space_is_said_before_a_file_is_asked_for(hub, folder, monkeypatch):
    usage = shutil.disk_usage(folder.parents[1])._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(UserError, match="70 MB are needed but 1 MB are free"):
        download(folder)
    assert hub.files_asked() == []
    assert_not_usable(folder)


def test_a_disk_that_fills_up_keeps_what_came(hub, folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full_after(2_000_000))
        with pytest.raises(UserError, match="the disk is full"):
            download(folder)
    assert_not_usable(folder)
    kept = next(folder.glob(f"{INCOMING}/model.pth.*.part")).stat().st_size
    assert kept > 1_500_000
    download(folder)
    assert_whole(folder, hub)
    assert hub.ranges() == [f"bytes={kept}-"]


def test_an_unknown_version_lists_the_known_ones(folder):
    with pytest.raises(UserError, match=r"v9.*\n.*\n.*v2\.0\.2, v2\.0\.3, main"):
        download_base("v9", folder=folder)


def test_a_name_that_no_repository_can_have(hub, folder):
    with pytest.raises(UserError, match="is not a repository name"):
        download(folder, repository="not a/name!")


def test_the_repository_may_come_from_the_environment(hub, folder, monkeypatch):
    monkeypatch.setenv("XTTS_STUDIO_REPOSITORY", "missing/nothing")
    with pytest.raises(UserError, match="repository missing/nothing does not exist"):
        download(folder)
    assert download(folder, repository="coqui/XTTS-v2") == folder


def test_a_revision_that_the_repository_lacks(hub, folder):
    del hub.revisions["v2.0.2"]
    with pytest.raises(UserError, match=r"has no revision v2\.0\.2"):
        download(folder)


def test_a_repository_that_is_not_an_xtts_base(hub, folder):
    del hub.revisions["v2.0.2"]["dvae.pth"]
    with pytest.raises(UserError, match=r"not an XTTS v2 base; missing: dvae\.pth"):
        download(folder)


def test_a_gated_repository_says_where_to_ask(hub, folder):
    hub.gated = True
    with pytest.raises(UserError, match="hf auth login"):
        download(folder)


def test_what_is_not_a_hub_is_named(hub, folder):
    hub.unhelpful = True
    with pytest.raises(UserError, match="not respond like a Hugging Face hub"):
        download(folder)


def test_a_folder_that_cannot_be_made(hub, tmp_path):
    (tmp_path / "bases").write_text("a file")
    with pytest.raises(UserError, match="cannot be written"):
        download(tmp_path / "bases" / "v2.0.2")


def test_offline_a_whole_base_is_used_and_a_missing_one_named(hub, folder, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match=r"missing: model\.pth, config\.json.*(\n.*)*unset HF_HUB_OFFLINE"):
        download(folder)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    download(folder)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.requests.clear()
    assert download(folder) == folder
    assert hub.requests == []


def test_without_acceptance_nothing_is_fetched(hub, folder):
    with pytest.raises(UserError, match=r"CPML\), https://coqui\.ai/cpml(\n.*)*--accept-license"):
        download(folder, accept_license=False)
    with pytest.raises(UserError, match="was declined"):
        download(folder, accept_license=False, ask=lambda text: False)
    assert set(hub.files_asked()) == {"LICENSE.txt"}
    assert not (folder.parent / "license.json").exists()
    assert_not_usable(folder)


def test_the_licence_is_shown_and_accepted_once(hub, folder):
    shown: list[str] = []

    def ask(text: str) -> bool:
        shown.append(text)
        return True

    download(folder, accept_license=False, ask=ask)
    assert "Coqui Public Model License" in shown[0]
    assert "https://coqui.ai/cpml" in shown[0]
    assert shown[0].endswith(hub.revisions["v2.0.2"]["LICENSE.txt"].decode())
    record = json.loads((folder.parent / "license.json").read_text())["accepted"]
    assert [entry["repository"] for entry in record] == ["coqui/XTTS-v2"]
    assert record[0]["license"] and record[0]["time"]
    download_base("v2.0.3", folder=folder.parent / "v2.0.3")
    assert len(shown) == 1
    assert_whole(folder, hub)


@pytest.mark.slow
def test_a_second_process_waits_and_fetches_nothing_again(hub, folder):
    hub.seconds_per_file = 0.1
    child = download_in_child(folder)
    wait_for(hub.files_asked)
    download(folder)
    assert child.wait(timeout=20) == 0
    assert_whole(folder, hub)
    assert set(Counter(hub.files_asked()).values()) == {1}


def test_a_damaged_base_is_noticed_and_only_the_damaged_file_fetched_again(hub, folder):
    download(folder)
    (folder / "dvae.pth").write_bytes(b"cut")
    with pytest.raises(UserError, match=r"dvae\.pth"):
        verify_base(folder)
    hub.requests.clear()
    download(folder)
    assert hub.files_asked() == ["dvae.pth"]
    assert_whole(folder, hub)


def test_a_changed_byte_is_found_by_hashes_and_not_by_sizes(hub, folder):
    download(folder)
    changed = bytearray((folder / "model.pth").read_bytes())
    changed[1_000_000] ^= 1
    (folder / "model.pth").write_bytes(changed)
    verify_base(folder)
    with pytest.raises(UserError, match=r"model\.pth"):
        verify_base(folder, hashes=True)


def test_a_folder_with_other_files_is_left_alone(hub, folder):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("my own")
    with pytest.raises(UserError, match=r"config\.json already exists"):
        download(folder)
    assert (folder / "config.json").read_text() == "my own"


def test_files_copied_by_hand_are_checked_and_kept(hub, folder):
    folder.mkdir(parents=True)
    (folder / "model.pth").write_bytes(hub.revisions["v2.0.2"]["model.pth"])
    download(folder)
    assert "model.pth" not in hub.files_asked()
    assert_whole(folder, hub)


def test_a_folder_of_another_version_is_left_alone(hub, folder):
    download(folder)
    with pytest.raises(UserError, match=r"holds coqui/XTTS-v2 v2\.0\.2, not coqui/XTTS-v2 main"):
        download_base("main", folder=folder, accept_license=True)
    assert_whole(folder, hub)


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"complete": true}', '{"complete": true, "files": {"../x": {"size": 1}}}']
)
def test_a_broken_lock_file_is_named(hub, folder, content):
    folder.mkdir(parents=True)
    (folder / LOCK_NAME).write_text(content)
    with pytest.raises(UserError, match=r"cannot be read(.*\n)*.*base\.lock\.json"):
        download(folder)
