"""A model: its parts as boxes, what flows between them downwards, links in a list below."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import get_args
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.text import Text

from abw.viz.data.pictures import Block, Flow, ModelPicture, Way
from abw.viz.drawing.layered import across, with_bends
from abw.viz.drawing.model_rows import Row, beside, facts, head, link_row, rows
from abw.viz.drawing.palette import colour, ink
from abw.viz.drawing.svg import Sheet, Svg, arrow, rect, require_small, tag, text, tipped, wide
from abw.viz.drawing.text import head as text_head
from abw.viz.drawing.text import table

Ints = NDArray[np.int32]

LINE, HEAD, PAD, MARGIN, TOP = 16.0, 22.0, 9.0, 20.0, 58.0
RULE = 5.0
# Between boxes: beside each other, below each other; the room of a line that passes, and of a loop.
APART, BELOW, BEND, LOOP = 26.0, 46.0, 16.0, 30.0

WAYS: tuple[Way, ...] = get_args(Way)
# The colour of what flows from other than types.
GREY = 7


def model_svg(picture: ModelPicture) -> Svg:
    """The model, its data flowing downwards; dashed is what comes along links, dotted from the layer below.

    Errors: AbwError for a model of too many parts.
    """
    require_small(len(picture.blocks) + len(picture.flows), "parts of a model")
    said = [rows(block) for block in picture.blocks]
    paint = paints(picture)
    loops = {flow.source for flow in picture.flows if flow.source == flow.target}
    wides = [_wide(block, lines) for block, lines in zip(picture.blocks, said, strict=True)]
    highs = [HEAD + len(lines) * LINE + _rules(lines) * RULE + PAD for lines in said]
    layer = block_layers(picture)
    flows = [flow for flow in picture.flows if flow.source != flow.target]
    # a flow back to an earlier layer is laid out turned round
    ends = [sorted((flow.source, flow.target), key=lambda b: int(layer[b])) for flow in flows]
    upper, lower = (np.array([pair[i] for pair in ends], np.int32) for i in (0, 1))
    bent = with_bends(layer, np.zeros(len(layer), np.int32), upper, lower)
    room = np.full(len(bent.layer), BEND)
    room[: len(wides)] = [w + APART + (LOOP if b in loops else 0) for b, w in enumerate(wides)]
    place = across(bent.layer, bent.group, bent.source, bent.target, room)
    x = place - (place - room / 2).min(initial=0) + MARGIN
    tops, bottoms = _levels(layer, highs)
    boxes = [
        (float(x[b]) - (width + (LOOP if b in loops else 0)) / 2, float(tops[layer[b]]), width, high)
        for b, (width, high) in enumerate(zip(wides, highs, strict=True))
    ]
    paths = [bent.path[a:b].tolist() for a, b in pairwise(bent.path_ptr.tolist())]
    leave, enter = _ports(paths, x, boxes)
    sheet = Sheet(MARGIN)
    sheet.add(text(MARGIN, 22, picture.model, "big"))
    sheet.line(40, facts(picture), "soft")
    for f, (flow, path) in enumerate(zip(flows, paths, strict=True)):
        points = [(leave[f], boxes[path[0]][1] + boxes[path[0]][3], float(bottoms[layer[path[0]]]))]
        points += [
            (float(x[v]), float(tops[bent.layer[v]]), float(bottoms[bent.layer[v]])) for v in path[1:-1]
        ]
        points.append((enter[f], float(tops[layer[path[-1]]]), 0.0))
        sheet.add(_line(picture, flow, _route(points, up=path[0] == flow.target), paint[flow.source]))
    for flow in picture.flows:
        if flow.source == flow.target:
            sheet.add(_line(picture, flow, _loop(*boxes[flow.source]), paint[flow.source]))
    for b, (block, lines, box) in enumerate(zip(picture.blocks, said, boxes, strict=True)):
        sheet.add(tag("g", _box(block, lines, box, paint[b]), class_=f"block {block.role}"))
    low = _links(sheet, picture, (float(bottoms[-1]) if len(bottoms) else TOP) + 34)
    sheet.reach(max((float(x[v] + room[v] / 2) for v in range(len(room))), default=0.0))
    return sheet.svg(low, f"model {picture.model}: {len(picture.blocks)} parts, {facts(picture)}")


def paints(picture: ModelPicture) -> list[int]:
    """The number of each block's colour: types have one each, all else is grey."""
    found, types = [], 0
    for block in picture.blocks:
        found.append(types % GREY if block.role == "type" else GREY)
        types += block.role == "type"
    return found


