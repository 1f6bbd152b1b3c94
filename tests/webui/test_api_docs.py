"""docs/api.md names every public endpoint and its parameters, and no other."""

import re

import pytest

from tests.webui.app import ROOT

SETTINGS = (
    "/train_start",
    "/train_recommend",
    "/data_prepare",
    "/train_command",
    "/train_settings",
    "/train_queue",
)
"""These also take the settings of a command, which the docs refer to instead of repeating them."""


WORDS = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def endpoints(laid_out):
    return laid_out.get_api_info()["named_endpoints"]


def test_the_docs_name_every_endpoint_and_no_other(endpoints):
    named = set(re.findall(r"`(/[a-z_]+)`", WORDS))
    assert named == set(endpoints)


def test_the_docs_name_the_parameters(endpoints):
    for name, info in endpoints.items():
        if name not in SETTINGS:
            missing = [p["parameter_name"] for p in info["parameters"] if f"`{p['parameter_name']}`" not in WORDS]
            assert missing == [], name


def test_every_endpoint_says_what_it_does(endpoints):
    assert [name for name, info in endpoints.items() if not info.get("description")] == []


def test_the_docs_name_no_parameter_that_an_endpoint_lacks(endpoints):
    rows = [line.split("|") for line in WORDS.splitlines() if line.startswith("| `/")]
    assert len(rows) > 30
    for _, names, parameters, *_ in rows:
        named = set(re.findall(r"`([a-z_]+)`", parameters))
        for name in re.findall(r"`(/[a-z_]+)`", names):
            assert named <= {p["parameter_name"] for p in endpoints[name]["parameters"]}, name
