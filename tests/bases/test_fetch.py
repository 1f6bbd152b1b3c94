"""A base that a command names is downloaded where its license is agreed to, and only there."""

from collections.abc import Iterator

import pytest

from tests.model.hub_server import HubServer, base_files, only_hub
from utils.bases.download import fetch_base
from utils.errors import UserError


@pytest.fixture
def hub(monkeypatch, tmp_path) -> Iterator[HubServer]:
    with only_hub(monkeypatch, tmp_path / "bases", {"v2.0.2": base_files(2), "v2.0.3": base_files(3)}) as server:
        yield server


def test_without_an_agreement_nothing_is_requested(hub):
    with pytest.raises(UserError, match="license of its weights has not been accepted") as caught:
        fetch_base("v2.0.2")
    assert "--accept-license" in caught.value.fix and "COQUI_TOS_AGREED=1" in caught.value.fix
    assert hub.requests == []


@pytest.mark.parametrize("by", ["flag", "environment"])
def test_an_agreement_downloads_with_progress_and_holds_for_the_next(hub, monkeypatch, tmp_path, by):
    seen: list[tuple[str, int, int | None]] = []
    if by == "environment":
        monkeypatch.setenv("COQUI_TOS_AGREED", "1")
    fetch_base("v2.0.2", accept_license=by == "flag", progress=lambda *now: seen.append(now))
    assert (tmp_path / "bases" / "v2.0.2" / "model.pth").is_file()
    assert seen[-1][0] == "downloading v2.0.2 (bytes)" and seen[-1][1] == seen[-1][2]
    hub.requests.clear()
    fetch_base("v2.0.2")
    assert hub.requests == [], "a base that is here costs no request"
    monkeypatch.delenv("COQUI_TOS_AGREED", raising=False)
    fetch_base("v2.0.3")
    assert (tmp_path / "bases" / "v2.0.3" / "model.pth").is_file()


def test_bases_that_are_not_downloaded_by_name_are_left_alone(hub, tmp_path):
    for name in ("starter", "tiny", str(tmp_path)):
        fetch_base(name)
    assert hub.requests == []
