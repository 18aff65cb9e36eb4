"""The PQ-tree of a cell's variables: all the orders in which its operands need no copy."""

from __future__ import annotations

from collections.abc import Sequence

from abw.core.cell.layout import CONTIGUOUS, COPIED, SCRATCH, STRIDED
from abw.core.cell.normal import size_of
from abw.core.cell.program import cell_program
from abw.core.spec.cell import Cell
from abw.pqtree import plan_layout, shape
from abw.viz.memory import value_names
from abw.viz.pictures import TreePicture


def tree_picture(cell: Cell) -> TreePicture:
    """The tree that the operands in scratch memory leave, with its directions. Cost: milliseconds."""
    program = cell_program(cell)
    inside = sorted((v for v, p in enumerate(program.position) if p >= 0), key=lambda v: program.position[v])
    names = value_names(program.cell)
    number = {v: i for i, v in enumerate(inside)}
    batches = []
    for batch in program.batches:
        operands = [
            [number[v] for v in operand.values]
            for operand in batch.operands
            if operand.status in (CONTIGUOUS, STRIDED, COPIED)
            and all(v in number and program.place[v].home == SCRATCH for v in operand.values)
        ]
        if operands and len(operands[0]) > 1:
            batches.append(operands)
    sizes = [4 * size_of(program.cell.shape_of(v)) for v in inside]
    layout = plan_layout(sizes, batches)
    order: Sequence[int] = range(len(inside))  # the cell's own, which need not be the only one without copies
    if not shape.contains(shape.from_text(layout.tree), order):
        order = layout.order
    text = _lying_as(layout.tree, order)
    return TreePicture(cell.name, text, tuple(names[v] for v in inside))


def _lying_as(text: str, order: Sequence[int]) -> str:
    """The same tree with its children in the order that they have in `order`, one of its own."""
    code = shape.from_text(text)
    place = {leaf: i for i, leaf in enumerate(order)}
    children = shape.children_of(code)  # from the last node to the first: each after its children
    first = {at: place[token] for at, token in enumerate(code) if token >= 0}
    for at, below in children.items():
        below.sort(key=first.__getitem__)  # of a Q-node this is its order or the reverse
        first[at] = first[below[0]]
    return shape.to_text([code[at] for at in shape.walk(children)]) if code else ""
