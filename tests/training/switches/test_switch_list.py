"""One list of switches, which settings, engine and documents follow."""

import dataclasses
import re

import pytest

from tests.documents import ROOT
from utils.config import TrainConfig
from utils.switches import SWITCHES
from utils.training.switches.optimizer import BEHAVIORS

ASKED = [switch for switch in SWITCHES if switch.field]
ROW = re.compile(r"^\| ([^|`]+): `--([a-z-]+)", re.MULTILINE)


def test_every_switch_has_a_behavior() -> None:
    assert [switch.name for switch in SWITCHES] == list(BEHAVIORS)


@pytest.mark.parametrize("switch", ASKED, ids=lambda switch: switch.name)
def test_a_switch_knows_its_setting(switch) -> None:
    config = TrainConfig(project="a", device="cpu", **{switch.field: switch.off})
    assert not switch.is_on(config) and switch.problem(config) is None
    assert switch.field in {field.name for field in dataclasses.fields(TrainConfig)}
    if switch.off is not None:
        assert switch.is_on(dataclasses.replace(config, **{switch.field: switch.on}).validate(where="test"))


def test_the_table_of_the_documents_names_each_switch_as_the_page_does_in_the_same_order() -> None:
    rows = ROW.findall((ROOT / "docs/training-optimizations.md").read_text(encoding="utf-8"))
    fields = {switch.field.replace("_", "-") for switch in ASKED}
    named = dict.fromkeys((label, flag) for label, flag in rows if flag in fields)
    assert list(named) == [(switch.label, switch.field.replace("_", "-")) for switch in ASKED]
