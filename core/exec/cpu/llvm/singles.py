"""Operations that no sum in registers is part of: one lane after the other, in simple loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from abw.core.cell.normal import size_of
from abw.core.exec.cpu.llvm.emit import Function, Typed, number, splat
from abw.core.exec.cpu.llvm.functions import exp_of_negative, maximum
from abw.core.exec.cpu.llvm.products import contract
from abw.core.exec.cpu.tiling import CellTiling, RowPlace
from abw.core.exec.lower.rows import columns, padded, row_floats
from abw.core.exec.lower.stages import Single
from abw.core.ir.cell import Shape

# Rows of a matrix that are multiplied with a vector together.
ROWS_AT_ONCE = 4


def emit_single(
    f: Function, layout: CellTiling, single: Single, count: str, address: Callable[[RowPlace, str], str]
) -> None:
    """Compute one operation on `count` rows of a tile; `address` gives a value's address at a row."""
    normal = layout.normal
    op = normal.op(single.value)
    shapes = [layout.shape_of(a) for a in op.args]

    def lane(row: str) -> None:
        out = address(layout.place(single.value), row)
        operands = [address(place, row) for place in layout.operands(single)]
        match op.name:
            case "softmax":
                _softmax(f, out, operands[0], op.shape)
            case "sum" | "max" if len(shapes[0]) == 2 and op.attr[0] == -2:
                _down(f, op.name, out, operands[0], shapes[0])
            case "sum" | "max":
                _along(f, op.name, out, operands[0], shapes[0])
            case "reshape":
                _reshape(f, out, operands[0], shapes[0], op.shape)
            case "concat":
                _concat(f, out, operands, shapes)
            case "transpose":
                _transpose(f, out, operands[0], shapes[0])
            case "matmul" if len(op.shape) == 1:
                _by_vector(f, out, operands, shapes[0])
            case "matmul":
                _by_matrix(f, out, operands, shapes, layout.heights(single))
            case _:
                raise ValueError(f"no kernel for the operation '{op.name}'")

    f.repeat(count, lane)


