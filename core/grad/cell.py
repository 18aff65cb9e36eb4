"""Reverse mode on a cell: a forward cell that gives what is saved, a backward cell, and what is left to sum.

The backward cell is an ordinary cell: `transpose(W) @ dz` is a product with weights, packed like any other.
The gradients of weights are no part of it. It gives what they are made of, and `terms` say which products,
summed over all rows of a mini-batch, these gradients are (Looks et al., 2017, sum them once a batch; here it
is once a type).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from abw.core.cell.names import value_names
from abw.core.cell.normal import NormalCell, normalise
from abw.core.grad.draft import Draft, Leaf, Source, Step, Value, joined, part, product, transposed
from abw.core.grad.rules import RULES, Site
from abw.core.ir.cell import Cell, Op, Port, Shape
from abw.core.ir.operations import OPERATIONS

Named = TypeVar("Named")


@dataclass(frozen=True, slots=True)
class Operand:
    """What a term multiplies with: floats `start` to `start + length` of a value of the forward cell.

    `source`: its input or output (`saved`) of this number.
    """

    source: Source
    number: int
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Term:
    """An addend of the gradient of what lanes share: value `static` of the forward cell.

    Without `x` the sum over all rows of the backward cell's output `dz`, else that of the outer products
    dz x^T, in columns `column` on.
    """

    static: int
    dz: int
    x: Operand | None = None
    column: int = 0


@dataclass(frozen=True, slots=True)
class Differentiated:
    """A cell with its derivative.

    `forward` has the cell's outputs and behind them those that the backward cell needs. Of `backward` input i
    is what `reads[i]` says of the forward cell, `inputs` maps an input of the forward cell to the output that
    is its gradient, and `params[i]` is the forward cell's parameter behind parameter i. `backward` is None
    where no gradient passes.

    The terms make the gradients of `statics`, values that lanes share: parameters, and what is computed of
    these alone. `shared` is that computation, the parameters its inputs and `statics` its outputs; its own
    backward cell gives the gradients of the parameters, once a mini-batch.
    """

    forward: Cell
    backward: Cell | None
    reads: tuple[Leaf, ...] = ()
    inputs: Mapping[int, int] = field(default_factory=dict)
    params: tuple[int, ...] = ()
    terms: tuple[Term, ...] = ()
    statics: tuple[int, ...] = ()
    shared: Differentiated | None = None

    def shape_of(self, static: int) -> Shape:
        """The shape of a value that lanes share."""
        return self.forward.shape_of(static)


def differentiate(
    cell: Cell, wanted: Collection[int] | None = None, given: Collection[int] | None = None
) -> Differentiated:
    """Differentiate a cell. Cost: linear in its operations, some milliseconds.

    `wanted`: the inputs whose gradients are wanted, `given`: the outputs that have one (None: all).
    """
    normal = normalise(cell)
    wanted = range(len(cell.inputs)) if wanted is None else sorted(wanted)
    given = range(len(cell.outputs)) if given is None else sorted(given)
    return _Reverse(normal, wanted, given, _to_save(normal, wanted, given)).build()


class _Reverse:
    """Goes through a cell's values from the last to the first.

    `saved`: the values that are outputs of the forward cell beside its own. Where it is None everything is
    taken to be there, and `asked` is what was needed.
    """

    def __init__(
        self, normal: NormalCell, wanted: Sequence[int], given: Sequence[int], saved: Sequence[int] | None
    ) -> None:
        self.normal, self.cell = normal, normal.cell
        cell = self.cell
        self.wanted, self.given, self.dry = wanted, given, saved is None
        self.asked: set[int] = set()
        self.names = value_names(cell)
        self.outputs = [*cell.outputs, *((f"saved {self.names[v]}", v) for v in saved or ())]
        self.number = {value: o for o, (_, value) in enumerate(self.outputs)}
        self.draft = Draft()
        self.values: dict[int, Value] = {}
        self.gradients: dict[int, list[Value]] = {}
        self.pieces: dict[int, list[tuple[int, int, Value]]] = {}
        self.found: list[tuple[int, Value, tuple[int, int, int] | None, int]] = []  # see Term
        self.carries = [i in self.wanted for i in range(len(cell.inputs))] + [True] * len(cell.params)
        for op in cell.ops:
            self.carries.append(any(self.carries[a] for a in op.args))

    def walk(self) -> None:
        """Find the gradients of the inputs, and the terms of those of weights."""
        cell = self.cell
        for o in self.given:
            value = cell.outputs[o][1]
            self._add(value, self.draft.leaf("gradient", o, cell.shape_of(value)))
        for value in range(cell.first_op + len(cell.ops) - 1, cell.first_op - 1, -1):
            if self.carries[value] and not self.normal.static[value]:
                g = self._gradient(value)
                if g is not None:
                    self._backward(value, g)

    def build(self) -> Differentiated:
        """All of it, as cells."""
        self.walk()
        cell, draft = self.cell, self.draft
        outputs: dict[int, tuple[int, str, Value]] = {}

        def output(value: Value, name: str) -> int:
            return outputs.setdefault(value.at, (len(outputs), name, value))[0]

        inputs = {}
        for i in self.wanted:
            g = self._gradient(i)
            if g is not None:
                inputs[i] = output(g, f"d_{cell.inputs[i].name}")
        terms = []
        for static, dz, x, column in self.found:
            operand = None if x is None else self._operand(*x)
            name = draft.labels.get(dz.at) or f"d_{self.names[static]}"
            terms.append(Term(static, output(dz, name), operand, column))
        forward = replace(cell, outputs=tuple(self.outputs))
        if not outputs:
            return Differentiated(forward, None)
        values = [(name, value) for _, name, value in outputs.values()]
        made = [draft.made[at] for at in draft.needed([value for _, value in values])]
        order: list[Source] = ["input", "saved", "gradient"]
        leaves = [leaf for leaf in made if isinstance(leaf, Leaf)]
        reads = sorted((leaf for leaf in leaves if leaf.source != "param"),
                       key=lambda leaf: (order.index(leaf.source), leaf.number))  # fmt: skip
        params = sorted(leaf.number for leaf in leaves if leaf.source == "param")
        backward = draft.cell(
            f"{cell.name}-backward",
            _unlike([(self._name(leaf), leaf) for leaf in reads]),
            [(cell.params[p], Leaf("param", p)) for p in params],
            _unlike(values),
        )
        statics = tuple(sorted({term.static for term in terms}))
        shared = differentiate(_static_cell(self.normal, statics)) if statics else None
        return Differentiated(
            forward, backward, tuple(reads), inputs, tuple(params), tuple(terms), statics, shared
        )

    # values of the forward cell in the backward cell

    def value(self, v: int) -> Value:
        """A value of the forward cell: read where it is there, else computed again."""
        if v not in self.values:
            self.asked.add(v)
            self.values[v] = self._made(v)
        return self.values[v]

    def _made(self, v: int) -> Value:
        cell, shape = self.cell, self.cell.shape_of(v)
        if v < len(cell.inputs):
            return self.draft.leaf("input", v, shape)
        if v < cell.first_op:
            return self.draft.leaf("param", v - len(cell.inputs), shape)
        if v in self.number or (self.dry and not self.normal.static[v]):
            return self.draft.leaf("saved", self.number.get(v, v), shape)
        op = self.normal.op(v)
        made = self.draft.apply(op.name, *map(self.value, op.args), shape=shape, attr=op.attr)
        if op.label:
            self.draft.labels.setdefault(made.at, op.label)
        return made

    def _operand(self, v: int, start: int, length: int) -> Operand:
        if v < len(self.cell.inputs):
            return Operand("input", v, start, length)
        return Operand("saved", self.number[v], start, length)

    # gradients

    def _add(self, v: int, gradient: Value | None) -> None:
        """An addend of a value's gradient."""
        if gradient is None or not self.carries[v] or self.cell.shape_of(v) == ():
            return
        if self.normal.static[v]:
            self.found.append((v, gradient, None, 0))
        else:
            self.gradients.setdefault(v, []).append(gradient)

    def _gradient(self, v: int) -> Value | None:
        """The sum of what was added; None of nothing."""
        parts = self.gradients.get(v, []) + list(self._pieced(v))
        if not parts:
            return None
        result = parts[0]
        for more in parts[1:]:
            result = result + more
        if isinstance(self.draft.made[result.at], Step):
            self.draft.labels.setdefault(result.at, f"d_{self.names[v]}")
        return result

    def _pieced(self, v: int) -> list[Value]:
        """The gradients of a value's slices, one behind the other as far as they do not overlap."""
        length, *rest = self.cell.shape_of(v)
        rows: list[list[tuple[int, int, Value]]] = []
        for piece in sorted(self.pieces.get(v, []), key=lambda piece: piece[:2]):
            fitting = next((row for row in rows if row[-1][1] <= piece[0]), None)
            if fitting is None:
                rows.append([piece])
            else:
                fitting.append(piece)
        made = []
        for row in rows:
            parts, end = [], 0
            for start, stop, gradient in row:
                if start > end:
                    parts.append(self.draft.zeros((start - end, *rest)))
                parts.append(gradient)
                end = stop
            if length > end:
                parts.append(self.draft.zeros((length - end, *rest)))
            made.append(joined(parts))
        return made

    def _backward(self, v: int, g: Value) -> None:
        """Add to the gradients of the arguments of the operation that computes v."""
        op, static = self.normal.op(v), self.normal.static
        if op.name == "matmul" and len(op.shape) == 1 and static[op.args[0]] and not static[op.args[1]]:
            self._weights(op.args[0], op.args[1], g)
        elif op.name == "slice":
            start, stop = map(int, op.attr)
            self.pieces.setdefault(op.args[0], []).append((start, stop, g))
        else:
            site = Site(op, v, g, self.value, self.cell.shape_of)
            for i, a in enumerate(op.args):
                if self.carries[a] and self.cell.shape_of(a) != ():
                    self._add(a, RULES[op.name](site, i))

    def _weights(self, w: int, x: int, g: Value) -> None:
        """Differentiate weights times a vector, the parts of a concatenation each without a copy."""
        column = 0
        for v in self._parts(x):
            (length,) = self.cell.shape_of(v)
            self.found.append((w, g, (self.normal.root[v], self.normal.start[v], length), column))
            if self.carries[v]:
                back = transposed(self.value(w))
                if length < back.shape[0]:
                    back = part(back, column, column + length)
                self._add(v, product(back, g))
            column += length

    def _parts(self, v: int) -> list[int]:
        if v >= self.cell.first_op and not self.normal.static[v] and v not in self.number:
            op = self.normal.op(v)
            if op.name == "concat" and not any(self.normal.static[a] for a in op.args):
                return [p for a in op.args for p in self._parts(a)]
        return [v]

    def _name(self, leaf: Leaf) -> str:
        if leaf.source == "input":
            return self.cell.inputs[leaf.number].name
        name, value = self.outputs[leaf.number]
        return f"g_{name}" if leaf.source == "gradient" else self.names[value]


