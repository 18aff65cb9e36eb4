"""What one node of a cell costs, whatever executes it."""

from __future__ import annotations

from dataclasses import dataclass

from abw.core.cell.normal import NormalCell, size_of
from abw.core.ir.operations import OPERATIONS


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
