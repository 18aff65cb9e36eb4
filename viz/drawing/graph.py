"""The dataflow graph: instances side by side, layers downwards, nodes numbered by batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.text import Text

from abw.core.base.errors import AbwError, number_of
from abw.viz.data.pictures import GraphPicture
from abw.viz.drawing.layered import across, bundled, depth_first, with_bends
from abw.viz.drawing.svg import Sheet, Svg, number, swatch, tag, text, tipped
from abw.viz.drawing.text import left_out, table, type_name

Ints = NDArray[np.int32]
Floats = NDArray[np.floating[Any]]
Bools = NDArray[np.bool_]

# The most nodes an SVG is made of (a browser takes seconds for more), and of those in text.
NODES, ROWS = 4000, 60

# The most pixels that a row of instances takes: on a page as wide as a screen its numbers can be read.
WIDEST = 1600.0

WIDE, HIGH, STEP, MARGIN, TOP = 26.0, 20.0, 44.0, 20.0, 64.0
# The room of a node and of a line that passes; a hub's radius.
NODE, BEND, HUB = WIDE + 10, 12.0, 2.5

# Between instances: beside each other, and below each other.
APART, BELOW = 24.0, 36.0


@dataclass(frozen=True, slots=True)
class Placed:
    """Where n nodes lie, then hubs, then bends: in a row, with their middle at `x`, `y` of it.

    `size` is the room of each across, `half` how far it reaches up and down. `segments` (m, 2) are the pieces
    of edges, between neighbouring layers. What is below `nodes` is a node, else below `hubs` a hub.
    """

    nodes: int
    hubs: int
    row: Ints
    x: Floats
    y: Floats
    size: Floats
    half: Floats
    segments: Ints


def layers(picture: GraphPicture) -> Ints:
    """(n,): the longest path to each node from a node without producers. O((n + m) * depth) at worst."""
    layer = np.zeros(len(picture.type), np.int32)
    source, target = picture.source, picture.target
    while len(source):
        pushed = layer.copy()
        np.maximum.at(pushed, target, layer[source] + 1)
        if np.array_equal(pushed, layer):
            break
        layer = pushed
    return layer


def graph_svg(picture: GraphPicture, policy: str | None = None) -> Svg:
    """The graph numbered by the batches of `policy`, the first one for None. Errors: AbwError above NODES.

    Instances stand in rows at most `WIDEST` pixels wide; one that is wider is cut into strips.
    """
    if len(picture.type) > NODES:
        raise AbwError(
            f"an SVG of {len(picture.type)} nodes is too much for any browser (at most {NODES})",
            hint="draw some instances with --instances N, or look at all of them with --html",
        )
    name = policy or picture.policies[0]
    sheet, y = Sheet(MARGIN), TOP
    sheet.line(20, f"numbered by the batches of {name}", "big", 14, bold=True)
    letters = sheet.legend(picture.types, 42)
    places = placed(picture)
    boxes = _boxes(picture, picture.batch[picture.policies.index(name)], letters, places)
    for row in range(int(places.row.max(initial=-1)) + 1):
        there = places.row == row
        for first, last in _strips(float((places.x + places.size / 2)[there].max())):
            if first:
                rule = f"M{MARGIN:g} {y - BELOW / 2:.1f}h{WIDEST:g}"
                sheet.add(tag("path", d=rule, class_="axis below"))
            drawn, high = _strip(places, boxes, there, first, last, y)
            sheet.add(drawn)
            sheet.reach(MARGIN + last - first)
            y += high + BELOW
    count = int(picture.instance.max(initial=-1)) + 1
    label = f"graph of {number_of(len(picture.type), 'node')} in {number_of(count, 'instance')}"
    return sheet.svg(max(y - BELOW, TOP) + MARGIN, label)


def placed(picture: GraphPicture) -> Placed:
    """The layout: many nodes' edges to the same readers bundled, those of one node through the same bends."""
    made = bundled(picture.type, picture.instance, layers(picture), picture.source, picture.target)
    # an instance has the layers that it uses; `deep` is even, so that keys of hubs are odd
    deep = int(made.layer.max(initial=0)) // 2 * 2 + 2
    keys, key = np.unique(made.group * deep + made.layer, return_inverse=True)
    begins = np.searchsorted(keys, np.arange(int(made.group.max(initial=-1)) + 1) * deep)
    layer = (key - begins[made.group]).astype(np.int32)
    bent = with_bends(layer, made.group, made.source, made.target, shared=True)
    size = np.full(len(bent.layer), BEND)
    size[: len(picture.type)] = NODE
    first = depth_first(bent.layer, bent.source, bent.target)
    x = across(bent.layer, bent.group, bent.source, bent.target, size, first)
    row, begin = _rows(bent.group, x, size)
    # from a layer to hubs, and from these to the next, it is less far than from layer to layer
    down = np.cumsum([0.0, *np.where(np.diff(keys) == 1, 0.7 * STEP, STEP)])
    key = begins[bent.group] + bent.layer
    y = HIGH / 2 + down[key] - down[begins[bent.group]]
    half = np.where(keys[key] % 2 == 0, HIGH / 2, HUB)
    segments = np.stack([bent.source, bent.target], axis=1)
    return Placed(len(picture.type), len(made.layer), row, x + begin, y, size, half, segments)


