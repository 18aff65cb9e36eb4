"""Drawing memory: a cell's variables in order (the paper's Fig. 3), PQ-trees (Fig. 4), arenas over time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree

from abw.pqtree import shape
from abw.pqtree.draw import code_svg
from abw.viz.data.pictures import ArenaPicture, MemoryPicture, OperandView, Ordering, TreePicture
from abw.viz.drawing.letters import wide
from abw.viz.drawing.palette import marks
from abw.viz.drawing.svg import Svg, filled, legend, rect, require_small, tag, text, title

MARGIN, HIGH, LINE = 16.0, 24.0, 17.0


def memory_svg(picture: MemoryPicture) -> Svg:
    """A cell's variables as declared and as planned, the operands of its batches as brackets below."""
    used = f" ({', '.join(picture.types)})" if picture.types else ""
    parts = [text(MARGIN, 20, f"cell {picture.cell}{used}: variables in memory", "big")]
    y, right = 34.0, 0.0
    for name, ordering in (("declared", picture.before), ("planned", picture.after)):
        body, width, height = _ordering(name, ordering)
        parts.append(tag("g", body, transform=f"translate({MARGIN:g} {y:g})"))
        y, right = y + height + 18, max(right, width)
    note = "green: side by side and in order; dashed: at equal distances; red arrows: copied"
    parts.append(text(MARGIN, y, note, "soft small"))
    copies = f"{picture.before.copies} copies as declared, {picture.after.copies} as planned"
    label = f"memory of cell {picture.cell}: {copies}"
    return Svg(max(right, wide(note)) + 2 * MARGIN, y + 12, "".join(parts), label)


def ordering_svg(name: str, ordering: Ordering) -> Svg:
    """One order alone."""
    body, width, height = _ordering(name, ordering)
    body = tag("g", body, transform=f"translate({MARGIN:g} {MARGIN:g})")
    return Svg(width + 2 * MARGIN, height + 2 * MARGIN, body, f"{name} order: {ordering.in_words}")


def _ordering(name: str, ordering: Ordering) -> tuple[str, float, float]:
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
        parts.append(tag("g", title(tip) + rect(x, top, box, HIGH, "back box") + name_there))
    y = top + HIGH + 8
    for b, batch in enumerate(ordering.batches, 1):
        drawn = [o for o in batch.operands if len(o.variables) > 1 and o.status not in ("packed",)]
        for operand in drawn:
            said = f"B{b} {batch.op}, {operand.role}"
            parts.append(text(left - 8, y + 8, said, "end small"))
            body, height = _operand(operand, centre, box, left, y)
            parts.append(tag("g", title(f"{said}: {' '.join(operand.variables)} ({operand.status})") + body))
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


def tree_svg_of(picture: TreePicture) -> Svg:
    """A PQ-tree, its leaves in the order of memory."""
    whole = ElementTree.fromstring(code_svg(shape.from_text(picture.text), picture.names))
    width, height = float(whole.attrib["width"]), float(whole.attrib["height"])
    inner = "".join(
        re.sub(r' xmlns(:\w+)?="[^"]*"|\bns0:', "", ElementTree.tostring(part, encoding="unicode"))
        for part in whole
        if not part.tag.endswith("style")
    )
    head = text(MARGIN, 20, f"cell {picture.cell}: the orders without copies, as a PQ-tree", "big")
    for bar in whole.iter("{http://www.w3.org/2000/svg}rect"):
        x, y = float(bar.attrib["x"]), float(bar.attrib["y"])
        inner += text(x + float(bar.attrib["width"]) / 2, y + 13, "Q →")
    note = "P: children in any order; Q: in this order, →, or reversed. The leaves lie as in memory"
    body = head + tag("g", inner, class_="pqtree", transform="translate(0 24)")
    body += text(MARGIN, height + 36, note, "soft small")
    wider = max(width, 10.0 * len(picture.cell) + 420)
    return Svg(wider, height + 46, body, f"PQ-tree of cell {picture.cell}: {picture.text}")


def arena_svg(picture: ArenaPicture) -> Svg:
    """Rows upwards, batches to the right: each block from the batch that writes it on."""
    require_small(len(picture.blocks), "blocks")
    head, right = legend(picture.types, marks(picture.types), MARGIN, 42)
    parts = [text(MARGIN, 20, "arenas: which batch writes which rows", "big"), head]
    width, y = min(1000.0, max(240.0, picture.batches * 22.0)), 62.0
    for a, dims in enumerate(picture.shapes):
        rows = max(1, picture.rows[a])
        height = min(120.0, max(16.0, rows * 12.0))
        size = "×".join(map(str, dims)) or "1"
        said = f"arena {a}: {picture.rows[a]} rows of {size}"
        head_rows = picture.head[a] / rows * height
        parts.append(text(MARGIN, y, f"{said}, {picture.head[a]} of them constants", "small"))
        y += 6
        parts.append(rect(MARGIN, y, width, height, "box"))
        if head_rows:
            tip = title("constants: tables, parameters, zeros")
            parts.append(rect(MARGIN, y + height - head_rows, width, head_rows, "back", tip))
        for block in picture.blocks:
            if block.arena != a:
                continue
            x = MARGIN + block.batch / picture.batches * width
            high = max(0.5, block.rows / rows * height)
            top = y + height - (block.first + block.rows) / rows * height
            rows_said = f"rows {block.first} to {block.first + block.rows - 1}"
            tip = f"batch {block.batch + 1}: {block.type}.{block.output}, {rows_said}"
            parts.append(
                filled(picture.types.index(block.type), x, top, MARGIN + width - x, high, title(tip))
            )
        y += height + 22
    return Svg(
        max(right, MARGIN + width, 380.0) + MARGIN,
        y,
        "".join(parts),
        f"arenas over {picture.batches} batches",
    )
