"""The text of what is done to one lane's elements: operands read, sums finished, results stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from abw.core.exec.cuda.image import FRAME, SLOT
from abw.core.exec.cuda.steps import CellSteps, Step, is_number
from abw.core.exec.cuda.text.text import Text, number, plus, times, u
from abw.core.exec.cuda.tiles import VECTOR
from abw.core.exec.lower.packing import PackedWeights
from abw.core.exec.lower.rows import columns, padded
from abw.core.exec.lower.stages import Part, Stage, spread_sizes
from abw.core.ir.cell import Shape
from abw.core.ir.operations import spell

ZERO = number(0.0)
# Element-wise operations that are one expression; others are made of these.
EXPRESSIONS: Mapping[str, str] = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "div": "{} / {}",
    "neg": "-{}",
    "less": "{} < {}",
    "less_equal": "{} <= {}",
    "equal": "{} == {}",
    "select": "{1} if {0} else {2}",
    "sigmoid": "sigmoid({})",
    "tanh": "tanh({})",
    "exp": "exp({})",
    "log": "log({})",
    "sqrt": "sqrt({})",
    "abs": "abs({})",
    "floor": "floor({})",
    "gelu": "gelu({})",
    "identity": "{}",
}
# No condition on any of the floats of a vector.
EVERY: Sequence[str | None] = (None,) * VECTOR

# What a step's function takes: the image, where the item's words begin, a tile's number, the memories.
SIGNATURE = "(words, at, tile, floats, weights, shared)"


def open_step(t: Text) -> None:
    """What every step begins with: its frame, its weights, the lanes, the thread."""
    t.let(f"frame = words[at + {u(1)}]", f"first = words[at + {u(4)}]", "lanes = words[frame]")
    t.let("thread = uint32(cuda.threadIdx.x)")


def row_of(cell: CellSteps, held: int, lane: str = "lane") -> str:
    """The float where a value's row begins."""
    home = cell.homes[held]
    if home.kind == "slot":
        return f"row(words, frame + {u(FRAME + SLOT * home.number)}, {lane})"
    if home.kind == "output":
        word = FRAME + SLOT * len(cell.normal.cell.inputs) + home.number
        return f"words[frame + {u(word)}] + {times(lane, home.pitch)}"
    begin = "words[frame + U1]" + (f" + {times('lanes', home.number)}" if home.number else "")
    return f"{begin} + {times(lane, home.pitch)}"


def block_of(weights: PackedWeights, unit: str) -> str:
    """Where the packed weights of a unit begin."""
    block = weights.block
    return f"first + {unit} // {u(block)} * {u(weights.block_floats)} + {unit} % {u(block)}"


@contextmanager
def guarded(t: Text, names: Sequence[str], condition: str | None) -> Iterator[None]:
    """What is added meanwhile sets floats, where a condition holds if there is one; else they are zero."""
    if condition:
        t.add(*(f"{name} = {ZERO}" for name in names))
    with t.when(condition or None):
        yield


def part_row(cell: CellSteps, part: Part, lane: str = "lane") -> str:
    """The float where an operand of products begins in a lane's row."""
    return plus(row_of(cell, part.value, lane), cell.column(part.value, part.start))


def operand_rows(t: Text, cell: CellSteps, part: Part, lines: Sequence[str]) -> list[str]:
    """The names of where an operand lies for these lanes of a tile, at the thread's `piece` of it.

    Lanes that there are not read the last one's row; nobody looks at their sums.
    """
    names = [t.name("p") for _ in lines]
    for name, line in zip(names, lines, strict=True):
        t.let(f"{name} = lane0 + {line}", f"{name} = {name} if {name} < lanes else lanes - {u(1)}")
        t.let(f"{name} = {part_row(cell, part, name)} + piece")
    return names


def load_part(t: Text, cell: CellSteps, part: Part, names: Sequence[str], place: str, element: str) -> None:
    """Four elements of an operand, from `element` on; zero beyond its end, where something else may lie."""
    aligned = cell.column(part.value, part.start) % VECTOR == 0
    loaded = load(t, "floats", place, aligned, inside(element, part.length))
    t.add(f"{', '.join(names)} = {', '.join(loaded)}")


def inside(first: str, count: int) -> Sequence[str | None]:
    """For each of four elements from `first` on whether it is one of `count`, where that is to be asked."""
    return [f"{first} + {u(e)} < {u(count)}" if count % VECTOR and e else None for e in range(VECTOR)]


def load(
    t: Text, memory: str, place: str, aligned: bool = True, within: Sequence[str | None] = EVERY
) -> list[str]:
    """Four consecutive floats; where `within` has a condition it must hold, else the float is zero."""
    names = [t.name("x") for _ in range(VECTOR)]
    if aligned:
        t.add(f"{', '.join(names)} = ld4({memory}, {place})")
        for name, condition in zip(names, within, strict=True):
            if condition is not None:
                t.add(f"{name} = {name} if {condition} else {ZERO}")
        return names
    begin = t.name("p")
    t.let(f"{begin} = {place}")
    for e, (name, condition) in enumerate(zip(names, within, strict=True)):
        value = f"{memory}[{plus(begin, e)}]"
        t.add(f"{name} = {value}" if condition is None else f"{name} = {value} if {condition} else {ZERO}")
    return names


