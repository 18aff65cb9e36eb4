"""Memory: a cell's variables in order (the paper's Fig. 3), PQ-trees (Fig. 4), arenas over time."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from abw.pqtree import shape
from abw.pqtree.draw import drawn_tree
from abw.viz.data.pictures import ArenaPicture, MemoryPicture, OperandView, Ordering, TreePicture
from abw.viz.drawing.svg import Sheet, Svg, filled, rect, require_small, tag, text, tipped, title, wide
from abw.viz.drawing.text import BARS, head, table

MARGIN, HIGH, LINE = 16.0, 24.0, 17.0
# Moments at which it is shown how full an arena is.
FILLINGS = 14


def memory_svg(picture: MemoryPicture) -> Svg:
    """A cell's variables as declared and as planned, the operands of its batches as brackets below."""
    sheet, y = Sheet(MARGIN, f"cell {picture.cell}{_used(picture)}: variables in memory"), 34.0
    for name, ordering in (("declared", picture.before), ("planned", picture.after)):
        body, width, height = _ordering_svg(name, ordering)
        sheet.put(body, y, width)
        y += height + 18
    sheet.line(
        y, "green: side by side and in order; dashed: at equal distances; red arrows: copied", "soft small"
    )
    copies = f"{picture.before.copies} copies as declared, {picture.after.copies} as planned"
    return sheet.svg(y + 12, f"memory of cell {picture.cell}: {copies}")


def _used(picture: MemoryPicture) -> str:
    """The types that run a cell, in brackets."""
    return f" ({', '.join(picture.types)})" if picture.types else ""


def ordering_svg(name: str, ordering: Ordering) -> Svg:
    """One order alone."""
    body, width, height = _ordering_svg(name, ordering)
    body = tag("g", body, transform=f"translate({MARGIN:g} {MARGIN:g})")
    return Svg(width + 2 * MARGIN, height + 2 * MARGIN, body, f"{name} order: {ordering.in_words}")


def _ordering_svg(name: str, ordering: Ordering) -> tuple[str, float, float]:
    """One order and its operands; the top left corner is the origin. Returns width and height too."""
    left = 150.0
    box = max([wide(v.name) + 12 for v in ordering.variables] + [26.0])
    parts = [text(0, 14, f"{name} order", "bold"), text(110, 14, ordering.in_words, "soft")]
    centre: dict[str, float] = {}
    top = 22.0
    for i, variable in enumerate(ordering.variables):
        x = left + i * box
        centre[variable.name] = x + box / 2
        tip = f"{variable.name} = {variable.means}, {variable.floats} floats a node"
        tip += "; an input, copied here first" if variable.staged else ""
        name_there = text(x + box / 2, top + 16, variable.name + ("*" if variable.staged else ""), "mid")
        parts.append(tipped(tip, rect(x, top, box, HIGH, "back box") + name_there))
    y = top + HIGH + 8
    for b, batch in enumerate(ordering.batches, 1):
        drawn = [o for o in batch.operands if len(o.variables) > 1 and o.status not in ("packed",)]
        for operand in drawn:
            said = f"B{b} {batch.op}, {operand.role}"
            parts.append(text(left - 8, y + 8, said, "end small"))
            body, height = _operand(operand, centre, box, left, y)
            parts.append(tipped(f"{said}: {' '.join(operand.variables)} ({operand.status})", body))
            y += height
    return "".join(parts), left + box * len(ordering.variables) + 180, y


