"""Small charts as SVG: colours come from the page's style, so that they suit a light and a dark page.

All are drawn at the width of a phone, where their type has the size of the text; there are no pictures to shrink.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.report.markup import Html, element, text

_WIDTH, _HEIGHT = 360.0, 220.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 20.0, 12.0, 38.0
_TRACK = 36.0
"""Height of a row of the dot plot."""
COLOURS = 6
"""Colours of the style, from `colour-0`."""


@dataclass(frozen=True)
class Line:
    """Points joined by a line."""

    points: Sequence[tuple[float, float]]
    colour: int
    dashed: bool = False


@dataclass(frozen=True)
class Mark:
    """A place on the x axis that is pointed out, and the point there."""

    x: float
    y: float
    label: str


@dataclass(frozen=True)
class Track:
    """A row of a dot plot."""

    name: str
    values: Sequence[float]
    mean: float
    deviation: float


@dataclass(frozen=True)
class Key:
    """An entry of a legend."""

    name: str
    colour: int | None
    """None for what all colours have in common."""
    dashed: bool = False


@dataclass(frozen=True)
class _Scale:
    """From values to places."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return round(self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start), 1)


def line_chart(
    title: str,
    lines: Sequence[Line],
    x_label: str,
    y_label: str,
    description: str,
    mark: Mark | None = None,
    y_range: tuple[float, float] | None = None,
) -> Html:
    """Return lines over an axis.

    Args:
        title: above the chart.
        lines: at least one, of at least one point.
        x_label: of the axis below.
        y_label: of the axis at the left.
        description: what the chart shows, for those who cannot see it.
        mark: a point to be pointed out.
        y_range: the values that must have room; those of the lines if it is not given.
    """
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    x = _Scale(*_widened(min(xs), max(xs), 0.0), _LEFT, _WIDTH - _RIGHT)
    y = _Scale(*_widened(*(y_range or (min(ys), max(ys))), 0.06), _HEIGHT - _BOTTOM, _TOP)
    x_ticks, y_ticks = _ticks(x.low, x.high), _ticks(y.low, y.high)
    drawn = [_grid_line(_LEFT, y(tick), _WIDTH - _RIGHT, y(tick)) for tick in y_ticks]
    drawn += [_label(_LEFT - 6, y(tick) + 4, _number(tick, y_ticks), "end") for tick in y_ticks]
    drawn += [_label(x(tick), _HEIGHT - _BOTTOM + 15, _number(tick, x_ticks), "middle") for tick in x_ticks]
    drawn.append(_label((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 5, x_label, "middle", "axis"))
    if mark is not None:
        drawn.append(_grid_line(x(mark.x), _TOP, x(mark.x), _HEIGHT - _BOTTOM, "mark"))
    for line in lines:
        style = f"line colour-{line.colour % COLOURS}{' dashed' if line.dashed else ''}"
        places = " ".join(f"{x(a)},{y(b)}" for a, b in line.points)
        drawn.append(element("polyline", points=places, class_=style))
        drawn += [_dot(x(a), y(b), line.colour, f"{_plain(a)}: {b:.4g}", 2.2) for a, b in line.points]
    if mark is not None:
        drawn.append(element("circle", cx=x(mark.x), cy=y(mark.y), r=5.5, class_="ring"))
        after = x(mark.x) < (_LEFT + _WIDTH - _RIGHT) / 2
        place = x(mark.x) + (6 if after else -6)
        drawn.append(_label(place, _TOP + 9, mark.label, "start" if after else "end", "axis"))
    return _figure(title, y_label, drawn, _HEIGHT, description)


def dot_plot(title: str, tracks: Sequence[Track], unit: str, description: str) -> Html:
    """Return a row for each track: each value a point, the mean a bar with the standard deviation to both sides.

    A line goes through the mean of the first track, which the others are compared with.
    """
    ends = [end for track in tracks for end in (*track.values, *_error_bar(track))]
    x = _Scale(*_widened(min(ends), max(ends), 0.05), 10, _WIDTH - 10)
    height = _TRACK * len(tracks) + 28
    bottom = height - 22
    ticks = _ticks(x.low, x.high)
    drawn = [_grid_line(x(tick), 0, x(tick), bottom) for tick in ticks]
    drawn += [_label(x(tick), height - 6, _number(tick, ticks), "middle") for tick in ticks]
    drawn.append(_grid_line(x(tracks[0].mean), 0, x(tracks[0].mean), bottom, "mark"))
    for number, track in enumerate(tracks):
        centre = number * _TRACK + 24
        colour = int(number > 0)
        drawn.append(_label(10, centre - 10, track.name, "start", "name"))
        if len(track.values) > 1:
            left, right = map(x, _error_bar(track))
            drawn.append(element("path", d=f"M{left},{centre}H{right}", class_=f"line colour-{colour}"))
            caps = f"M{left},{centre - 4}v8M{right},{centre - 4}v8"
            drawn.append(element("path", d=caps, class_=f"line colour-{colour}"))
        drawn.append(element("path", d=f"M{x(track.mean)},{centre - 7}v14", class_=f"line mean colour-{colour}"))
        drawn += [_dot(x(value), centre, colour, f"{value:.2f}", 3.2) for value in track.values]
    return _figure(title, unit, drawn, height, description)


def legend(keys: Sequence[Key]) -> Html:
    """Return what the lines of the charts that follow stand for."""
    entries = []
    for key in keys:
        colour = "" if key.colour is None else f" colour-{key.colour % COLOURS}"
        style = f"line{colour}{' dashed' if key.dashed else ''}"
        sample = element("path", d="M1,6H27", class_=style)
        entries.append(
            element("li", element("svg", sample, viewBox="0 0 28 12", width="28", aria_hidden="true"), f" {key.name}")
        )
    return element("ul", *entries, class_="legend")


def charts(figures: Sequence[Html]) -> Html:
    """Return charts beside each other, as many as there is room for."""
    return element("div", *figures, class_="charts")


def _figure(title: str, unit: str, drawn: Sequence[Html], height: float, description: str) -> Html:
    picture = element(
        "svg", *drawn, viewBox=f"0 0 {_WIDTH:.0f} {height:.0f}", role="img", aria_label=description, class_="chart"
    )
    return element("figure", element("figcaption", element("b", title), f" {unit}"), picture)


def _error_bar(track: Track) -> tuple[float, float]:
    return track.mean - track.deviation, track.mean + track.deviation


def _widened(low: float, high: float, share: float) -> tuple[float, float]:
    """Return a range with some room at both ends, and some where it has none."""
    if high - low < 1e-9:
        return low - 0.5, high + 0.5
    return low - share * (high - low), high + share * (high - low)


def _ticks(low: float, high: float) -> list[float]:
    """Return some five round numbers in a range."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * (1 - 1e-9))
    return [number * step for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _number(value: float, ticks: Sequence[float]) -> str:
    """Return a tick's number with as many digits as its neighbours need."""
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 1.0
    digits = next(digits for digits in range(8) if abs(round(step, digits) - step) < step * 1e-6 or digits == 7)
    return f"{value:,.{digits}f}"


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:.4g}"


def _grid_line(x1: float, y1: float, x2: float, y2: float, style: str = "grid") -> Html:
    return element("path", d=f"M{x1},{y1}L{x2},{y2}", class_=style)


def _label(x: float, y: float, content: str, anchor: str, style: str = "tick") -> Html:
    return element("text", text(content), x=round(x, 1), y=round(y, 1), text_anchor=anchor, class_=style)


def _dot(x: float, y: float, colour: int, hint: str, radius: float) -> Html:
    """Return a point that tells its value when it is pointed at."""
    style = f"dot colour-{colour % COLOURS}"
    return element("circle", element("title", hint), cx=x, cy=y, r=radius, class_=style)
