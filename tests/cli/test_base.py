"""python -m utils.cli.base: the license is asked for in peace, and a file in the way is named."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import rich
import rich.progress

from tests.model.hub_server import HubServer, base_files, only_hub
from utils.bases.find import find_base
from utils.cli.base import main
from utils.errors import UserError


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    with only_hub(monkeypatch, tmp_path / "bases", {"v2.0.2": base_files(2)}) as server:
        yield server


@pytest.mark.parametrize("answer", ["y", "n"])
def test_the_licence_is_asked_for_before_the_bar_opens(hub, monkeypatch, tmp_path, answer):
    seen: list[str] = []

    def ask(prompt: str) -> str:
        seen.append(prompt)
        return answer

    monkeypatch.setattr("builtins.input", ask)
    monkeypatch.setattr(sys, "stdin", _Terminal())
    monkeypatch.setattr(rich.progress.Progress, "start", lambda bar: seen.append("bar"))
    if answer == "y":
        main(["download", "v2.0.2"])
        assert seen == ["Do you accept this license? [y/N] ", "bar"]
        assert (tmp_path / "bases" / "v2.0.2" / "model.pth").is_file()
        return
    with pytest.raises(SystemExit, match="2"):
        main(["download", "v2.0.2"])
    assert seen == ["Do you accept this license? [y/N] "]


@pytest.mark.parametrize("below", ["", "x", "x/y"])
def test_a_file_where_the_tiny_base_should_go_is_named(tmp_path, capsys, below):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SystemExit, match="2"):
        main(["make-tiny", "--out", str(tmp_path / "file" / below)])
    assert f"where: {tmp_path / 'file'}" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


def test_every_base_is_listed_the_starter_first(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XTTS_STUDIO_BASES", str(tmp_path))
    main(["list"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["starter", "tiny", "v2.0.2", "v2.0.3", "main"]
    assert "ships with the project" in lines[0]


def test_a_base_that_is_not_there_is_answered_with_all_there_are():
    with pytest.raises(UserError, match="use one of starter, tiny,"):
        find_base("nothing")
