"""Pictures over time: schedules as lanes side by side (the paper's Fig. 1 and 8), and frontiers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log1p

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from abw.viz.data.pictures import BatchesPicture, FrontierPicture, Lane
from abw.viz.drawing.palette import colour, marks
from abw.viz.drawing.svg import (
    Sheet,
    Svg,
    filled,
    heading,
    heading_width,
    rect,
    require_small,
    tag,
    text,
    tipped,
    title,
    wide,
)
from abw.viz.drawing.text import Strips, bar, head, on_colour, table, type_name

HEIGHT, MARGIN, TOP = 72.0, 16.0, 30.0
# Up to so many nodes a batch is drawn node by node; above, as a bar on a logarithmic scale.
CELLS = 12


def _column(batches: int) -> float:
    """The width of a batch: what fits a page, between hairlines and squares."""
    return min(22.0, max(1.5, 1000 / max(1, batches)))


def batches_svg(picture: BatchesPicture) -> Svg:
    """Schedules as lanes over time, width upwards; what is not free has a mark below."""
    require_small(sum(len(lane.type) for lane in picture.lanes), "batches")
    column = _column(max((len(lane.type) for lane in picture.lanes), default=1))
    bound = int(picture.lower_bound.sum())
    highest = max((int(lane.width.max(initial=1)) for lane in picture.lanes), default=1)
    sheet, y = Sheet(MARGIN), TOP
    letters = sheet.legend(picture.types, 20)
    for lane in picture.lanes:
        body, width = _lane_svg(lane, picture.types, letters, column, highest, bound)
        sheet.put(body, y, width)
        y += HEIGHT + 54
    note = "a column is a batch, as high as it has nodes; a triangle below: one more than the lower bound"
    sheet.line(y + 4, note, "soft small")
    said = ", ".join(f"{lane.policy} {len(lane.type)} batches" for lane in picture.lanes)
    return sheet.svg(y + 14, f"schedules: {said}; lower bound {bound}")


def _lane_svg(
    lane: Lane, types: Sequence[str], letters: Sequence[str], column: float, highest: int, bound: int
) -> tuple[str, float]:
    """One schedule; its top left corner is the origin. Returns its width too."""
    more = len(lane.type) - bound
    said = f"{len(lane.type)} batches" + (f", {more} above the lower bound" if more else ", the lower bound")
    blamed = [(name, int((~lane.free & (lane.type == t)).sum())) for t, name in enumerate(types)]
    why = "by type: " + ", ".join(f"{name} {count}" for name, count in blamed if count) if more else ""
    parts = [heading(0, 14, lane.policy, said, why)]
    base = 22 + HEIGHT
    steps = zip(*(array.tolist() for array in (lane.type, lane.width, lane.late, lane.behind)), strict=True)
    for b, (t, nodes, late, behind) in enumerate(steps):
        x = b * column
        tip = f"{b + 1}: {types[t]}, {nodes} node{'' if nodes == 1 else 's'}" + (
            f", not free: {late} critical nodes come later, the last behind node {behind}" if late else ""
        )
        bars = (
            filled(t, x + 0.5, base - top, max(1.0, column - 1), high) for top, high in _bars(nodes, highest)
        )
        parts.append(tipped(tip, "".join(bars)))
        if column >= 9:
            # the letter stands below, not inside: the lowest cell may be too small for it
            parts.append(text(x + column / 2, base + 12, letters[t], "mid small"))
        if late:
            size = min(4.0, max(1.5, column / 3))
            left, low = x + column / 2 - size, base + (16 if column >= 9 else 3) + 2 * size
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


def batches_text(picture: BatchesPicture) -> RenderableType:
    """Which type costs how many batches under which policy, then the schedules as lanes."""
    rows = table("type", "mark", ">lower bound", *(f">{lane.policy}" for lane in picture.lanes))
    letters = marks(picture.types)
    for t, bound in enumerate(picture.lower_bound.tolist()):
        counts = [int((lane.type == t).sum()) for lane in picture.lanes]
        cells = [Text(str(c), style="bold red" if c > bound else "") for c in counts]
        rows.add_row(type_name(picture.types, t), letters[t], str(bound), *cells)
    total = int(picture.lower_bound.sum())
    rows.add_row("all", "", str(total), *(Text(str(len(lane.type)), style="bold") for lane in picture.lanes))
    lanes = [part for lane in picture.lanes for part in _lane_text(lane, letters)]
    note = "a column is a batch: its size (log scale), its type; ! one more than the lower bound"
    return Group(rows, Text(), *lanes, Text(note, style="dim"))


def _lane_text(lane: Lane, letters: Sequence[str]) -> tuple[RenderableType, RenderableType]:
    """A lane: bars for widths (log scale), a mark for the type, `!` under what was not free."""
    highest = max(1, int(lane.width.max(initial=1)))

    def strip(first: int, last: int) -> Iterator[Text]:
        bars, names, flags = Text("  "), Text("  "), Text("  ")
        for b in range(first, last):
            t = int(lane.type[b])
            bars.append(bar(int(lane.width[b]), highest), style=colour(t))
            names.append(letters[t], style=on_colour(t))
            flags.append(" " if lane.free[b] else "!", style="bold red")
        yield from (bars, names)
        if not lane.free[first:last].all():
            yield flags

    said = f"  {len(lane.type)} batch{'es' if len(lane.type) != 1 else ''}"
    return Text.assemble((lane.policy, "bold"), said), Strips(len(lane.type), 2, strip, "  ", "batches")


def frontier_svg(picture: FrontierPicture) -> Svg:
    """A row for each type: ready nodes before each step, faint; what was executed, full."""
    lane = picture.lane
    require_small(int((picture.ready > 0).sum()), "bars")
    column = _column(len(lane.type))
    left = MARGIN + max([wide(name) for name in picture.types] + [40.0]) + 48
    sheet = Sheet(MARGIN, f"the frontier under {lane.policy}")
    sheet.legend(picture.types, 40)
    row, y = 44.0, 58.0
    for t, name in enumerate(picture.types):
        most = int(picture.ready[:, t].max(initial=0))
        sheet.add(text(left - 44, y + row - 14, name, "end bold"))
        sheet.add(text(left - 6, y + row - 14, f"≤ {most}", "end soft small"))
        for b, ready in enumerate(picture.ready[:, t].tolist()):
            if not ready:
                continue
            high = max(2.0, (row - 8) * log1p(ready) / log1p(most))
            chosen = lane.type[b] == t
            tip = title(f"step {b + 1}: {ready} ready of {name}" + (", executed" if chosen else ""))
            x, top, width = left + b * column + 0.5, y + row - high, max(1.0, column - 1)
            if chosen:
                sheet.add(filled(t, x, top, width, high, tip))
            else:
                fade = {"fill_opacity": "0.3", "stroke": colour(t), "stroke_opacity": "0.5"}
                sheet.add(tag("rect", tip, x=x, y=top, width=width, height=high, fill=colour(t), **fade))
        sheet.axis(left, y + row, len(lane.type) * column)
        y += row
    sheet.add(text(left - 6, y + 14, "not free", "end soft small"))
    for b in np.flatnonzero(~lane.free).tolist():
        sheet.add(rect(left + b * column + 0.5, y + 6, max(1.0, column - 1), 9, "bad"))
    note = "faint: ready; full: executed. A step is free where it lowers the bound on what remains"
    sheet.line(y + 34, note, "soft small")
    sheet.reach(left + len(lane.type) * column)
    label = f"frontier under {lane.policy}: {len(lane.type)} steps, {int((~lane.free).sum())} not free"
    return sheet.svg(y + 44, label)


def frontier_text(picture: FrontierPicture) -> RenderableType:
    """How many nodes of each type were ready before each step; the chosen type is set off."""
    lane, most = picture.lane, picture.ready.max(axis=0, initial=0)
    label = max([len(name) for name in picture.types] + [4]) + 2

    def strip(first: int, last: int) -> Iterator[Text]:
        for t, name in enumerate(picture.types):
            line = Text(name.ljust(label), style=f"bold {colour(t)}")
            for b in range(first, last):
                style = on_colour(t) if lane.type[b] == t else colour(t)
                line.append(bar(int(picture.ready[b, t]), int(most[t])), style=style)
            yield line if first else line.append(f" {most[t]} max"[:8], style="dim")
        yield Text("step".ljust(label) + "".join("+" if free else "!" for free in lane.free[first:last]))

    note = (
        "a column is a step: bars are ready nodes (log scale), the type set off was executed; "
        "+ marks a free step, ! one that was not"
    )
    strips = Strips(len(lane.type), label + 8, strip, "", "steps")
    return Group(head("frontier under", lane.policy), strips, Text(note, style="dim"))