def _rows(group: Ints, x: Floats, size: Floats) -> tuple[Ints, Floats]:
    """Find each node's row and its shift to the right: as many instances a row as `WIDEST` holds."""
    count = int(group.max(initial=-1)) + 1
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, group, x - size / 2)
    np.maximum.at(high, group, x + size / 2)
    row, begin, end = np.zeros(count, np.int32), np.zeros(count), 0.0
    at = 0
    for instance in np.unique(group).tolist():
        width = float(high[instance] - low[instance])
        if end and end + width > WIDEST:
            at, end = at + 1, 0.0
        row[instance], begin[instance] = at, end - low[instance]
        end += width + APART
    return row[group], begin[group]


def _strips(width: float) -> Iterator[tuple[float, float]]:
    """Yield the ends of a row's strips; a node that one of them cuts is whole in the next."""
    first = 0.0
    while first + WIDEST < width:
        yield first, first + WIDEST
        first += WIDEST - NODE
    yield first, width if first == 0 else first + WIDEST


def _strip(
    places: Placed, boxes: list[str], there: Bools, first: float, last: float, y: float
) -> tuple[str, float]:
    """Draw the part of a row from `first` to `last` at height `y`; return it and its own height."""
    a, b = places.segments[:, 0], places.segments[:, 1]
    begin, end = np.minimum(places.x[a], places.x[b]), np.maximum(places.x[a], places.x[b])
    lines = np.flatnonzero(there[a] & (end >= first) & (begin <= last))
    reach = places.size / 2
    nodes = np.flatnonzero(there & (places.x + reach > first) & (places.x - reach < last))
    drawn = [_segment(places, *places.segments[line].tolist()) for line in lines.tolist()]
    drawn += [boxes[v] for v in nodes.tolist() if v < places.hubs]
    high = max(float(places.y[v].max(initial=0)) for v in (nodes, b[lines])) + HIGH / 2
    box = f"{number(first)} 0 {number(last - first)} {number(high)}"
    strip = tag("svg", "".join(drawn), x=MARGIN, y=y, width=last - first, height=high, viewBox=box)
    return strip, high


def _boxes(picture: GraphPicture, batch: Ints, letters: tuple[str, ...], places: Placed) -> list[str]:
    """Each node as a box with its batch, each hub as a dot."""
    drawn = []
    for v, (x, y) in enumerate(zip(places.x[: places.hubs].tolist(), places.y.tolist(), strict=False)):
        if v >= places.nodes:
            drawn.append(tag("circle", cx=x, cy=y, r=HUB, class_="hub"))
            continue
        t = int(picture.type[v])
        others = ", ".join(
            f"{p} {b + 1}" for p, b in zip(picture.policies, picture.batch[:, v].tolist(), strict=True)
        )
        tip = f"node {v}: {picture.types[t]}, instance {picture.instance[v]}; batch by policy: {others}"
        label, many, corner = f"{letters[t]}{batch[v] + 1}", int(picture.equal[v]), ""
        if many > 1:
            tip += f"; stands for {many} equal nodes"
            corner = text(x + WIDE / 2, y + HIGH / 2 + 9, f"×{many}", "small soft end")
        drawn.append(tipped(tip, swatch(t, x - WIDE / 2, y - HIGH / 2, WIDE, HIGH, label, rx=4) + corner))
    return drawn


def _segment(places: Placed, a: int, b: int) -> str:
    """Draw a line from below one node to above the other, straight down through the layer of a bend."""
    x1, y1, x2, y2 = (float(at) for v in (a, b) for at in (places.x[v], places.y[v]))
    top, low = y1 + float(places.half[a]), y2 - float(places.half[b])
    middle = (top + low) / 2
    d = f"M{x1:.1f} {top:.1f}C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {low:.1f}"
    through = f"V{2 * y2 - low:.1f}" if b >= places.hubs else ""
    return tag("path", d=d + through, class_="edge")


def graph_text(picture: GraphPicture) -> RenderableType:
    """Small graphs node by node: type, batch under each policy, and the nodes it reads."""
    count, instances = len(picture.type), int(picture.instance.max(initial=-1)) + 1
    several = picture.equal.max(initial=1) > 1
    many = [">equal"] if several else []
    rows = table("node", "type", ">instance", *many, *(f">batch ({p})" for p in picture.policies), "reads")
    for v in range(min(count, ROWS)):
        reads = np.sort(picture.source[picture.target == v]).tolist()
        rows.add_row(
            str(v),
            type_name(picture.types, int(picture.type[v])),
            str(picture.instance[v]),
            *([f"×{picture.equal[v]}" if picture.equal[v] > 1 else ""] if several else []),
            *(str(batch + 1) for batch in picture.batch[:, v]),
            " ".join(map(str, reads[:12])) + (" …" if len(reads) > 12 else ""),
        )
    sizes = (count, "node"), (len(picture.source), "edge"), (instances, "instance")
    said = ", ".join(number_of(*size) for size in sizes)
    rest = left_out(count - ROWS, f"and {count - ROWS} nodes more: --svg draws, --html lets you walk through")
    return Group(Text(said, style="dim"), rows, *rest)
