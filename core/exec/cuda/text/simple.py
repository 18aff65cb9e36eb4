"""The texts of steps without sums of products: element-wise stages, single operations, reductions.

A thread computes four elements of one lane, or one; a tile is as many lanes as the block has threads for, or
a part of one lane.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from abw.core.exec.cuda.image import FRAME, SLOT
from abw.core.exec.cuda.steps import CellSteps, Step
from abw.core.exec.cuda.text.rowwise import (
    SIGNATURE,
    ZERO,
    inside,
    load,
    open_step,
    operate,
    part_row,
    row_of,
)
from abw.core.exec.cuda.text.text import Text, number, plus, times, u
from abw.core.exec.cuda.tiles import VECTOR
from abw.core.exec.lower.rows import BLOCK, columns, padded, row_floats
from abw.core.exec.lower.stages import Single, Stage
from abw.core.ir.cell import Shape
from abw.core.ir.model import SPREADS, Reduction

# Rows of a matrix whose products with a matrix a thread sums together.
ROWS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Share:
    """How threads share lanes of `work` pieces each: `lanes` a tile, `columns` tiles for them."""

    work: int
    threads: int

    @property
    def lanes(self) -> int:
        """Lanes of a tile."""
        return max(1, self.threads // self.work)

    @property
    def columns(self) -> int:
        """Tiles side by side."""
        return -(-self.work // self.threads)


def plain_text(cell: CellSteps, step: Step, threads: int) -> tuple[str, Share]:
    """A stage that is element-wise throughout."""
    assert isinstance(step.stage, Stage)
    share = Share(row_floats(step.stage.shape, VECTOR) // VECTOR, threads)

    def body(t: Text) -> None:
        t.let(f"unit = piece * {u(VECTOR)}")
        operate(t, cell, step, {})

    return share_text(share, body)


def reduction_text(
    reduction: Reduction, shape: Shape, slot: int, slots: int, threads: int
) -> tuple[str, Share]:
    """One slot of a reduction: each lane's list of rows summed, averaged or compared."""
    share = Share(row_floats(shape, VECTOR) // VECTOR, threads)
    start = number(-float("inf")) if reduction == "max" else ZERO

    def body(t: Text) -> None:
        # without lists each lane has one row
        t.let(f"lists = words[frame + {u(FRAME + SLOT * slot + SLOT - 1)}]")
        t.let("begin = lane", f"end = lane + {u(1)}")
        with t.block(f"if lists != {u(0)}"):
            t.let("begin = words[lists + lane]", f"end = words[lists + lane + {u(1)}]")

        def take(end: str, *, apart: bool = False) -> None:
            t.add(*(f"s{e} = {start}" for e in range(VECTOR)))
            with t.count("i", "begin", end, u(1)):
                t.let(f"place = row(words, frame + {u(FRAME + SLOT * slot)}, i) + piece * {u(VECTOR)}")
                t.add("x0, x1, x2, x3 = ld4(floats, place)")
                for e in range(VECTOR):
                    if apart:
                        t.add(f"x{e} -= m{e}", f"x{e} *= x{e}")
                    t.add(f"s{e} = larger(s{e}, x{e})" if reduction == "max" else f"s{e} += x{e}")

        if reduction == "max":
            take("end")
        else:
            each = range(VECTOR)
            t.let("first = begin")
            t.add("many = float32(end - first)")
            for apart in (False, True)[: 1 + (reduction in SPREADS)]:
                if apart:
                    t.let("begin = first")
                    t.add(*(f"m{e} = s{e}" for e in each))
                t.add(*(f"t{e} = {ZERO}" for e in each), *(f"lost{e} = {ZERO}" for e in each))
                with t.block("while begin < end"):
                    t.let(f"behind = begin + {u(BLOCK)}", "behind = end if behind > end else behind")
                    take("behind", apart=apart)
                    for e in each:
                        add_compensated(t, f"t{e}", f"s{e}", f"lost{e}")
                    t.let("begin = behind")
                t.add(*(f"s{e} = t{e}" for e in each))
                if reduction != "sum":
                    t.add(*(f"s{e} /= many" for e in each))
            if reduction == "std":
                t.add(*(f"s{e} = sqrt(s{e})" for e in each))
        word = FRAME + SLOT * slots + slot
        pitch = row_floats(shape, VECTOR)
        t.let(f"place = words[frame + {u(word)}] + {times('lane', pitch)} + piece * {u(VECTOR)}")
        t.add("st4(floats, place, s0, s1, s2, s3)")

    return share_text(share, body)


def add_compensated(t: Text, total: str, addend: str, lost: str) -> None:
    """Add to a sum; what that loses is taken from the next addend (Kahan), of an infinite sum nothing."""
    t.add(f"{addend} -= {lost}", f"following = {total} + {addend}")
    t.add(f"{lost} = following - {total} - {addend}")
    t.add(f"{lost} = {lost} if {lost} == {lost} else {ZERO}", f"{total} = following")


def single_text(cell: CellSteps, step: Step, threads: int) -> tuple[str, Share]:
    """An operation that no stage has a place for. Raises ValueError for one that has no kernel."""
    given = _Operands(cell, step)
    shape, name = given.op.shape, given.op.name
    rows, count = shape[0] if len(shape) == 2 else 1, columns(shape)
    kernels: dict[str, tuple[int, Callable[[Text, _Operands, str], None]]] = {
        "softmax": (rows, _softmax),
        "sum": (count, _along),
        "max": (count, _along),
        "reshape": (rows * count, _reshape),
        "concat": (rows * count, _concat),
        "transpose": (rows * count, _transpose),
        "matmul": (count, _by_vector),
    }
    if name not in kernels:
        raise ValueError(f"no kernel for the operation '{name}'")
    work, write = kernels[name]
    if name == "matmul" and len(shape) == 2:
        work, write = -(-rows // ROWS_AT_ONCE) * (padded(count, VECTOR) // VECTOR), _by_matrix
    return share_text(Share(work, threads), lambda t: write(t, given, given.out(t)))


def share_text(share: Share, body: Callable[[Text], None]) -> tuple[str, Share]:
    """The function around what a thread does with its `lane` and `piece`, and how these are shared."""
    t = Text()
    with t.block(f"def step{SIGNATURE}"):
        open_step(t)
        if share.columns == 1:
            t.let(f"lane = {times('tile', share.lanes)} + thread // {u(share.work)}")
            t.let(f"piece = thread % {u(share.work)}")
            last = f"thread < {u(share.lanes * share.work)} and lane < lanes"
        else:
            t.let(f"lane = tile // {u(share.columns)}")
            t.let(f"piece = tile % {u(share.columns)} * {u(share.threads)} + thread")
            last = f"piece < {u(share.work)}"
        with t.block(f"if {last}"):
            body(t)
    return str(t), share


class _Operands:
    """A single operation's operands: the memory and the place of each, and its result's."""

    def __init__(self, cell: CellSteps, step: Step) -> None:
        assert isinstance(step.stage, Single)
        self.cell, self.step, self.single = cell, step, step.stage
        self.op = cell.normal.op(step.stage.value)
        self.shapes = [cell.shape_of(a) for a in self.op.args]

    def out(self, t: Text) -> str:
        """The result's row, as a name."""
        t.let(f"out = {row_of(self.cell, self.single.value)}")
        return "out"

    def operand(self, t: Text, number: int) -> tuple[str, str, bool]:
        """(memory, place, whether it is a multiple of 4) of an argument."""
        value = self.op.args[number]
        name = t.name("p")
        normal = self.cell.normal
        if normal.static[value]:
            fixed = next(f for f in self.step.fixed if f.value == value)
            t.let(f"{name} = {plus('first', fixed.offset)}")
            return "weights", name, True
        held, column = self.cell.held(value)
        t.let(f"{name} = {plus(row_of(self.cell, held, 'lane'), column)}")
        return "floats", name, column % VECTOR == 0

    def rights(self, t: Text) -> list[tuple[str, str, int]]:
        """(memory, place, rows) of what the right side of a product of matrices is made of."""
        if not self.single.right:
            memory, place, _ = self.operand(t, 1)
            return [(memory, place, self.shapes[1][0])]
        names = []
        for part in self.single.right:
            name = t.name("p")
            t.let(f"{name} = {part_row(self.cell, part)}")
            names.append(("floats", name, part.length))
        return names


def _softmax(t: Text, given: _Operands, out: str) -> None:
    """One row a thread: the largest element, the exponentials' sum, the quotients."""
    count = columns(given.op.shape)
    memory, place, _ = given.operand(t, 0)
    pitch = padded(count, VECTOR)
    t.let(f"source = {place} + {times('piece', pitch)}", f"target = {out} + {times('piece', pitch)}")
    t.add(f"best = {memory}[source]")
    with t.count("i", u(1), u(count), u(1)):
        t.add(f"best = larger(best, {memory}[source + i])")
    t.add(f"total = {ZERO}")
    with t.count("i", u(0), u(count), u(1)):
        t.add(f"power = exp({memory}[source + i] - best)", "total += power", "floats[target + i] = power")
    with t.count("i", u(0), u(count), u(1)):
        t.add("floats[target + i] = floats[target + i] / total")


def _along(t: Text, given: _Operands, out: str) -> None:
    """The sum or the largest of a row or column a thread; of rows four partial results."""
    memory, place, aligned = given.operand(t, 0)
    shape, op = given.shapes[0], given.op
    largest = op.name == "max"
    pitch = padded(columns(shape), VECTOR)
    least = number(-float("inf")) if largest else ZERO

    def join(name: str, value: str) -> None:
        t.add(f"{name} = larger({name}, {value})" if largest else f"{name} += {value}")

    if op.attr[0] == -2.0:
        t.add(f"total = {least}")
        with t.count("i", u(0), u(shape[0]), u(1)):
            join("total", f"{memory}[{place} + {times('i', pitch)} + piece]")
    else:
        count = columns(shape)
        t.let(f"line = {place} + {times('piece', pitch)}")
        t.add(*(f"s{e} = {least}" for e in range(VECTOR)))
        if whole := count // VECTOR * VECTOR:
            with t.count("i", u(0), u(whole), u(VECTOR)):
                for e, x in enumerate(load(t, memory, "line + i", aligned)):
                    join(f"s{e}", x)
        for e in range(count - whole):
            join(f"s{e}", f"{memory}[{plus('line', whole + e)}]")
        for e in (1, 2, 3):
            join("s0", f"s{e}")
        t.add("total = s0")
    t.add(f"floats[{out} + piece] = total")


def _reshape(t: Text, given: _Operands, out: str) -> None:
    """One element a thread."""
    memory, place, _ = given.operand(t, 0)
    before, after = columns(given.shapes[0]), columns(given.op.shape)

    def at(base: str, count: int) -> str:
        return f"{base} + piece // {u(count)} * {u(padded(count, VECTOR))} + piece % {u(count)}"

    t.add(f"floats[{at(out, after)}] = {memory}[{at(place, before)}]")


def _concat(t: Text, given: _Operands, out: str) -> None:
    """One element a thread; in each operand's range it is that one's."""
    matrix = len(given.op.shape) == 2
    count = columns(given.op.shape) if matrix else 1
    pitch = padded(count, VECTOR) if matrix else 1
    t.let(f"line = piece // {u(count)}", f"near = piece % {u(count)}")
    t.add(f"found = {ZERO}")
    begin = 0
    for place_of, shape in enumerate(given.shapes):
        memory, place, _ = given.operand(t, place_of)
        with t.block(f"if line >= {u(begin)} and line < {u(begin + shape[0])}"):
            t.add(f"found = {memory}[{place} + (line - {u(begin)}) * {u(pitch)} + near]")
        begin += shape[0]
    t.add(f"floats[{out} + line * {u(pitch)} + near] = found")


def _transpose(t: Text, given: _Operands, out: str) -> None:
    """One element a thread."""
    memory, place, _ = given.operand(t, 0)
    rows, count = given.op.shape
    t.let(f"line = piece // {u(count)}", f"near = piece % {u(count)}")
    t.add(f"found = {memory}[{place} + near * {u(padded(rows, VECTOR))} + line]")
    t.add(f"floats[{out} + line * {u(padded(count, VECTOR))} + near] = found")


def _by_vector(t: Text, given: _Operands, out: str) -> None:
    """Matrix times vector: one element a thread, four columns at a time."""
    left, left_place, left_aligned = given.operand(t, 0)
    right, right_place, right_aligned = given.operand(t, 1)
    count = given.shapes[0][1]
    t.let(f"line = {left_place} + {times('piece', padded(count, VECTOR))}")
    t.add(f"total = {ZERO}")
    with t.count("i", u(0), u(padded(count, VECTOR)), u(VECTOR)):
        a = load(t, left, "line + i", left_aligned, inside("i", count))
        b = load(t, right, f"{right_place} + i", right_aligned, inside("i", count))
        for x, y in zip(a, b, strict=True):
            t.add(f"total += {x} * {y}")
    t.add(f"floats[{out} + piece] = total")


def _by_matrix(t: Text, given: _Operands, out: str) -> None:
    """Matrix times matrix: a thread sums four columns of a few rows."""
    left, left_place, _ = given.operand(t, 0)
    (rows, inner), (_, count) = given.shapes
    wide = padded(count, VECTOR)
    pieces = wide // VECTOR
    t.let(f"line0 = piece // {u(pieces)} * {u(ROWS_AT_ONCE)}", f"near = piece % {u(pieces)} * {u(VECTOR)}")
    for r in range(ROWS_AT_ONCE):
        # rows beyond the last one are the last one's, and not stored
        t.let(f"line = line0 + {u(r)}", f"line = line if line < {u(rows)} else {u(rows - 1)}")
        t.let(f"l{r} = {left_place} + {times('line', padded(inner, VECTOR))}")
        t.add(*(f"s{r}_{e} = {ZERO}" for e in range(VECTOR)))
    begin = 0
    for memory, place, length in given.rights(t):
        with t.count("i", u(0), u(length), u(1)):
            t.add(f"x0, x1, x2, x3 = ld4({memory}, {place} + {times('i', wide)} + near)")
            for r in range(ROWS_AT_ONCE):
                t.add(f"y = {left}[{plus(f'l{r}', begin)} + i]")
                t.add(*(f"s{r}_{e} += y * x{e}" for e in range(VECTOR)))
        begin += length
    for r in range(ROWS_AT_ONCE):
        with t.block(f"if line0 + {u(r)} < {u(rows)}"):
            names = ", ".join(f"s{r}_{e}" for e in range(VECTOR))
            t.add(f"st4(floats, {out} + (line0 + {u(r)}) * {u(wide)} + near, {names})")
