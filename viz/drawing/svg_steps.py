"""Drawings over time: schedules as lanes side by side (the paper's Fig. 1 and 8), and frontiers."""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p

import numpy as np

from abw.viz.data.pictures import BatchesPicture, FrontierPicture, Lane
from abw.viz.drawing.letters import wide
from abw.viz.drawing.palette import colour, marks
from abw.viz.drawing.svg import (
    Svg,
    filled,
    heading,
    heading_width,
    legend,
    rect,
    require_small,
    tag,
    text,
    title,
)

HEIGHT, MARGIN, TOP = 72.0, 16.0, 30.0
# Up to so many nodes a batch is drawn node by node; above, as a bar on a logarithmic scale.
CELLS = 12


def _column(batches: int) -> float:
    """The width of a batch: what fits a page, between hairlines and squares."""
    return min(22.0, max(1.5, 1000 / max(1, batches)))


def batches_svg(picture: BatchesPicture) -> Svg:
    """Schedules as lanes over time, width upwards; what is not free has a mark below."""
    require_small(sum(len(lane.type) for lane in picture.lanes), "batches")
    letters = marks(picture.types)
    column = _column(max((len(lane.type) for lane in picture.lanes), default=1))
    bound = int(picture.lower_bound.sum())
    highest = max((int(lane.width.max(initial=1)) for lane in picture.lanes), default=1)
    head, end = legend(picture.types, letters, MARGIN, 20)
    parts, y, right = [head], TOP, end
    for lane in picture.lanes:
        body, width = _lane(lane, picture.types, letters, column, highest, bound)
        parts.append(tag("g", body, transform=f"translate({MARGIN:g} {y:g})"))
        right = max(right, MARGIN + width)
        y += HEIGHT + 54
    note = "a column is a batch, as high as it has nodes; a triangle below: one more than the lower bound"
    parts.append(text(MARGIN, y + 4, note, "soft small"))
    said = ", ".join(f"{lane.policy} {len(lane.type)} batches" for lane in picture.lanes)
    width = max(right, MARGIN + wide(note)) + MARGIN
    return Svg(width, y + 14, "".join(parts), f"schedules: {said}; lower bound {bound}")


def _lane(
    lane: Lane, types: Sequence[str], letters: Sequence[str], column: float, highest: int, bound: int
) -> tuple[str, float]:
    """One schedule; its top left corner is the origin. Returns its width too."""
    more = len(lane.type) - bound
    said = f"{len(lane.type)} batches" + (f", {more} above the lower bound" if more else ", the lower bound")
    blamed = [(name, int((~lane.free & (lane.type == t)).sum())) for t, name in enumerate(types)]
    why = "by type: " + ", ".join(f"{name} {count}" for name, count in blamed if count) if more else ""
    parts = [heading(0, 14, lane.policy, said, why)]
    base = 22 + HEIGHT
    steps = zip(
        lane.type.tolist(), lane.width.tolist(), lane.late.tolist(), lane.behind.tolist(), strict=True
    )
    for b, (t, nodes, late, behind) in enumerate(steps):
        x = b * column
        tip = f"{b + 1}: {types[t]}, {nodes} node{'' if nodes == 1 else 's'}" + (
            f", not free: {late} critical nodes come later, the last behind node {behind}" if late else ""
        )
        bars = "".join(
            filled(t, x + 0.5, base - top, max(1.0, column - 1), high) for top, high in _bars(nodes, highest)
        )
        parts.append(tag("g", title(tip) + bars))
        if column >= 9:
            # the letter stands below, not inside: the lowest cell may be too small for it
            parts.append(text(x + column / 2, base + 12, letters[t], "mid small"))
        if late:
            size = min(4.0, max(1.5, column / 3))
            place = base + (16 if column >= 9 else 3)
            left, low = x + column / 2 - size, place + 2 * size
            d = f"M{left:.1f} {low:.1f}h{2 * size:.1f}l{-size:.1f} {-2 * size:.1f}Z"
            parts.append(tag("path", d=d, class_="bad extra"))
    width = len(lane.type) * column
    parts.append(tag("path", d=f"M0 {base + 0.5:g}H{width:.1f}", class_="axis"))
    return "".join(parts), max(width, heading_width(lane.policy, said, why))


def _bars(nodes: int, highest: int) -> list[tuple[float, float]]:
    """(distance of the top from the base, height) of each rectangle of a batch."""
    if highest <= CELLS:
        cell = min(12.0, HEIGHT / highest)
        return [((i + 1) * cell, cell - 1) for i in range(nodes)]
    high = HEIGHT * log1p(nodes) / log1p(highest)
    return [(high, high)]


def frontier_svg(picture: FrontierPicture) -> Svg:
    """A row for each type: ready nodes before each step, faint; what was executed, full."""
    letters, lane = marks(picture.types), picture.lane
    require_small(int((picture.ready > 0).sum()), "bars")
    column = _column(len(lane.type))
    left = MARGIN + max([wide(name) for name in picture.types] + [40.0]) + 48
    head, right = legend(picture.types, letters, MARGIN, 40)
    parts = [text(MARGIN, 20, f"the frontier under {lane.policy}", "big"), head]
    row, y = 44.0, 58.0
    for t, name in enumerate(picture.types):
        most = int(picture.ready[:, t].max(initial=0))
        parts.append(text(left - 44, y + row - 14, name, "end bold"))
        parts.append(text(left - 6, y + row - 14, f"≤ {most}", "end soft small"))
        for b, ready in enumerate(picture.ready[:, t].tolist()):
            if not ready:
                continue
            high = max(2.0, (row - 8) * log1p(ready) / log1p(most))
            chosen = lane.type[b] == t
            tip = title(f"step {b + 1}: {ready} ready of {name}" + (", executed" if chosen else ""))
            x, top, width = left + b * column + 0.5, y + row - high, max(1.0, column - 1)
            if chosen:
                parts.append(filled(t, x, top, width, high, tip))
            else:
                fade = {"fill_opacity": "0.3", "stroke": colour(t), "stroke_opacity": "0.5"}
                parts.append(tag("rect", tip, x=x, y=top, width=width, height=high, fill=colour(t), **fade))
        parts.append(tag("path", d=f"M{left:.1f} {y + row:.1f}h{len(lane.type) * column:.1f}", class_="axis"))
        y += row
    parts.append(text(left - 6, y + 14, "not free", "end soft small"))
    parts += [
        rect(left + b * column + 0.5, y + 6, max(1.0, column - 1), 9, "bad")
        for b in np.flatnonzero(~lane.free).tolist()
    ]
    note = "faint: ready; full: executed. A step is free where it lowers the bound on what remains"
    parts.append(text(MARGIN, y + 34, note, "soft small"))
    width = max(right, left + len(lane.type) * column, MARGIN + wide(note)) + MARGIN
    label = f"frontier under {lane.policy}: {len(lane.type)} steps, {int((~lane.free).sum())} not free"
    return Svg(width, y + 44, "".join(parts), label)