def block_layers(picture: ModelPicture) -> Ints:
    """(B,): the longest path to each block, without the flows that would close a circle.

    Those on one vertex count first, then those along links in the order of the spec, then those from the
    layer below. O(flows ** 2).
    """
    after: dict[int, set[int]] = defaultdict(set)

    def reaches(a: int, b: int) -> bool:
        queue, seen = [a], {a}
        for v in queue:
            new = after[v] - seen
            seen |= new
            queue += sorted(new)
        return b in seen

    kept: list[tuple[int, int]] = []
    for flow in sorted(picture.flows, key=lambda flow: (WAYS.index(flow.way), flow.source > flow.target)):
        if not reaches(flow.target, flow.source):
            after[flow.source].add(flow.target)
            kept.append((flow.source, flow.target))
    layer = np.zeros(len(picture.blocks), np.int32)
    for _ in picture.blocks:
        for a, b in kept:
            layer[b] = max(layer[b], layer[a] + 1)
    first = [min((int(layer[b]) for a, b in kept if a == v), default=0) for v in range(len(layer))]
    for v, block in enumerate(picture.blocks):
        if block.role in ("table", "param", "field") and first[v]:
            layer[v] = first[v] - 1  # right above what reads it
    return layer


def _wide(block: Block, lines: Sequence[Row]) -> float:
    """The width of a block's box."""
    longest = max([len(str(row)) for row in lines], default=0)
    return max(96.0, 7.1 * longest + 2 * PAD, 8.0 * len(head(block)) + 6.0 * len(beside(block)) + 4 * PAD)


def _rules(lines: Sequence[Row]) -> int:
    """The number of rules between a block's lines."""
    return sum(a.part != b.part for a, b in pairwise(lines))


def _levels(layer: Ints, highs: Sequence[float]) -> tuple[list[float], list[float]]:
    """The top and bottom of each layer."""
    tops, bottoms, y = [], [], TOP
    for level in range(int(layer.max(initial=-1)) + 1):
        high = max((h for h, at in zip(highs, layer.tolist(), strict=True) if at == level), default=0.0)
        tops.append(y)
        bottoms.append(y + high)
        y += high + BELOW
    return tops, bottoms


# Left, top, width, height.
Box = tuple[float, float, float, float]


def _ports(
    paths: Sequence[Sequence[int]], x: NDArray[np.float64], boxes: Sequence[Box]
) -> tuple[list[float], list[float]]:
    """Find the x at which each flow leaves the upper box, and enters the lower one."""
    leave, enter = [0.0] * len(paths), [0.0] * len(paths)
    for end, step, found in ((0, 1, leave), (-1, -2, enter)):
        sharing: dict[int, list[int]] = defaultdict(list)
        for f, path in enumerate(paths):
            sharing[path[end]].append(f)
        for block, some in sharing.items():
            some.sort(key=lambda f: (float(x[paths[f][step]]), f))
            left, _, width, _ = boxes[block]
            for i, f in enumerate(some):
                found[f] = left + width * (i + 1) / (len(some) + 1)
    return leave, enter


def _route(points: Sequence[tuple[float, float, float]], up: bool) -> str:
    """A line down through points (x, where it enters the layer, where it leaves it); turned round if up."""
    x, y, end = points[0]
    knots = [(x, y), (x, end)]
    for x, y, end in points[1:-1]:
        knots += [(x, y), (x, end)]
    knots.append(points[-1][:2])
    knots = list(dict.fromkeys(knots))  # a line of no length has no direction for its head
    if up:
        knots.reverse()
    d = f"M{knots[0][0]:.1f} {knots[0][1]:.1f}"
    for (x1, y1), (x2, y2) in pairwise(knots):
        half = (y1 + y2) / 2
        d += f"V{y2:.1f}" if x1 == x2 else f"C{x1:.1f} {half:.1f} {x2:.1f} {half:.1f} {x2:.1f} {y2:.1f}"
    return d