def _operand(
    operand: OperandView, centre: Mapping[str, float], box: float, left: float, y: float
) -> tuple[str, float]:
    """An operand below the variables it consists of, and how high that is."""
    if operand.status == "copied":
        return _copy(operand, centre, box, left, y)
    places = [centre[v] for v in operand.variables if v in centre]
    if len(places) < len(operand.variables):
        names = " ".join(dict.fromkeys(operand.variables))
        said = f"{names}: {operand.status}, not in this memory"
        return text(left, y + 8, said, "small soft"), LINE
    if len(set(places)) == 1:
        dot = tag("circle", cx=places[0], cy=y + 5, r=3, class_="other")
        return dot + text(places[0] + 8, y + 8, f"the same for all {len(places)} lanes", "small soft"), LINE
    low, high = min(places) - box / 2 + 3, max(places) + box / 2 - 3
    note = operand.status + (", backwards" if places[0] > places[-1] else "")
    said = text(high + 6, y + 8, note, "small soft")
    bracket = f"M{low:.1f} {y + 1:.1f}v7H{high:.1f}v-7"
    if operand.status == "contiguous":
        return tag("path", d=bracket, class_="fine") + said, LINE
    ticks = tag("path", d="".join(f"M{x:.1f} {y + 1:.1f}v7" for x in places), class_="other")
    return tag("path", d=bracket, class_="other", stroke_dasharray="3 3") + ticks + said, LINE


def _copy(
    operand: OperandView, centre: Mapping[str, float], box: float, left: float, y: float
) -> tuple[str, float]:
    """The copy of an operand, with an arrow from every variable; dashed: from outside this memory."""
    low = y + 28
    first = min([centre[v] - box / 2 for v in operand.variables if v in centre], default=left)
    parts = []
    for i, name in enumerate(operand.variables):
        x = first + i * box
        if name in centre:
            ends = [f"{centre[name]:.1f} {y + 1:.1f}", f"{x + box / 2:.1f} {low - 2:.1f}"]
            # a source is gathered before the batch, a result scattered after it
            line = f"M{ends[0]}L{ends[1]}" if operand.role != "result" else f"M{ends[1]}L{ends[0]}"
            parts.append(tag("path", d=line, class_="copy", marker_end="url(#abw-arrow-copy)"))
        dashes = {} if name in centre else {"stroke_dasharray": "3 2"}
        parts.append(rect(x + 3, low, box - 6, 15, "copy", **dashes))
        parts.append(text(x + box / 2, low + 11, name, "mid small"))
    end = first + len(operand.variables) * box
    return "".join(parts) + text(end + 6, low + 11, "copied", "small bad"), 50.0


def memory_text(picture: MemoryPicture) -> RenderableType:
    """A cell's variables in order, before and after, and what that makes of every operand."""
    begin = Text.assemble(("cell ", "dim"), (picture.cell, "bold"), _used(picture))
    orders = (("declared", picture.before), ("planned", picture.after))
    return Group(begin, *(part for name, order in orders for part in _ordering_text(name, order)))


STATUS_STYLE = {"copied": "bold red", "contiguous": "green"}


def _ordering_text(name: str, ordering: Ordering) -> list[RenderableType]:
    rows = table("  batch", "operand", "status", "variables, lane by lane")
    for b, batch in enumerate(ordering.batches, 1):
        if len(batch.operands[0].variables) == 1:
            continue  # an operation alone: nothing can go wrong
        for operand in batch.operands:
            rows.add_row(
                f"  {b} {batch.op}" if operand is batch.operands[0] else "",
                operand.role,
                Text(operand.status, style=STATUS_STYLE.get(operand.status, "")),
                " ".join(operand.variables),
            )
    order = "".join(variable.name + ("* " if variable.staged else " ") for variable in ordering.variables)
    said = Text.assemble((f"{name} order", "bold"), f"  {ordering.in_words}")
    return [said, Text(f"  {order}"), *([rows] if rows.row_count else [])]


