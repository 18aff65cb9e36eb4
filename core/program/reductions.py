"""Sums, means, maxima and attention over any number of values: one node each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.ir.cell import Cell, Op, Port, Shape
from abw.core.ir.model import SPREADS, Attention, Reduction, with_reduction, with_type
from abw.core.program.recording.recorder import Call, Callee
from abw.core.program.recording.values import Value, owner

# Methods of a net that a cell of the same name hides.
NAMES = ("sum", "mean", "max", "var", "std", "softmax", "attend")


class Reductions:
    """The reductions of a net: types that are added to its library when they are first called."""

    def __init__(self, net: Any) -> None:  # noqa: ANN401 (a `Net`, whose part this is)
        self._net = net
        self._numbers: dict[tuple[Reduction | Attention, tuple[Shape, ...]], int] = {}
        self._calls: dict[tuple[Reduction, type], Call] = {}
        self._attends: dict[tuple[object, ...], Call] = {}
        self._softmax: dict[Shape, Any] = {}

    def reduce(self, reduction: Reduction, values: Iterable[Any]) -> Value:
        """See `Net.sum`."""
        given: Any = values if type(values) in (list, tuple) else list(values)
        call = self._calls.get((reduction, type(given[0]))) if given else None
        if call is None:
            return self._first(reduction, given)
        found: Value = call(given)
        return found

    def attend(
        self, query: object, keys: Iterable[Any], values: Iterable[Any], heads: int, scaled: bool
    ) -> Any:  # noqa: ANN401
        """See `Net.attend`."""
        kind = Attention(heads, scaled and query is not None)
        single = type(query) not in (list, tuple)
        lists: tuple[Any, ...] = values, keys, [query] if single else query
        if all(type(each) in (list, tuple) and each for each in lists):
            known = self._attends.get((kind, *(type(each[0]) for each in lists)))
            if known is not None:
                found = known(*lists)
                return found[0] if single else found
        return self._attend(kind, values, keys, query)

    def _attend(self, kind: Attention, values: Iterable[Any], keys: Iterable[Any], query: Any) -> Any:  # noqa: ANN401
        """Attend with what may be no values of one class yet, or a single query or value."""
        several = isinstance(query, list | tuple) and any(isinstance(each, Value) for each in query)
        queries: Any = query if several else [[1.0] if query is None else query]
        found = self._alike("attend's values", [*values])
        scores = self._alike("attend's keys", [*keys])
        if len(found) != len(scores):
            raise AbwError(f"attend has {len(scores)} keys for {len(found)} values")
        asked = self._alike("attend's query", queries)
        shapes = found[0].shape, scores[0].shape, asked[0].shape
        for what, shape in zip(("values", "keys", "query"), shapes, strict=True):
            if len(shape) != 1 or kind.heads < 1 or shape[0] % kind.heads:
                message = f"attend: {what} of {list(shape)} have no {kind.heads} equal parts"
                raise AbwError(message, hint="vectors whose length is a multiple of heads")
        if shapes[1] != shapes[2]:
            message = f"attend has keys of {list(shapes[1])} for a query of {list(shapes[2])}"
            raise AbwError(message, hint="without a query, keys are scores: a number each")
        made: list[Any] = found * len(asked)
        if len(found) > 1:
            number, classes = self._number(kind, shapes), [self._net._values[shape] for shape in shapes]
            named = tuple(zip(("values", "keys", "queries"), classes, strict=True))
            callee = Callee("attend", number, named, (classes[0],), (self._net._kind[shapes[0]],))
            recorder, known = self._net._session.recorder, (kind, *classes)
            made = recorder.attend(callee, found, scores, asked)
            if known not in self._attends:
                self._attends[known] = recorder.callable_attention(callee, partial(self._attend, kind))
        return made if several else made[0]

    def softmax(self, values: Iterable[Any]) -> list[Value]:
        """See `Net.softmax`."""
        given = self._alike("softmax", [*values])
        shape = given[0].shape
        power, share = self._cells(shape)
        most = self.reduce("max", given)
        powers = [power(value, most) for value in given]
        total = self.reduce("sum", powers)
        return [share(value, total) for value in powers]

    def _cells(self, shape: Shape) -> tuple[Call, Call]:
        """The cells exp(x - y) and x / y of values of a shape, which are added if they are new."""
        if shape not in self._softmax:
            inputs = Port("x", shape), Port("y", shape)
            minus, exp = Op("sub", (0, 1), shape), Op("exp", (2,), shape)
            of = "x".join(map(str, shape))
            made = (
                Cell(f"softmax-power({of})", inputs, (), (minus, exp), (("z", 3),)),
                Cell(f"softmax-share({of})", inputs, (), (Op("div", (0, 1), shape),), (("z", 2),)),
            )
            for cell in made:
                self._net._extend(with_type(self._net._session.library, cell, ()))
            self._softmax[shape] = tuple(vars(self._net)[cell.name] for cell in made)
        found: tuple[Call, Call] = self._softmax[shape]
        return found

    def _first(self, reduction: Reduction, given: Sequence[Any]) -> Value:
        """Reduce what nothing was made for yet, or is no list of several values of one class."""
        values = self._alike(reduction, given)
        if len(values) == 1:
            return self._of_one(reduction, values[0])
        kind, shape = type(values[0]), values[0].shape
        if {*map(type, values)} != {self._net._values[shape]}:
            number = self._number(reduction, (shape,))
            return self._node(number, shape, len(values), *(value.ref for value in values))
        if (reduction, kind) not in self._calls:
            number, added = self._number(reduction, (shape,)), self._net._kind[shape]
            made = Callee(reduction, number, (("values", kind),), (kind,), (added,))
            self._calls[reduction, kind] = self._net._session.recorder.callable_reduction(made, self._refused)
        found: Value = self._calls[reduction, kind](values)
        return found

    def _refused(self, made: Callee, values: Any) -> Value:  # noqa: ANN401
        """Reduce what is no list of several values of one class, by their numbers or handles."""
        given, (shape,) = self._alike(made.name, [*values]), (kind.shape for _, kind in made.inputs)
        if given[0].shape != shape:
            raise AbwError(f"{made.name} wants values of {list(shape)}, not {list(given[0].shape)}")
        if len(given) == 1:
            return self._of_one(made.name, given[0])
        return self._node(made.number, shape, len(given), *(value.ref for value in given))

    def _of_one(self, reduction: str, value: Value) -> Value:
        """What a reduction makes of one value."""
        return self._net._zeros[value.shape] if reduction in SPREADS else value

    def _alike(self, what: str, given: Sequence[Any]) -> list[Value]:
        """Values of one shape; numbers among them become values. Errors: AbwError."""
        net = self._net
        if net._session.runner is None:
            net._session.refuse_idle()
        if not given:
            raise AbwError(f"{what} of no values", hint='net.zeros("hidden") where there are none')
        shape = next((each.shape for each in given if isinstance(each, Value)), None)
        found = [
            each if isinstance(each, Value) else net._brought(each, what, (shape,) if shape else net._shapes)
            for each in given
        ]
        if any(owner(each) is not net._session for each in found):
            raise AbwError(f"{what}: this is a value of another net")
        if len(shapes := dict.fromkeys(each.shape for each in found)) > 1:
            raise AbwError(f"{what} of values of several shapes: {', '.join(str(list(s)) for s in shapes)}")
        return found

    def _number(self, reduction: Reduction | Attention, shapes: tuple[Shape, ...]) -> int:
        """The number of a reduction's type, which is added if it is new."""
        if (reduction, shapes) not in self._numbers:
            made = with_reduction(self._net._session.library, reduction, shapes)
            self._numbers[reduction, shapes] = self._net._extend(made)
        return self._numbers[reduction, shapes]

    def _node(self, number: int, shape: Shape, *words: int) -> Value:
        net = self._net
        found: Any = net._values[shape]()
        found.ref = net._session.recorder.node(number, *words) + net._kind[shape]
        return found  # type: ignore[no-any-return]