def _loop(x: float, y: float, width: float, height: float) -> str:
    """Draw a loop from a box's right side back to it, from below to above."""
    right, out = x + width, x + width + LOOP
    low, high = y + height - 9, y + 11
    return f"M{right:.1f} {low:.1f}C{out:.1f} {low + 9:.1f} {out:.1f} {high - 11:.1f} {right:.1f} {high:.1f}"


def _line(picture: ModelPicture, flow: Flow, d: str, paint: int) -> str:
    """Draw a flow in the colour of its source."""
    ends = f"{picture.blocks[flow.source].name} to {picture.blocks[flow.target].name}"
    how = {"here": "", "links": ", along links", "below": ", from the layer below"}[flow.way]
    line = arrow(paint, d, 1.6, class_=flow.way)
    return tipped(f"{', '.join(flow.values)}: {ends}{how}", line, class_="flow")


def _box(block: Block, lines: Sequence[Row], box: Box, paint: int) -> str:
    """A block: its head in its colour, then what it takes, does and gives, a rule between these."""
    x, y, width, height = box
    typed = block.role == "type"
    parts = [rect(x, y, width, height, "box", rx=5)]
    if typed:
        parts.append(tag("rect", x=x, y=y, width=width, height=HEAD, rx=5, fill=colour(paint)))
    else:
        parts.append(rect(x, y, width, HEAD, "back", rx=5))
    style = {"style": f"fill:{ink(colour(paint))}"} if typed else {}
    parts.append(text(x + PAD, y + 15, head(block), "bold", **style))
    parts.append(text(x + width - PAD, y + 15, beside(block), "end small", **style))
    line = y + HEAD
    for i, row in enumerate(lines):
        if i and row.part != lines[i - 1].part:
            parts.append(tag("path", d=f"M{x:.1f} {line + RULE:.1f}h{width:.1f}", class_="edge"))
            line += RULE
        line += LINE
        name = tag("tspan", escape(row.name), class_="bold") if row.name else ""
        arrow_said = " ← " if row.name and row.said else ""
        said = tag("tspan", escape(arrow_said + row.said)) if row.said else ""
        indent = 16.0 if row.part == "input" and not row.name else 0.0
        parts.append(tag("text", name + said, x=x + PAD + indent, y=line - 1))
    return "".join(parts)


def _links(sheet: Sheet, picture: ModelPicture, y: float) -> float:
    """Write the links that the model follows, a line each; return the y below them."""
    if not picture.links:
        return y
    sheet.add(text(MARGIN, y, "links (dashed lines follow them)", "bold"))
    said = [link_row(link) for link in picture.links]
    first = MARGIN + max(wide(row[0]) for row in said) + 14
    second = first + max(wide(row[1]) for row in said) + 14
    for name, kinds, how in said:
        y += LINE
        sheet.add(text(MARGIN, y, name), text(first, y, kinds), text(second, y, how, "soft"))
        sheet.reach(second + wide(how))
    return y + MARGIN


def model_text(picture: ModelPicture) -> RenderableType:
    """A model block by block in the order of the flow, then the links it follows."""
    paint, layer = paints(picture), block_layers(picture)
    parts: list[RenderableType] = [text_head("model", picture.model)]
    parts.append(Text(facts(picture), style="dim"))
    for b in np.argsort(layer, kind="stable").tolist():
        block = picture.blocks[b]
        style = f"bold {colour(paint[b])}" if block.role == "type" else "bold"
        parts.append(Text.assemble((head(block), style), (f"  {beside(block)}", "dim")))
        for row in rows(block):
            indent = "      " if row.part == "input" and not row.name else "  "
            parts.append(Text(f"{indent}{row}", style="dim" if row.part == "inside" else ""))
    if picture.links:
        links = table("link", "from → to", "")
        for link in picture.links:
            links.add_row(*link_row(link))
        parts += [Text(), links]
    return Group(*parts)