def tree_svg(picture: TreePicture) -> Svg:
    """A PQ-tree, its leaves in the order of memory."""
    tree = drawn_tree(shape.from_text(picture.text), picture.names)
    body = text(MARGIN, 20, f"cell {picture.cell}: the orders without copies, as a PQ-tree", "big")
    marks = "".join(text(x, y + 4, "Q →") for x, y in tree.bars)
    body += tag("g", tree.body + marks, class_="pqtree", transform="translate(0 24)")
    note = "P: children in any order; Q: in this order, →, or reversed. The leaves lie as in memory"
    body += text(MARGIN, tree.height + 36, note, "soft small")
    width = max(tree.width, 10.0 * len(picture.cell) + 420)
    return Svg(width, tree.height + 46, body, f"PQ-tree of cell {picture.cell}: {picture.text}")


def tree_text(picture: TreePicture) -> RenderableType:
    """A PQ-tree in brackets: round where children may be in any order, square where only reversed."""
    named = re.sub(r"\d+", lambda leaf: picture.names[int(leaf[0])], picture.text)
    return Group(head("PQ-tree of cell", picture.cell), Text(f"  {named}"))


def arena_svg(picture: ArenaPicture) -> Svg:
    """Rows upwards, batches to the right: each block from the batch that writes it on."""
    require_small(len(picture.blocks), "blocks")
    sheet = Sheet(MARGIN, "arenas: which batch writes which rows")
    sheet.legend(picture.types, 42)
    width, y = min(1000.0, max(240.0, picture.batches * 22.0)), 62.0
    sheet.reach(max(MARGIN + width, 380.0))
    for a, dims in enumerate(picture.shapes):
        rows = max(1, picture.rows[a])
        height = min(120.0, max(16.0, rows * 12.0))
        said = f"arena {a}: {picture.rows[a]} rows of {_size(dims)}, {picture.head[a]} of them constants"
        sheet.add(text(MARGIN, y, said, "small"), rect(MARGIN, y + 6, width, height, "box"))
        low = y + 6 + height
        if picture.head[a]:
            tip, high = title("constants: tables, parameters, zeros"), picture.head[a] / rows * height
            sheet.add(rect(MARGIN, low - high, width, high, "back", tip))
        for block in (b for b in picture.blocks if b.arena == a):
            x = MARGIN + block.batch / picture.batches * width
            high = max(0.5, block.rows / rows * height)
            top = low - (block.first + block.rows) / rows * height
            rows_said = f"rows {block.first} to {block.first + block.rows - 1}"
            tip = title(f"batch {block.batch + 1}: {block.type}.{block.output}, {rows_said}")
            sheet.add(filled(picture.types.index(block.type), x, top, MARGIN + width - x, high, tip))
        y = low + 22
    return sheet.svg(y, f"arenas over {picture.batches} batches")


def _size(dims: tuple[int, ...]) -> str:
    """The shape of a row."""
    return "×".join(map(str, dims)) or "1"


def arena_text(picture: ArenaPicture) -> RenderableType:
    """A plan's arenas: their rows, and how they fill over the batches."""
    rows = table("arena", "shape of a row", ">constants", ">rows", ">MB", "written by", "filling over time")
    for a, dims in enumerate(picture.shapes):
        rows.add_row(
            str(a),
            _size(dims),
            str(picture.head[a]),
            str(picture.rows[a]),
            f"{picture.rows[a] * math.prod(dims) * 4 / 1e6:.2f}",
            ", ".join(dict.fromkeys(f"{b.type}.{b.output}" for b in picture.blocks if b.arena == a)) or "–",
            _filling(picture, a),
        )
    return Group(Text("arenas", style="dim"), rows)


def _filling(picture: ArenaPicture, arena: int) -> str:
    """How full an arena is at equal distances in time."""
    filled = np.zeros(picture.batches + 1, np.int64)
    filled[0] = picture.head[arena]
    for block in picture.blocks:
        if block.arena == arena:
            filled[block.batch + 1] += block.rows
    filled = np.cumsum(filled)
    at = np.linspace(0, picture.batches, min(FILLINGS, picture.batches + 1)).round().astype(int)
    rows = max(1, picture.rows[arena])
    return "".join(" " if not now else BARS[-(-now * len(BARS) // rows) - 1] for now in filled[at].tolist())
