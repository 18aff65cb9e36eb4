"""The PQ-tree of a cell's variables: all the orders in which its operands need no copy."""

from __future__ import annotations

from abw.core.cell.layout import CONTIGUOUS, COPIED, SCRATCH, STRIDED
from abw.core.cell.normal import size_of
from abw.core.cell.program import cell_program
from abw.core.spec.cell import Cell
from abw.pqtree import PQTree, plan_layout
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
    text = plan_layout(sizes, batches).tree
    return TreePicture(cell.name, text, tuple(names[v] for v in inside))


def tree_of(picture: TreePicture) -> PQTree:
    """The tree itself."""
    return PQTree.from_text(picture.text)
