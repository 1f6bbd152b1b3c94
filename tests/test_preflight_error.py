"""Preflight's error: what its table says of records with known numbers."""

from benchmarks import preflight_error


def test_preflights_error_is_told_at_its_worst() -> None:
    right = {"predicted_s": 10.0, "run_s": 10.0, "predicted_bytes": 2e9, "run_bytes": 2e9}
    found = {"plain": right, "fast": right | {"predicted_s": 8.0, "predicted_bytes": 2.2e9}}
    lines = preflight_error.table(found)
    assert "-20%" in lines[2] and "+10%" in lines[2]
    assert "20% at most, 10% in the median" in lines[3] and "10% at most" in lines[4]