def copy(f: Function, out: str, source: str, count: int) -> None:
    """Copy `count` floats, and write none behind them."""
    lanes = f.target.lanes
    whole = count // lanes * lanes
    if whole:

        def vectors(j: str) -> None:
            place = f.i64("mul", j, 4 * lanes)
            f.store(f.load(source, place), out, place)

        f.repeat(whole // lanes, vectors)
    if whole < count:
        f.repeat(count, lambda j: f.put("float", f.item("float", source, j), out, j), first=whole)


def _concat(f: Function, out: str, operands: Sequence[str], shapes: Sequence[Shape]) -> None:
    begin = 0
    for operand, shape in zip(operands, shapes, strict=True):
        size = row_floats(shape, f.target.lanes) if len(shape) == 2 else columns(shape)
        copy(f, f.at(out, 4 * begin), operand, size)
        begin += size


def _transpose(f: Function, out: str, operand: str, shape: Shape) -> None:
    rows, count = shape
    pitch, turned = padded(count, f.target.lanes), padded(rows, f.target.lanes)

    def row(i: str) -> None:
        line = f.at(operand, f.i64("mul", i, 4 * pitch))

        def element(j: str) -> None:
            f.put("float", f.item("float", line, j), out, f.i64("add", f.i64("mul", j, turned), i))

        f.repeat(count, element)

    f.repeat(rows, row)


def _by_vector(f: Function, out: str, operands: Sequence[str], shape: Shape) -> None:
    """Matrix times vector: each element one sum over the columns, several elements together."""
    rows, count = shape
    pitch = 4 * padded(count, f.target.lanes)
    left, right = operands

    def block(first: str, size: int) -> None:
        lines = [f.at(left, f.i64("mul", f.i64("add", first, r), pitch)) for r in range(size)]

        def add(place: str | int, mask: str | None, sums: list[str]) -> list[str]:
            x = masked(f, f.load(right, place), mask, 0.0)
            parts = [masked(f, f.load(line, place), mask, 0.0) for line in lines]
            return [f.fma(x, part, total) for part, total in zip(parts, sums, strict=True)]

        zeros = [(f.target.vector, splat(0.0))] * size
        for r, total in enumerate(over(f, count, add, zeros)):
            f.put("float", across(f, "fadd", total), out, f.i64("add", first, r))

    whole = rows // ROWS_AT_ONCE
    if whole:
        f.repeat(whole, lambda i: block(f.i64("mul", i, ROWS_AT_ONCE), ROWS_AT_ONCE))
    if rows % ROWS_AT_ONCE:
        block(str(whole * ROWS_AT_ONCE), rows % ROWS_AT_ONCE)


def _by_matrix(
    f: Function, out: str, operands: Sequence[str], shapes: Sequence[Shape], parts: Sequence[int]
) -> None:
    """Matrix times matrix: blocks of rows by vectors of columns, summed in registers.

    The right side is the operands from the second on, with so many rows each as `parts` says.
    """
    (rows, inner), (_, count) = shapes
    lanes = f.target.lanes
    left_pitch, pitch = 4 * padded(inner, lanes), 4 * padded(count, lanes)
    vectors = padded(count, lanes) // lanes
    fitting = [u for u in range(1, f.target.group + 1) if vectors % u == 0]
    units = min(fitting, key=lambda u: 1 / u + 1 / f.target.block_rows(u))
    most = f.target.block_rows(units)
    blocks = -(-rows // most)
    small, more = divmod(rows, blocks)
    left, *rights = operands

    def block(first: str, size: int, column: str) -> None:
        lines = [f.at(left, f.i64("mul", f.i64("add", first, r), left_pitch)) for r in range(size)]
        sums = [[splat(0.0)] * units for _ in range(size)]
        for right, length in zip(rights, parts, strict=True):
            sums = contract(f, sums, lines, f.at(right, column), pitch, length)
            lines = [f.at(line, 4 * length) for line in lines]
        for r, row in enumerate(sums):
            place = f.at(out, f.i64("add", f.i64("mul", f.i64("add", first, r), pitch), column))
            for v, total in enumerate(row):
                f.store(total, place, 4 * lanes * v)

    def column_block(j: str) -> None:
        column = f.i64("mul", j, 4 * lanes * units)
        large = (small + 1) * more
        if more:
            f.repeat(more, lambda i: block(f.i64("mul", i, small + 1), small + 1, column))
        if more < blocks:
            f.repeat(
                blocks - more, lambda i: block(f.i64("add", f.i64("mul", i, small), large), small, column)
            )

    f.repeat(vectors // units, column_block)


def _softmax(f: Function, out: str, operand: str, shape: Shape) -> None:
    """Row by row: the largest element, the exponentials' sum, the quotients."""
    count = columns(shape)
    floats = padded(count, f.target.lanes)

    def row(i: str) -> None:
        x, y = (f.at(start, f.i64("mul", i, 4 * floats)) for start in (operand, out))

        def larger(place: str | int, mask: str | None, best: list[str]) -> list[str]:
            found = masked(f, f.load(x, place), mask, -float("inf"))
            return [f.choose("ogt", found, best[0], found, best[0])]

        (best,) = over(f, count, larger, [(f.target.vector, splat(-float("inf")))])
        largest = f.spread(across(f, "fmax", best))

        def power(place: str | int, mask: str | None, total: list[str]) -> list[str]:
            found = exp_of_negative(f, f.vec("fsub", largest, f.load(x, place)))
            f.store(found, y, place)
            return [f.vec("fadd", total[0], masked(f, found, mask, 0.0))]

        (total,) = over(f, count, power, [(f.target.vector, splat(0.0))])
        share = f.spread(f.let(f"fdiv float {number(1.0)}, {across(f, 'fadd', total)}"))

        def divide(place: str | int, mask: str | None, _: list[str]) -> list[str]:
            f.store(f.vec("fmul", f.load(y, place), share), y, place)
            return []

        over(f, count, divide, [])

    with f.several(floats):
        f.repeat(shape[0] if len(shape) == 2 else 1, row)


def _sum(f: Function, x: str, count: int) -> str:
    """The sum of a row."""

    def add(place: str | int, mask: str | None, total: list[str]) -> list[str]:
        return [f.vec("fadd", total[0], masked(f, f.load(x, place), mask, 0.0))]

    (total,) = over(f, count, add, [(f.target.vector, splat(0.0))])
    return across(f, "fadd", total)


def largest(f: Function, x: str, count: int) -> str:
    """The largest number of a row; not a number where one is none."""
    best, none = lanewise(f, x, count)
    return f.let(f"select i1 {none}, float {number(float('nan'))}, float {across(f, 'fmax', best)}")


def lanewise(f: Function, x: str, count: int) -> tuple[str, str]:
    """The largest number of a row in each lane, and whether one is none, which is looked for beside."""
    kind, flags = f.target.vector, f"<{f.target.lanes} x i1>"

    def compare(place: str | int, mask: str | None, found: list[str]) -> list[str]:
        value = masked(f, f.load(x, place), mask, -float("inf"))
        none = f.let(f"or {flags} {found[1]}, {f.let(f'fcmp uno {kind} {value}, {value}')}")
        return [f.choose("ogt", value, found[0], value, found[0]), none]

    start = [(kind, splat(-float("inf"))), (flags, "zeroinitializer")]
    best, none = over(f, count, compare, start)
    return best, f.call("i1", f"llvm.vector.reduce.or.v{f.target.lanes}i1", (flags, none))


def _along(f: Function, name: str, out: str, operand: str, shape: Shape) -> None:
    """The sum or the largest of each row."""
    count, floats = columns(shape), padded(columns(shape), f.target.lanes)
    reduce = _sum if name == "sum" else largest

    def row(i: str) -> None:
        f.put("float", reduce(f, f.at(operand, f.i64("mul", i, 4 * floats)), count), out, i)

    with f.several(floats):
        f.repeat(shape[0] if len(shape) == 2 else 1, row)


def _down(f: Function, name: str, out: str, operand: str, shape: Shape) -> None:
    """The sum or the largest of each column, some vectors of columns at a time."""
    rows, floats = shape[0], padded(shape[1], f.target.lanes)

    def column(j: str) -> None:
        place = f.i64("mul", j, 4 * f.target.lanes)
        top = f.at(operand, place)

        def join(i: str, found: list[str]) -> list[str]:
            value = f.load(top, f.i64("mul", i, 4 * floats))
            return [f.vec("fadd", found[0], value) if name == "sum" else maximum(f, found[0], value)]

        least = 0.0 if name == "sum" else -float("inf")
        (found,) = f.loop(rows, join, [(f.target.vector, splat(least))])
        f.store(found, out, place)

    with f.several(floats) as step:
        f.repeat(floats // step, column)


def _reshape(f: Function, out: str, operand: str, before: Shape, after: Shape) -> None:
    """Row after row in another shape: copies of as many floats as lie together in both."""
    lanes = f.target.lanes
    together = gcd(columns(before), columns(after))

    def part(i: str) -> None:
        first = f.i64("mul", i, together)

        def place(base: str, shape: Shape) -> str:
            count = columns(shape)
            row, column = f.i64("udiv", first, count), f.i64("urem", first, count)
            return f.at(base, f.i64("mul", f.i64("add", f.i64("mul", row, padded(count, lanes)), column), 4))

        copy(f, place(out, after), place(operand, before), together)

    f.repeat(size_of(before) // together, part)


def over(
    f: Function,
    count: int,
    body: Callable[[str | int, str | None, list[str]], list[str]],
    carried: list[Typed],
) -> list[str]:
    """`body(offset in bytes, mask, values)` over the vectors of `count` floats; a mask may cut the last."""
    lanes = f.target.lanes
    whole, rest = divmod(count, lanes)
    values = [value for _, value in carried]
    if whole:
        values = f.loop(whole, lambda j, now: body(f.i64("mul", j, 4 * lanes), None, now), carried)
    if rest:
        values = body(4 * lanes * whole, first_lanes(f, rest), values)
    return values


def first_lanes(f: Function, count: int) -> str:
    """A mask of so many lanes."""
    return f"<{', '.join(f'i1 {int(lane < count)}' for lane in range(f.target.lanes))}>"


def masked(f: Function, vector: str, mask: str | None, other: float) -> str:
    """A vector with another number where the mask is not set."""
    if mask is None:
        return vector
    kind = f.target.vector
    return f.let(f"select <{f.target.lanes} x i1> {mask}, {kind} {vector}, {kind} {splat(other)}")


def across(f: Function, operation: str, vector: str) -> str:
    """The sum (`fadd`) of a vector's elements, or the largest (`fmax`) of such as are numbers."""
    name, values = f"llvm.vector.reduce.{operation}.v{f.target.lanes}f32", (f.target.vector, vector)
    if operation == "fmax":
        return f.call("float", name, values, flags="nnan ")
    return f.call("float", name, ("float", number(-0.0)), values, flags="reassoc ")
