"""The inner loop of all products."""

from __future__ import annotations

from collections.abc import Sequence

from abw.core.exec.cpu.llvm.emit import Function
from abw.core.exec.cpu.llvm.prefetch import Ahead


def contract(
    f: Function,
    sums: Sequence[Sequence[str]],
    rows: Sequence[str],
    weights: str,
    step: int,
    count: int,
    ahead: Ahead | None = None,
) -> list[list[str]]:
    """`sums[r][v] += rows[r][k] * weights[k][v]` for `count` k; the new sums, all in registers.

    `rows` are addresses of floats, `weights` that of vectors side by side, `step` bytes from k to k + 1. With
    `ahead` each turn takes two k, one after the other as without.
    """
    width = len(sums[0])

    def add(place: str, operands: Sequence[str], values: list[str]) -> list[str]:
        columns = [f.load(place, 4 * f.target.lanes * v) for v in range(width)]
        return [
            f.fma(operand, column, values[r * width + v])
            for r, operand in enumerate(map(f.spread, operands))
            for v, column in enumerate(columns)
        ]

    def one(k: str, values: list[str]) -> list[str]:
        return add(f.at(weights, f.i64("mul", k, step)), [f.item("float", row, k) for row in rows], values)

    def two(turn: str, values: list[str]) -> list[str]:
        assert ahead
        place, k = f.at(weights, f.i64("mul", turn, 2 * step)), f.i64("shl", turn, 1)
        lines = ahead.ask(f, turn)
        pairs = [f.let(f"getelementptr float, ptr {row}, i64 {k}") for row in rows]
        for half in range(2):
            operands = [f.item("float", pair, half) for pair in pairs]
            values = add(f.at(place, step * half), operands, values)
            f.prefetch(lines[half])
        return values

    flat = [(f.target.vector, value) for row in sums for value in row]
    if ahead is None:
        result = f.loop(count, one, flat)
    else:
        result = f.loop(count // 2, two, flat) if count > 1 else [value for _, value in flat]
        result = one(str(count - 1), result) if count % 2 else result
    return [result[r * width : (r + 1) * width] for r in range(len(rows))]
