"""Line and bar charts as HTML: they draw at once in any theme and width, and a screen reader gets their values.

Curves are SVG, stretched to the width there is; what must not be stretched, labels and dots, lies over it in percent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from webui.markup import Markup, join, tag

Point = tuple[float, float]

NUM_TICKS = 5
NUM_HINTS = 60
"""Points of a curve that tell their values under the mouse."""
SMOOTHING = 0.9
"""Share of the past in a smoothed curve."""
LEAST_SMOOTHED = 12
"""Shorter curves are not smoothed."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A line of a chart."""

    name: str
    points: Sequence[Point]
    color: str = "own"
    """Class of its color: own, good, warn, others."""
    has_dots: bool = False
    """Whether each point is marked."""
    is_faint: bool = False
    """For what only serves to compare."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A point that a chart names."""

    name: str
    point: Point


@dataclass(frozen=True, kw_only=True)
class _Scale:
    low: float
    high: float
    ticks: list[float]

    def percent(self, value: float) -> float:
        return 100 * (value - self.low) / (self.high - self.low)


def line_chart(
    title: str,
    curves: Sequence[Curve],
    *,
    x_title: str,
    y_title: str = "",
    marks: Sequence[Mark] = (),
    starts_at_zero: bool = False,
) -> Markup:
    """Curves over a common axis; nothing when none has a point.

    Args:
        title: what is shown.
        curves: the first ones are drawn first, and lie below.
        x_title, y_title: what the axes count, with the unit.
        marks: points to name, such as the best.
        starts_at_zero: whether the upward axis does.
    """
    curves = [curve for curve in curves if curve.points]
    if not curves:
        return join()
    xs, ys = ([point[axis] for curve in curves for point in curve.points] for axis in (0, 1))
    x, y = _scale(min(xs), max(xs)), _scale(0.0 if starts_at_zero else min(ys), max(ys), wide=True)
    drawn = [tag("path", class_=_classes("curve", curve), d=_path(curve.points, x, y)) for curve in curves]
    dots = [_dot(curve, point, x, y, y_title) for curve in curves if curve.has_dots for point in curve.points]
    hints = [hint for curve in curves if not curve.has_dots and not curve.is_faint for hint in _hints(curve, x, y)]
    named = [_marked(mark, x, y) for mark in marks]
    legend = [
        tag("span", tag("i", class_=_classes("key", curve)), curve.name) for curve in curves if len(curves) > 1
    ] + [tag("span", tag("i", class_="key best"), mark.name) for mark in marks]
    words = "; ".join(_spoken(curve) for curve in curves)
    return _figure(title, words, legend, _plot([*_grid(y), *drawn, *hints], [*dots, *named], x, y), x_title, y_title)


def bar_chart(title: str, counts: Sequence[tuple[str, int]], *, x_title: str, y_title: str) -> Markup:
    """A bar for each name, side by side; nothing without names."""
    if not counts:
        return join()
    y, width = _scale(0.0, float(max(count for _, count in counts)), wide=True), 100 / len(counts)
    bars = [
        tag(
            "rect",
            tag("title", f"{name} {x_title}: {count} {y_title}"),
            class_="column",
            x=f"{number * width + width * 0.1:.2f}",
            y=f"{100 - y.percent(count):.2f}",
            width=f"{width * 0.8:.2f}",
            height=f"{y.percent(count):.2f}",
        )
        for number, (name, count) in enumerate(counts)
    ]
    every = math.ceil(len(counts) / 16)
    names = [
        _label("x", name, left=(number + 0.5) * width) for number, (name, _) in enumerate(counts) if number % every == 0
    ]
    words = "; ".join(f"{name}: {count}" for name, count in counts)
    return _figure(title, words, [], _frame([*_grid(y), *bars], [*_y_labels(y), *names]), x_title, y_title)


def smoothed(points: Sequence[Point]) -> list[Point]:
    """The running mean of a curve, each value weighted by how near it is; nothing for a short one.

    The first values are not pulled towards zero (as Adam's moments are corrected, Kingma and Ba 2015).
    """
    if len(points) < LEAST_SMOOTHED:
        return []
    found, mean, weight = [], 0.0, 0.0
    for x, y in points:
        mean, weight = SMOOTHING * mean + (1 - SMOOTHING) * y, SMOOTHING * weight + 1 - SMOOTHING
        found.append((x, mean / weight))
    return found


