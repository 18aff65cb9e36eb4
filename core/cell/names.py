"""Names for a cell's values, and its operations as equations again, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from abw.core.ir.cell import Cell
from abw.core.ir.operations import OPERATIONS


def value_names(cell: Cell) -> tuple[str, ...]:
    """A name for every value, no two the same.

    Inputs, parameters and variables have their own; the steps towards variable `i` are `i.1`, `i.2`, ...
    """
    names = [port.name for port in cell.inputs] + [param.name for param in cell.params]
    used = set(names)
    unnamed: list[int] = []
    for op in cell.ops:
        names.append(op.label)
        if not op.label or op.label in used:
            unnamed.append(len(names) - 1)
            continue
        used.add(op.label)
        for step, value in enumerate(unnamed, 1):
            names[value] = f"{op.label}.{step}"
        unnamed.clear()
    for value in unnamed:
        names[value] = f"%{value}"
    return tuple(names)


def meaning(cell: Cell, value: int, names: Sequence[str]) -> str:
    """What computes a value, in a word or two: `Wi @ x`, `sigmoid(i.4)`; an input or parameter is itself."""
    if value < cell.first_op:
        return names[value]
    op = cell.ops[value - cell.first_op]
    arguments = [names[a] for a in op.args]
    if sign := OPERATIONS[op.name].sign:
        return f"{arguments[0]} {sign} {arguments[1]}"
    if op.name == "constant":
        return f"{op.attr[0]:g}" if not op.shape else f"constant [{', '.join(map(str, op.shape))}]"
    if op.name == "slice":
        return f"{arguments[0]}[{op.attr[0]:g}:{op.attr[1]:g}]"
    if op.name in ("reshape", "spread"):
        arguments += map(str, op.shape)
    if op.name in ("sum", "max") and len(cell.shape_of(op.args[0])) == 2:
        arguments.append("0" if op.attr[0] == -2 else "1")
    return f"{op.name}({', '.join(arguments)})"


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
