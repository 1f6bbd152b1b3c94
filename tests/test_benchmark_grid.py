"""The grid of cases and preflight's error: what their tables say of records with known numbers."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import grid, preflight_error
from benchmarks.grid import Settings, earlier, engines, name_of, table


def cell(seconds: float, **other: Any) -> dict[str, Any]:
    return {"seconds": seconds, "cpu_s": 2 * seconds, "audio_s": 10.0, "step_s": seconds / 2, "fault": ""} | other


def test_the_slowest_case_is_named_beside_the_best() -> None:
    cells = {
        name_of(3, 1, 1, "stock fp32"): cell(4.0),
        name_of(3, 1, 1, "ours"): cell(5.0, cpu_s=4.0),
        name_of(8, 4, 2, "stock fp32"): cell(9.0),
        name_of(8, 4, 2, "stock bf16"): cell(6.0),
        name_of(8, 4, 2, "ours"): cell(3.0),
    }
    lines = table(cells)
    assert "0.80 / 2.00" in lines[1] and "3.00 / 3.00" in lines[2] and "2.00 / 2.00" in lines[2]
    assert lines[-2] == "to stock in fp32: 0.80 at the least (3 s x 1, 1 thread), 3.00 at most (8 s x 4, 2 threads)"


def test_a_case_that_does_not_fit_says_so() -> None:
    fault = {"fault": "out of memory"}
    cells = {name_of(11, 8, 2, "stock fp32"): cell(1.0, **fault), name_of(11, 8, 2, "ours"): cell(2.0)}
    assert "out of memor" in table(cells)[1]
    assert "at the least" not in "".join(table(cells))


def test_a_record_goes_on_where_it_stopped_and_only_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "_machine", lambda settings: "this one")
    out, settings = tmp_path / "grid.json", Settings(size="small", device="cpu")
    assert earlier(out, settings) == {}
    record = {"machine": "this one", "settings": {"size": "small"}, "cells": {"a": cell(1.0)}}
    out.write_text(json.dumps(record), encoding="utf-8")
    assert earlier(out, settings) == record["cells"]
    out.write_text(json.dumps(record | {"machine": "another one"}), encoding="utf-8")
    with pytest.raises(SystemExit, match="another machine"):
        earlier(out, settings)


def test_stock_computes_in_bf16_only_where_there_are_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(grid.cpu()), "has_bf16", False)
    assert engines("cpu") == ["stock fp32", "ours"]
    assert engines("cuda") == ["stock fp32", "stock bf16", "ours"]


def test_preflights_error_is_told_at_its_worst() -> None:
    right = {"predicted_s": 10.0, "run_s": 10.0, "predicted_bytes": 2e9, "run_bytes": 2e9}
    found = {"plain": right, "fast": right | {"predicted_s": 8.0, "predicted_bytes": 2.2e9}}
    lines = preflight_error.table(found)
    assert "-20%" in lines[2] and "+10%" in lines[2]
    assert "20% at most, 10% in the median" in lines[3] and "10% at most" in lines[4]