def _to_save(normal: NormalCell, wanted: Sequence[int], given: Sequence[int]) -> list[int]:
    """The values that the backward pass needs and cannot have element by element, or by a copy, of others."""
    cell, reverse = normal.cell, _Reverse(normal, wanted, given, None)
    reverse.walk()
    held = {v for v, static in enumerate(normal.static) if static or v < cell.first_op}
    held.update(value for _, value in cell.outputs)
    saved = {x[0] for _, _, x, _ in reverse.found if x is not None} - held

    def known(v: int) -> bool:
        if v in held or v in saved:
            return True
        cheap = OPERATIONS[normal.op(v).name].kind in ("element", "copy")
        return cheap and all(map(known, normal.arguments(v)))

    def save(v: int) -> None:
        if known(v):
            return
        if OPERATIONS[normal.op(v).name].kind == "copy":
            for a in normal.arguments(v):
                save(a)
        else:
            saved.add(v)

    for v in sorted(reverse.asked):
        save(v)
    return sorted(saved)


def _unlike(named: Sequence[tuple[str, Named]]) -> list[tuple[str, Named]]:
    """Names made unlike where two are the same."""
    seen: set[str] = set()
    result = []
    for name, what in named:
        while name in seen:
            name += "'"
        seen.add(name)
        result.append((name, what))
    return result


def _static_cell(normal: NormalCell, statics: Sequence[int]) -> Cell:
    """What computes these values from the parameters, as a cell whose inputs are the parameters."""
    cell, names = normal.cell, value_names(normal.cell)
    number = {len(cell.inputs) + p: p for p in range(len(cell.params))}
    ops: list[Op] = []
    for value, op in enumerate(cell.ops, cell.first_op):
        if normal.static[value]:
            number[value] = len(cell.params) + len(ops)
            ops.append(replace(op, args=tuple(number[a] for a in op.args)))
    inputs = tuple(Port(param.name, param.shape) for param in cell.params)
    return Cell(f"{cell.name}-shared", inputs, (), tuple(ops), tuple((names[v], number[v]) for v in statics))
