"""The inner loop of all products."""

from __future__ import annotations

from collections.abc import Sequence

from abw.core.exec.cpu.llvm.emit import Function


def contract(
    f: Function,
    sums: Sequence[Sequence[str]],
    rows: Sequence[str],
    weights: str,
    step: int,
    count: int,
) -> list[list[str]]:
    """`sums[r][v] += rows[r][k] * weights[k][v]` for `count` k; the new sums, all in registers.

    `rows` are addresses of floats, `weights` that of vectors side by side, `step` bytes from k to k + 1.
    """
    vector = f.target.vector
    width = len(sums[0])

    def body(k: str, values: list[str]) -> list[str]:
        place = f.at(weights, f.i64("mul", k, step))
        columns = [f.load(place, 4 * f.target.lanes * v) for v in range(width)]
        added = []
        for r, row in enumerate(rows):
            operand = f.spread(f.item("float", row, k))
            for v, column in enumerate(columns):
                added.append(f.fma(operand, column, values[r * width + v]))
        return added

    flat = [(vector, value) for row in sums for value in row]
    result = f.loop(count, body, flat)
    return [result[r * width : (r + 1) * width] for r in range(len(rows))]
