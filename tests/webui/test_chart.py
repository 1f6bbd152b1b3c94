"""Charts: every value at its place, whatever its range, and in words for a screen reader."""

import re

import pytest

from webui.views.chart import Curve, bar_chart, line_chart, number, smoothed


def places(shown: str, kind: str) -> list[tuple[float, float]]:
    """Corners of the path of this class, in percent."""
    (path,) = re.findall(rf'class="curve {kind}" d="M([^"]*)"', shown)
    return [tuple(map(float, point.split(","))) for point in path.split("L")]


def test_a_curve_reaches_from_its_first_to_its_last_value():
    shown = line_chart("Loss", [Curve(name="training", points=[(0, 2.0), (5, 1.5), (10, 1.0)])], x_title="step")
    assert places(shown, "own") == [(0, 0), (50, 50), (100, 100)]
    assert 'aria-label="Loss: training 2 → 1 (1–2)"' in shown
    assert re.findall(r'label x"[^>]*>([^<]+)<', shown) == ["0", "2", "4", "6", "8", "10"]


@pytest.mark.parametrize("values", [[3.0], [3.0, 3.0], [0.0, 0.0], [1e-9, 2e-9], [-5.0, 1e6]], ids=str)
def test_any_range_stays_within_the_plot(values):
    points = list(enumerate(values))
    shown = line_chart("t", [Curve(name="a", points=points)], x_title="x")
    assert all(0 <= x <= 100 and 0 <= y <= 100 for x, y in places(shown, "own"))
    assert len(set(re.findall(r'label y"[^>]*>([^<]+)<', shown))) >= 2


def test_nothing_is_drawn_where_nothing_is():
    assert line_chart("t", [Curve(name="a", points=[])], x_title="x") == ""
    assert bar_chart("t", [], x_title="x", y_title="") == ""


def test_names_are_text_whatever_they_contain():
    best = ("<i>best", (0, 1))
    shown = line_chart("<b>", [Curve(name="<script>", points=[(0, 1)])], x_title="x", best=best)
    assert "<script>" not in shown and "<i>best" not in shown and "&lt;script&gt;" in shown


def test_bars_are_as_high_as_their_counts():
    shown = bar_chart("Lengths", [("0", 0), ("1", 10), ("2", 5)], x_title="s", y_title="clips")
    assert re.findall(r'height="([0-9.]+)"', shown) == ["0.00", "100.00", "50.00"]
    assert "1 s: 10 clips" in shown


def test_a_smoothed_curve_follows_the_mean_and_does_not_begin_at_zero():
    assert smoothed([(0, 1.0)] * 5) == []
    found = smoothed([(step, 4.0 + (-1) ** step) for step in range(50)])
    assert found[0] == (0, 5.0) and all(3.8 < value < 4.3 for _, value in found[20:])


def test_numbers_have_few_digits():
    assert [number(value) for value in (0.0, 0.25, 1.23456, 12345.6, -2.0)] == ["0", "0.25", "1.235", "12,346", "-2"]
