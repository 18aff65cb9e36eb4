"""Charts: every line within its frame, its ends where they belong."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from abw.viz.drawing.chart import HEIGHT, MARGIN, TOP, WIDTH, Chart, Line, chart_svg, chart_text, ticks
from abw.viz.drawing.svg import document

POINTS = st.lists(
    st.tuples(st.integers(0, 10**4), st.floats(0, 10**6)), min_size=1, max_size=30, unique_by=lambda p: p[0]
).map(lambda points: tuple((float(x), y) for x, y in sorted(points)))
CHARTS = st.lists(POINTS, min_size=1, max_size=9).flatmap(
    lambda found: st.builds(
        Chart,
        st.just("<title>"),
        st.just("x"),
        st.just("y"),
        st.just(tuple(Line(f"line{i}", points) for i, points in enumerate(found))),
        st.booleans(),
    )
)


@given(CHARTS)
def test_lines_lie_within_the_frame(chart: Chart) -> None:
    drawn = chart_svg(chart)
    root = ElementTree.fromstring(document(drawn))
    lines = [p.get("d", "") for p in root.iter() if p.get("class") == "line"]
    assert len(lines) == len(chart.lines)
    for d, line in zip(lines, chart.lines, strict=True):
        places = [tuple(map(float, p.split())) for p in re.split("[ML]", d) if p]
        assert len(places) == len(line.points)
        for (x, y), (_, value) in zip(places, line.points, strict=True):
            assert MARGIN - 0.1 <= x <= MARGIN + WIDTH + 0.1
            assert TOP - 0.1 <= y <= TOP + HEIGHT + 0.1
            if value == 0:
                assert abs(y - TOP - HEIGHT) <= 0.1
        assert [x for x, _ in places] == sorted(x for x, _ in places)


@given(CHARTS)
def test_the_terminal_shows_the_largest_and_the_smallest(chart: Chart) -> None:
    lines = chart_text(chart).plain.splitlines()
    rows = [[ord(c) - 0x2800 for c in line if 0x2800 <= ord(c) < 0x2900] for line in lines]
    dots = [row for row in rows if row]
    low, high = chart.range
    single = chart.xs[0] == chart.xs[-1]
    assert len(dots) == ((2 if single else 10) if high > low else 1)
    assert len({len(row) for row in dots}) == 1
    assert any(d & 0xC0 for d in dots[-1])  # the lowest row of dots
    assert high == low or any(d & 0x09 for d in dots[0])
    assert all(line.name in chart_text(chart).plain for line in chart.lines)


@given(st.floats(1e-6, 1e9))
def test_ticks_span_what_is_asked(high: float) -> None:
    found = ticks(0.0, high)
    assert 4 <= len(found) <= 10
    assert found[0] <= 0
    assert found[-1] >= high
