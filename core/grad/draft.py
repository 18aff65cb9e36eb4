"""A cell in the making: expressions written with Python's signs, of which equal ones are made once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from abw.core.ir.cell import Cell, Op, Param, Port, Shape

Source = Literal["input", "saved", "gradient", "param"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """What a cell in the making reads: of a forward cell an input, an output, an output's gradient, or a
    parameter, by its number there.
    """

    source: Source
    number: int


@dataclass(frozen=True, slots=True)
class Step:
    """An operation on earlier expressions."""

    op: str
    args: tuple[int, ...]
    shape: Shape
    attr: tuple[float, ...] = ()


class Draft:
    """Expressions by number. `labels`: the variables that some are written to."""

    def __init__(self) -> None:
        """Begin an empty cell."""
        self.made: list[Leaf | Step] = []
        self.labels: dict[int, str] = {}
        self._shapes: list[Shape] = []
        self._number: dict[Leaf | Step, int] = {}

    def leaf(self, source: Source, number: int, shape: Shape) -> Value:
        """Something that is read."""
        return self._add(Leaf(source, number), shape)

    def apply(
        self, op: str, *args: Value | float, shape: Shape | None = None, attr: Sequence[float] = ()
    ) -> Value:
        """An operation; of an element-wise one the shape is that of its arguments that are no numbers."""
        values = [a if isinstance(a, Value) else self.number(a) for a in args]
        made = shape if shape is not None else max((a.shape for a in values), key=len)
        return self._add(Step(op, tuple(a.at for a in values), made, tuple(map(float, attr))), made)

    def number(self, value: float) -> Value:
        """A number, which fits any shape."""
        return self._add(Step("constant", (), (), (float(value),)), ())

    def zeros(self, shape: Shape) -> Value:
        """Zeros of a shape."""
        zero = self._add(Step("constant", (), (1,), (0.0,)), (1,))
        return spread(zero, (1,) * len(shape), shape)

    def cell(
        self,
        name: str,
        inputs: Sequence[tuple[str, Leaf]],
        params: Sequence[tuple[Param, Leaf]],
        outputs: Sequence[tuple[str, Value]],
    ) -> Cell:
        """What the outputs need, as a cell that has these leaves for inputs and parameters, in this order."""
        values = [v if isinstance(self.made[v.at], Step) else self.apply("identity", v) for _, v in outputs]
        place = {self._number[leaf]: n for n, (_, leaf) in enumerate([*inputs, *params])}
        ops: list[Op] = []
        for at in self.needed(values):
            made = self.made[at]
            if isinstance(made, Step):
                place[at] = len(inputs) + len(params) + len(ops)
                args = tuple(place[a] for a in made.args)
                ops.append(Op(made.op, args, made.shape, made.attr, self.labels.get(at, "")))
        return Cell(
            name,
            tuple(Port(port, self._shapes[self._number[leaf]]) for port, leaf in inputs),
            tuple(param for param, _ in params),
            tuple(ops),
            tuple((port, place[v.at]) for (port, _), v in zip(outputs, values, strict=True)),
        )

    def needed(self, values: Sequence[Value]) -> list[int]:
        """The expressions that these are made of, each behind its arguments. Cost: linear in all."""
        wanted = {value.at for value in values}
        for at in range(len(self.made) - 1, -1, -1):
            made = self.made[at]
            if at in wanted and isinstance(made, Step):
                wanted.update(made.args)
        return sorted(wanted)

    def shape_of(self, at: int) -> Shape:
        """The shape of an expression."""
        return self._shapes[at]

    def _add(self, what: Leaf | Step, shape: Shape) -> Value:
        if what not in self._number:
            self._number[what] = len(self.made)
            self.made.append(what)
            self._shapes.append(shape)
        return Value(self, self._number[what])


def _sign(op: str) -> Callable[[Value, Value | float], Value]:
    return lambda value, other: value.draft.apply(op, value, other)


def _turned_sign(op: str) -> Callable[[Value, float], Value]:
    return lambda value, other: value.draft.apply(op, other, value)


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """An expression of a draft, on which Python's signs work."""

    draft: Draft
    at: int

    @property
    def shape(self) -> Shape:
        """Its shape."""
        return self.draft.shape_of(self.at)

    __add__, __sub__, __mul__, __truediv__ = _sign("add"), _sign("sub"), _sign("mul"), _sign("div")
    __lt__, __gt__, __matmul__ = _sign("lt"), _sign("gt"), _sign("matmul")
    __radd__, __rsub__, __rmul__ = _turned_sign("add"), _turned_sign("sub"), _turned_sign("mul")

    def __neg__(self) -> Value:
        return self.draft.apply("neg", self)


def equal(x: Value, y: Value) -> Value:
    """1 where both are the same, else 0."""
    return x.draft.apply("eq", x, y)


def where(condition: Value, yes: Value | float, no: Value | float) -> Value:
    """One of two, element by element."""
    return condition.draft.apply("where", condition, yes, no)


def function(name: str, x: Value) -> Value:
    """A function of the table, element by element."""
    return x.draft.apply(name, x)


def product(a: Value, b: Value) -> Value:
    """A matrix times a vector or a matrix."""
    return a.draft.apply("matmul", a, b, shape=(a.shape[0], *b.shape[1:]))


def transposed(a: Value) -> Value:
    """A matrix's rows as columns."""
    return a.draft.apply("transpose", a, shape=a.shape[::-1])


def reshaped(x: Value, shape: Shape) -> Value:
    """The elements in another shape."""
    return x if x.shape == shape else x.draft.apply("reshape", x, shape=shape, attr=(len(x.shape), *shape))


def part(x: Value, start: int, stop: int) -> Value:
    """Elements or rows `start` up to `stop`."""
    return x.draft.apply("slice", x, shape=(stop - start, *x.shape[1:]), attr=(start, stop))


def joined(parts: Sequence[Value]) -> Value:
    """One behind the other along the first axis."""
    if len(parts) == 1:
        return parts[0]
    shape = (sum(p.shape[0] for p in parts), *parts[0].shape[1:])
    return parts[0].draft.apply("concat", *parts, shape=shape)


def spread(x: Value, inner: Shape, shape: Shape) -> Value:
    """A vector taken as of shape `inner` and repeated along its sizes of 1."""
    return x.draft.apply("spread", x, shape=shape, attr=(*inner, *shape))


def outer(x: Value, y: Value) -> Value:
    """Each element of one vector times each of another."""
    shape = (*x.shape, *y.shape)
    return spread(x, (*x.shape, 1), shape) * spread(y, (1, *y.shape), shape)


def total(x: Value, axis: int = -1) -> Value:
    """The sum of a vector, as one of size 1; of a matrix those along an axis, -1 or -2."""
    if len(x.shape) == 1:
        return x.draft.apply("sum", x, shape=(1,), attr=(-1, 1))
    return x.draft.apply("sum", x, shape=(x.shape[axis + 1],), attr=(axis, 0))


def along(x: Value, axis: int, shape: Shape) -> Value:
    """What `total` or a maximum along an axis gave, repeated along it in the shape that was reduced."""
    if len(shape) == 1:
        return spread(x, (1,), shape)
    return spread(x, (shape[0], 1) if axis == -1 else (1, shape[1]), shape)
