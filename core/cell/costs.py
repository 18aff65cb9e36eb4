"""What one node of a cell costs, whatever executes it."""

from __future__ import annotations

from dataclasses import dataclass

from abw.core.cell.normal import NormalCell, size_of

_MOVES = frozenset({"concat", "identity", "transpose"})


@dataclass(frozen=True, slots=True)
class CellCosts:
    """Per node: arithmetic of matrix products (2 for a multiply-add) and of all else (1 an element).

    `bytes_in` and `bytes_out` are the sizes of the inputs and outputs, `bytes_weights` of the parameters:
    those are read once a batch, not once a node. float32.
    """

    product_flops: int
    other_flops: int
    bytes_in: int
    bytes_out: int
    bytes_weights: int


def cell_costs(normal: NormalCell) -> CellCosts:
    """Count the operations that run at every node; static ones run once and count nothing."""
    cell = normal.cell
    products = others = 0
    for value in normal.batched:
        op = normal.op(value)
        if op.name == "matmul":
            products += 2 * size_of(op.shape) * cell.shape_of(op.args[0])[-1]
        elif op.name not in _MOVES:
            others += size_of(op.shape)
    return CellCosts(
        products,
        others,
        4 * sum(size_of(port.shape) for port in cell.inputs),
        4 * sum(size_of(port.shape) for port in cell.output_ports),
        4 * sum(size_of(param.shape) for param in cell.params),
    )
