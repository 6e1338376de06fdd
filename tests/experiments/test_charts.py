"""The charts of the report: what is drawn stands where the axes say."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest

from experiments.report.charts import Line, Mark, Track, dot_plot, line_chart

POINTS = [(1.0, 50.0), (2.0, 52.5), (3.0, 51.25), (4.0, 57.0)]


def drawing_of(html: str) -> ElementTree.Element:
    found = ElementTree.fromstring(html).find("svg")
    assert found is not None
    return found


def axis(drawing: ElementTree.Element, anchor: str, along: str) -> Callable[[float], float]:
    """Return the value of a place, from the numbers that stand at an axis."""
    ticks = [one for one in drawing.iter("text") if (one.get("class"), one.get("text-anchor")) == ("tick", anchor)]
    # The type of the numbers at the left is centred on their lines.
    shift = -4 if along == "y" else 0
    places = [float(one.attrib[along]) + shift for one in ticks]
    values = [float((one.text or "").replace(",", "")) for one in ticks]
    slope, start = np.polyfit(places, values, 1)
    assert np.allclose(np.polyval([slope, start], places), values, atol=abs(slope))
    return lambda place: float(slope * place + start)


def points(drawing: ElementTree.Element) -> list[tuple[float, float]]:
    dots = (one for one in drawing.iter("circle") if "dot" in one.attrib["class"])
    return [(float(one.attrib["cx"]), float(one.attrib["cy"])) for one in dots]


def test_points_of_a_line_stand_at_their_values() -> None:
    drawing = drawing_of(line_chart("row", [Line(POINTS, 0)], "decoding", "BLEU", "", Mark(4.0, 57.0, "best")))
    x, y = axis(drawing, "middle", "x"), axis(drawing, "end", "y")
    places = points(drawing)
    assert [(x(a), y(b)) for a, b in places] == [pytest.approx(point, abs=0.05) for point in POINTS]
    [line] = drawing.iter("polyline")
    assert [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()] == places
    [ring] = (one for one in drawing.iter("circle") if one.get("class") == "ring")
    assert (float(ring.attrib["cx"]), float(ring.attrib["cy"])) == places[-1]


def test_what_is_dashed_is_drawn_dashed() -> None:
    lines = [Line(POINTS, 2), Line(POINTS, 2, dashed=True)]
    drawn = drawing_of(line_chart("row", lines, "decoding", "BLEU", "")).iter("polyline")
    assert [line.get("class") for line in drawn] == ["line colour-2", "line colour-2 dashed"]


def test_a_row_s_error_bar_is_its_standard_deviation_to_both_sides() -> None:
    tracks = [Track("baseline", [57.0, 58.0], 57.5, 0.5), Track("+RNN", [60.0, 61.0, 63.0], 61.25, 1.5)]
    drawing = drawing_of(dot_plot("BLEU", tracks, "", ""))
    x = axis(drawing, "middle", "x")
    bars = [re.match(r"M([\d.]+),([\d.]+)H([\d.]+)$", one.attrib["d"]) for one in drawing.iter("path")]
    means = [one.attrib["d"] for one in drawing.iter("path") if "mean" in one.attrib["class"]]
    heights = []
    for track, bar, mean in zip(tracks, filter(None, bars), means, strict=True):
        left, height, right = map(float, bar.groups())
        assert (x(left), x(right)) == pytest.approx(
            (track.mean - track.deviation, track.mean + track.deviation), abs=0.05
        )
        assert x(float(mean[1:].split(",")[0])) == pytest.approx(track.mean, abs=0.05)
        assert [x(a) for a, b in points(drawing) if b == height] == pytest.approx(list(track.values), abs=0.05)
        heights.append(height)
    assert heights == sorted(heights)
    names = [one.text for one in drawing.iter("text") if one.get("class") == "name"]
    assert names == [track.name for track in tracks]
