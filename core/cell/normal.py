"""A cell in the form that batching works on, with nothing unused and every output computed; its costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from abw.core.ir.cell import Cell, Op, without_dead
from abw.core.ir.operations import OPERATIONS


@dataclass(frozen=True, slots=True)
class NormalCell:
    """A cell with what can be said of each of its V values before any batching.

    `static[v]`: the same at every lane (parameters, constants, and what is computed from them alone): an
    executor computes it once. `root[v]`, `start[v]`: the value that holds v and the first float of it in
    there: `(v, 0)` but for slices, which are parts of another value and cost nothing. `batched` are the
    operations that run at every node: not static and no slices.
    """

    cell: Cell
    static: tuple[bool, ...]
    root: tuple[int, ...]
    start: tuple[int, ...]
    batched: tuple[int, ...]

    def arguments(self, value: int) -> tuple[int, ...]:
        """The arguments of the operation that computes `value`."""
        return self.cell.ops[value - self.cell.first_op].args

    def op(self, value: int) -> Op:
        """The operation that computes `value`."""
        return self.cell.ops[value - self.cell.first_op]


def size_of(shape: tuple[int, ...]) -> int:
    """The number of floats of a value."""
    size = 1
    for extent in shape:
        size *= extent
    return size


def normalise(cell: Cell) -> NormalCell:
    """Drop the operations that no output needs, and give outputs that are static or slices an `identity`.

    So every output is the result of an operation that runs at every node, and can be written straight to
    where the node's results lie. Cost: linear in the operations.
    """
    cell = without_dead(_with_copies(cell))
    static = _static(cell, frozenset(value for _, value in cell.outputs))
    root = list(range(len(static)))
    start = [0] * len(static)
    batched = []
    for value, op in enumerate(cell.ops, cell.first_op):
        if static[value]:
            continue
        if op.name == "slice":
            whole = op.args[0]
            root[value] = root[whole]
            start[value] = start[whole] + int(op.attr[0]) * size_of(op.shape[1:])
        else:
            batched.append(value)
    return NormalCell(cell, tuple(static), tuple(root), tuple(start), tuple(batched))


def _static(cell: Cell, computed: frozenset[int] = frozenset()) -> list[bool]:
    """Which values no input reaches; those in `computed` count as computed at every lane."""
    static = [False] * len(cell.inputs) + [True] * len(cell.params)
    for value, op in enumerate(cell.ops, cell.first_op):
        static.append(value not in computed and all(static[a] for a in op.args))
    return static


def _with_copies(cell: Cell) -> Cell:
    """Append an `identity` for each output that is an input, a parameter, static, or a slice."""
    static = _static(cell)
    ops = list(cell.ops)
    outputs = []
    for name, value in cell.outputs:
        op = cell.ops[value - cell.first_op] if value >= cell.first_op else None
        if op is None or op.name == "slice" or (static[value] and op.name != "identity"):
            ops.append(Op("identity", (value,), cell.shape_of(value), label=name))
            value = cell.first_op + len(ops) - 1
        outputs.append((name, value))
    return replace(cell, ops=tuple(ops), outputs=tuple(outputs))


@dataclass(frozen=True, slots=True)
class CellCosts:
    """Arithmetic per node: of matrix products (2 for a multiply-add), and of all else (1 an element)."""

    product_flops: int
    other_flops: int


def cell_costs(normal: NormalCell) -> CellCosts:
    """Count the operations that run at every node; static ones run once and count nothing."""
    cell = normal.cell
    products = others = 0
    for value in normal.batched:
        op = normal.op(value)
        if op.name == "matmul":
            products += 2 * size_of(op.shape) * cell.shape_of(op.args[0])[-1]
        elif OPERATIONS[op.name].kind == "row":
            others += size_of(cell.shape_of(op.args[0]))
        elif OPERATIONS[op.name].kind != "copy":
            others += size_of(op.shape)
    return CellCosts(products, others)
