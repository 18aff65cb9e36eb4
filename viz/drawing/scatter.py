"""Marks over two axes: what something is worth against what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from abw.viz.drawing.chart import HEIGHT, MARGIN, TOP, WIDTH, ticks
from abw.viz.drawing.letters import wide
from abw.viz.drawing.palette import colour
from abw.viz.drawing.svg import Svg, tag, text


@dataclass(frozen=True, slots=True)
class Mark:
    """A point under a name; `x` is above 0."""

    name: str
    x: float
    y: float


def scatter_svg(title: str, x: str, y: str, marks: Sequence[Mark]) -> Svg:
    """The marks, each with its name beside it; x by powers of ten."""
    first = floor(min((log10(m.x) for m in marks), default=0.0))
    last = max(ceil(max((log10(m.x) for m in marks), default=1.0)), first + 1)
    steps = ticks(0.0, max(max((m.y for m in marks), default=1.0), 1e-9))
    high, bottom = steps[-1], TOP + HEIGHT
    parts = [text(MARGIN, 20, title, "big"), text(MARGIN, 38, y, "soft")]
    for value in steps:
        at = bottom - value / high * HEIGHT
        parts.append(tag("line", x1=MARGIN, y1=at, x2=MARGIN + WIDTH, y2=at, class_="axis", opacity="0.5"))
        parts.append(text(MARGIN - 6, at + 4, f"{value:g}", "end soft small"))
    for power in range(first, last + 1):
        at = MARGIN + (power - first) / (last - first) * WIDTH
        parts.append(text(at, bottom + 16, f"{10.0**power:g}", "mid soft small"))
    parts.append(text(MARGIN + WIDTH / 2, bottom + 34, x, "mid soft"))
    labels: list[tuple[float, float]] = []  # of the names: lower left corners
    for i, mark in enumerate(sorted(marks, key=lambda m: m.y)):
        across = MARGIN + (log10(mark.x) - first) / (last - first) * WIDTH
        down = bottom - mark.y / high * HEIGHT
        parts.append(tag("circle", cx=across, cy=down, r=5, fill=colour(i)))
        at = down + 4
        while any(abs(at - y) < 13 and abs(across - x) < 120 for x, y in labels):
            at -= 13
        labels.append((across, at))
        parts.append(text(across + 9, at, mark.name))
    longest = max((wide(mark.name) for mark in marks), default=0.0)
    said = ", ".join(mark.name for mark in marks)
    return Svg(MARGIN + WIDTH + longest + 24, bottom + 44, "".join(parts), f"{title}: {said}")