def number(value: float) -> str:
    """A value in up to four digits."""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"


def _figure(title: str, words: str, legend: list[Markup], plot: Markup, x_title: str, y_title: str) -> Markup:
    head = tag("figcaption", tag("b", title), *legend)
    axes = tag("div", tag("span", y_title), tag("span", x_title), class_="axes")
    return tag("figure", head, tag("div", plot, role="img", aria_label=f"{title}: {words}"), axes, class_="chart")


def _plot(shapes: list[Markup], over: list[Markup], x: _Scale, y: _Scale) -> Markup:
    labels = [_label("x", number(tick), left=x.percent(tick)) for tick in x.ticks]
    return _frame(shapes, [*_y_labels(y), *labels, *over])


def _frame(shapes: list[Markup], over: list[Markup]) -> Markup:
    svg = tag("svg", *shapes, viewBox="0 0 100 100", preserveAspectRatio="none", aria_hidden="true")
    return tag("div", svg, *over, class_="plot")


def _grid(y: _Scale) -> list[Markup]:
    heights = [f"{100 - y.percent(tick):.2f}" for tick in y.ticks]
    return [tag("line", class_="grid", x1=0, x2=100, y1=height, y2=height) for height in heights]


def _y_labels(y: _Scale) -> list[Markup]:
    return [tag("span", number(tick), class_="label y", style=f"bottom:{y.percent(tick):.2f}%") for tick in y.ticks]


def _label(axis: str, words: str, *, left: float) -> Markup:
    return tag("span", words, class_=f"label {axis}", style=f"left:{left:.2f}%")


def _path(points: Sequence[Point], x: _Scale, y: _Scale) -> str:
    return "M" + "L".join(f"{x.percent(at):.2f},{100 - y.percent(value):.2f}" for at, value in points)


def _dot(curve: Curve, point: Point, x: _Scale, y: _Scale, unit: str) -> Markup:
    place = f"left:{x.percent(point[0]):.2f}%;bottom:{y.percent(point[1]):.2f}%"
    return tag("span", class_=_classes("dot", curve), style=place, title=_hint(curve, point))


def _marked(mark: Mark, x: _Scale, y: _Scale) -> Markup:
    place = f"left:{x.percent(mark.point[0]):.2f}%;bottom:{y.percent(mark.point[1]):.2f}%"
    return tag("span", class_="dot best", style=place, title=f"{mark.name}: {number(mark.point[1])}")


def _hints(curve: Curve, x: _Scale, y: _Scale) -> list[Markup]:
    """Strips that tell a value wherever the mouse is."""
    points = list(curve.points[:: max(1, len(curve.points) // NUM_HINTS)])
    middles = [0.0, *((x.percent(a[0]) + x.percent(b[0])) / 2 for a, b in pairwise(points)), 100.0]
    return [
        tag(
            "rect",
            tag("title", _hint(curve, point)),
            class_="hint",
            x=f"{left:.2f}",
            y=0,
            width=f"{max(0.0, right - left):.2f}",
            height=100,
        )
        for point, (left, right) in zip(points, pairwise(middles), strict=True)
    ]


def _hint(curve: Curve, point: Point) -> str:
    return f"{curve.name} {number(point[0])}: {number(point[1])}"


def _spoken(curve: Curve) -> str:
    values = [value for _, value in curve.points]
    return f"{curve.name} {number(values[0])} → {number(values[-1])} ({number(min(values))}–{number(max(values))})"


def _classes(kind: str, curve: Curve) -> str:
    return f"{kind} {curve.color}{' faint' if curve.is_faint else ''}"


def _scale(low: float, high: float, *, wide: bool = False) -> _Scale:
    """An axis with round numbers; `wide` ends at the next of them."""
    if high <= low:
        low, high = (low - 0.5, low + 0.5) if not wide or low else (0.0, 1.0)
    rough = (high - low) / NUM_TICKS
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    if wide:
        low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    first = math.ceil(low / step - 1e-9)
    ticks = [round(count * step, 12) for count in range(first, math.floor(high / step + 1e-9) + 1)]
    return _Scale(low=low, high=high, ticks=ticks)
