"""The PQ-tree of a cell's variables: all the orders in which its operands need no copy."""

from __future__ import annotations

from abw.core.cell.arrange import solve
from abw.core.cell.batches import batch_operations
from abw.core.cell.names import value_names
from abw.core.cell.normal import normalise
from abw.core.cell.program import cell_program
from abw.core.ir.cell import Cell
from abw.pqtree import shape
from abw.viz.data.pictures import TreePicture


def tree_picture(cell: Cell) -> TreePicture:
    """The tree that the planner ended with, of the variables in scratch memory alone. Cost: milliseconds."""
    program, normal = cell_program(cell), normalise(cell)
    solved = solve(normal, batch_operations(normal))
    inside = [slot for slot in solved.layout.order if program.position[solved.variables[slot]] >= 0]
    names = value_names(program.cell)
    code = _in_order(shape.prune(shape.from_text(solved.layout.tree), inside))
    return TreePicture(cell.name, shape.to_text(code), tuple(names[solved.variables[s]] for s in inside))


def _in_order(code: shape.Code) -> shape.Code:
    """A tree with its leaves renamed from 0 on, which must be one of its orders."""
    children = shape.children_of(code)  # from the last node to the first: each after its children
    first = {at: token for at, token in enumerate(code) if token >= 0}
    for at, below in children.items():
        below.sort(key=first.__getitem__)  # of a Q-node this is its order or the reverse
        first[at] = first[below[0]]
    return tuple(code[at] for at in shape.walk(children)) if code else ()
