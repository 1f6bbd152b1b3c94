"""Line and bar charts as HTML: they draw at once in any theme and width, and a screen reader gets their values.

Curves are SVG, stretched to the width there is; what must not be stretched, labels and dots, lies over it in percent.
"""

import math
from collections.abc import Callable, Sequence
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


def _axis(
    low: float, high: float, *, ends_at_ticks: bool = False
) -> tuple[Callable[[float], float], list[tuple[float, float]]]:
    """Where a value stands between the two ends of an axis, in percent, and its round numbers with their places."""
    if high <= low:
        low, high = (low - 0.5, low + 0.5) if not ends_at_ticks or low else (0.0, 1.0)
    rough = (high - low) / NUM_TICKS
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    if ends_at_ticks:
        low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)

    def percent(value: float) -> float:
        return 100 * (value - low) / (high - low)

    ticks = (round(count * step, 12) for count in range(first, last + 1))
    return percent, [(tick, percent(tick)) for tick in ticks]


def line_chart(
    title: str,
    curves: Sequence[Curve],
    *,
    x_title: str,
    y_title: str = "",
    best: tuple[str, Point] | None = None,
    starts_at_zero: bool = False,
) -> Markup:
    """Curves over a common axis; nothing when none has a point.

    Args:
        title: what is shown.
        curves: the first ones are drawn first, and lie below.
        x_title, y_title: what the axes count, with the unit.
        best: a point to name.
        starts_at_zero: whether the upward axis does.
    """
    curves = [curve for curve in curves if curve.points]
    if not curves:
        return join()
    xs, ys = zip(*(point for curve in curves for point in curve.points), strict=True)
    x, x_ticks = _axis(min(xs), max(xs))
    y, y_ticks = _axis(0.0 if starts_at_zero else min(ys), max(ys), ends_at_ticks=True)
    paths, strips, legend = [], [], []
    over = [_label(number(tick), left) for tick, left in x_ticks]
    for curve in curves:
        kind = f"{curve.color} faint" if curve.is_faint else curve.color
        places = [(x(at), y(value)) for at, value in curve.points]
        hints = [f"{curve.name} {number(at)}: {number(value)}" for at, value in curve.points]
        line = "L".join(f"{left:.2f},{100 - height:.2f}" for left, height in places)
        paths.append(tag("path", class_=f"curve {kind}", d=f"M{line}"))
        if curve.has_dots:
            over += [_dot(kind, *place, hint) for place, hint in zip(places, hints, strict=True)]
        elif not curve.is_faint:
            strips += _strips(places, hints)
        if len(curves) > 1:
            legend.append(tag("span", tag("i", class_=f"key {kind}"), curve.name))
    if best:
        name, (at, value) = best
        over.append(_dot("best", x(at), y(value), f"{name}: {number(value)}"))
        legend.append(tag("span", tag("i", class_="key best"), name))
    words = "; ".join(_spoken(curve) for curve in curves)
    return _figure(title, words, legend, y_ticks, [*paths, *strips], over, x_title, y_title)


def bar_chart(title: str, counts: Sequence[tuple[str, int]], *, x_title: str, y_title: str) -> Markup:
    """A bar for each name, side by side; nothing without names."""
    if not counts:
        return join()
    y, ticks = _axis(0.0, float(max(count for _, count in counts)), ends_at_ticks=True)
    width = 100 / len(counts)
    bars = [
        _box("column", (at + 0.1) * width, 0.8 * width, y(count), f"{name} {x_title}: {count} {y_title}")
        for at, (name, count) in enumerate(counts)
    ]
    every = math.ceil(len(counts) / 16)
    names = [_label(counts[at][0], (at + 0.5) * width) for at in range(0, len(counts), every)]
    words = "; ".join(f"{name}: {count}" for name, count in counts)
    return _figure(title, words, [], ticks, bars, names, x_title, y_title)


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


def _figure(
    title: str,
    words: str,
    legend: list[Markup],
    ticks: list[tuple[float, float]],
    shapes: list[Markup],
    over: list[Markup],
    x_title: str,
    y_title: str,
) -> Markup:
    """Shapes of an SVG that is stretched, over a grid, and what lies over them and is not."""
    grid = [
        tag("line", class_="grid", x1=0, x2=100, y1=f"{100 - height:.2f}", y2=f"{100 - height:.2f}")
        for _, height in ticks
    ]
    labels = [tag("span", number(tick), class_="label y", style=f"bottom:{height:.2f}%") for tick, height in ticks]
    svg = tag("svg", *grid, *shapes, viewBox="0 0 100 100", preserveAspectRatio="none", aria_hidden="true")
    plot = tag("div", tag("div", svg, *labels, *over, class_="plot"), role="img", aria_label=f"{title}: {words}")
    axes = tag("div", tag("span", y_title), tag("span", x_title), class_="axes")
    return tag("figure", tag("figcaption", tag("b", title), *legend), plot, axes, class_="chart")


def _label(words: str, left: float) -> Markup:
    return tag("span", words, class_="label x", style=f"left:{left:.2f}%")


def _dot(kind: str, left: float, height: float, hint: str) -> Markup:
    return tag("span", class_=f"dot {kind}", style=f"left:{left:.2f}%;bottom:{height:.2f}%", title=hint)


def _box(kind: str, left: float, width: float, height: float, hint: str) -> Markup:
    place = {"x": f"{left:.2f}", "y": f"{100 - height:.2f}", "width": f"{width:.2f}", "height": f"{height:.2f}"}
    return tag("rect", tag("title", hint), class_=kind, **place)


def _strips(places: list[tuple[float, float]], hints: list[str]) -> list[Markup]:
    """Strips that tell a value wherever the mouse is."""
    every = max(1, len(places) // NUM_HINTS)
    lefts = [left for left, _ in places[::every]]
    edges = [0.0, *((one + other) / 2 for one, other in pairwise(lefts)), 100.0]
    return [
        _box("hint", left, max(0.0, right - left), 100, hint)
        for hint, (left, right) in zip(hints[::every], pairwise(edges), strict=True)
    ]


def _spoken(curve: Curve) -> str:
    values = [value for _, value in curve.points]
    return f"{curve.name} {number(values[0])} → {number(values[-1])} ({number(min(values))}–{number(max(values))})"