def _read_row(t: Text, cell: CellSteps, shape: Shape, value: int) -> list[str]:
    """The floats `unit` to `unit + 3` of the row of a value of this shape."""
    held, column = cell.held(value)
    aligned, count = column % VECTOR == 0, columns(shape)
    # beyond a part's end lies something else, which another block may be writing
    within = EVERY if aligned else inside("unit", count)
    row = t.name("p")
    t.let(f"{row} = {row_of(cell, held)}")
    return load(t, "floats", f"{plus(row, column)} + unit", aligned, within)


def _read_spread(t: Text, cell: CellSteps, value: int) -> list[str]:
    """The floats `unit` to `unit + 3` of a row that a smaller value is repeated to."""
    op = cell.normal.op(value)
    held, column = cell.held(op.args[0])
    (*down, across), count = spread_sizes(op), columns(op.shape)
    pitch = padded(count, VECTOR)
    row = t.name("p")
    t.let(f"{row} = {plus(row_of(cell, held), column)}")
    if across > 1:
        near = t.name("u")
        t.let(f"{near} = unit % {u(pitch)}")
        aligned = column % VECTOR == 0
        within = EVERY if aligned else inside(near, count)
        return load(t, "floats", f"{row} + {near}", aligned, within)
    name = t.name("x")
    line = f" + unit // {u(pitch)}" if down and down[0] > 1 else ""
    t.add(f"{name} = floats[{row}{line}]")
    return [name] * VECTOR


def assign(t: Text, name: str, args: Sequence[str]) -> str:
    """Add the lines of an element-wise operation; gives the name that holds the result."""

    def line(step: str, values: Sequence[str]) -> str:
        made = t.name("v")
        t.add(f"{made} = {EXPRESSIONS[step].format(*values)}")
        return made

    return spell(name, args, EXPRESSIONS, line, number)


def operate(t: Text, cell: CellSteps, step: Step, known: Mapping[int, list[str]]) -> None:
    """The operations of a stage on the floats `unit` to `unit + 3` of `lane`'s rows; `known`: its gates'."""
    stage = step.stage
    assert isinstance(stage, Stage)
    normal = cell.normal
    found = dict(known)

    def read(a: int) -> list[str]:
        if a in found:
            return found[a]
        if is_number(normal, a):
            found[a] = [number(normal.op(a).attr[0])] * VECTOR
        elif normal.static[a]:
            fixed = next(f for f in step.fixed if (f.value, f.shape) == (a, stage.shape))
            found[a] = load(t, "weights", f"{plus('first', fixed.offset)} + unit")
        else:
            found[a] = _read_row(t, cell, stage.shape, a)
        return found[a]

    for value in stage.operations:
        op = normal.op(value)
        if op.name == "spread":
            found[value] = _read_spread(t, cell, value)
            continue
        arguments = [read(a) for a in op.args]
        found[value] = [assign(t, op.name, [a[e] for a in arguments]) for e in range(VECTOR)]
    for value in stage.stores:
        t.add(f"st4(floats, {row_of(cell, value)} + unit, {', '.join(found[value])})")


def epilogue_text(cell: CellSteps, step: Step) -> str:
    """The function of what a step does to one lane's sums of four units: stored, or finished and operated on.

    `block`: where the biases of the units begin; `s0`, `s1`, …: gate after gate, unit after unit.
    """
    t, gates = Text(), step.packed.group.gates
    sums = [[f"s{g * VECTOR + e}" for e in range(VECTOR)] for g in range(len(gates))]
    with t.block(f"def {epilogue_call('block', [name for gate in sums for name in gate])}"):
        if step.sums:
            t.let(f"at_sums = words[frame + {u(FRAME - 1)}] + lane * {u(cell.sums)} + unit")
        if step.hoisted:
            t.add(*(f"st4(floats, {plus('at_sums', at)}, {', '.join(sums[g])})" for g, at in step.sums))
            return str(t)
        added = [("floats", "at_sums", g, at) for g, at in step.sums]
        biased = [g for g, gate in enumerate(gates) if gate.biases]
        added += [("weights", "block", g, g * step.packed.block) for g in biased]
        for memory, base, g, at in added:
            found = load(t, memory, plus(base, at))
            t.add(*(f"{name} += {value}" for name, value in zip(sums[g], found, strict=True)))
        known = {gate.value: sums[g] for g, gate in enumerate(gates)}
        operate(t, cell, step, known)
    return str(t)


def epilogue_call(block: str, names: Sequence[str]) -> str:
    """The call of that function with the sums of all gates."""
    return f"epilogue(words, frame, first, {block}, lanes, lane, unit, floats, weights, {', '.join(names)})"
