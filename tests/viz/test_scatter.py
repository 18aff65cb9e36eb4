"""Marks over two axes."""

from __future__ import annotations

from xml.etree import ElementTree

from abw.viz.drawing.scatter import Mark, scatter_svg
from abw.viz.drawing.svg import document


def test_every_mark_lies_where_it_belongs_and_is_named() -> None:
    marks = [Mark("a", 10.0, 0.0), Mark("b", 1000.0, 8.0), Mark("c", 100.0, 4.0)]
    drawn = ElementTree.fromstring(document(scatter_svg("t", "ns", "%", marks)))
    circles = [e for e in drawn.iter() if e.tag.endswith("circle") and e.get("r") == "5"]
    places = sorted((float(c.get("cx", 0)), float(c.get("cy", 0))) for c in circles)
    (x0, y0), (x1, y1), (x2, y2) = places
    assert abs((x1 - x0) - (x2 - x1)) < 1  # powers of ten at equal distances
    assert y0 > y1 > y2  # more is higher
    said = {e.text for e in drawn.iter() if e.text}
    assert {"a", "b", "c", "ns", "%"} <= said
