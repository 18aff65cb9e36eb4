"""A cell's operations as equations again, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from abw.core.cell.names import meaning, value_names
from abw.core.ir.cell import Cell
from abw.core.ir.operations import OPERATIONS

# What stands inside each expression that reads it.
SMALL = ("constant", "spread", "transpose", "neg")


def equations(cell: Cell) -> list[str]:
    """`name = expression` for each variable, output, and what is read several times, in their order.

    The other steps stand inside the expressions that read them. Cost: linear in the operations.
    """
    read = Counter(a for op in cell.ops for a in set(op.args))
    outputs = {value: name for name, value in cell.outputs}
    names = list(value_names(cell))
    lines = []
    for value, op in enumerate(cell.ops, cell.first_op):
        variable = bool(op.label) and "." not in op.label
        if value in outputs or (op.name not in SMALL and (variable or read[value] > 1)):
            name = outputs.get(value, names[value])
            lines.append(f"{name} = {meaning(cell, value, names)}")
            names[value] = name
        else:
            names[value] = _inside(cell, value, names)
    return lines


def _inside(cell: Cell, value: int, names: Sequence[str]) -> str:
    """A step as it stands in an expression."""
    op = cell.ops[value - cell.first_op]
    if op.name == "neg":
        return f"(-{names[op.args[0]]})"
    text = meaning(cell, value, names)
    return f"({text})" if OPERATIONS[op.name].sign else text
