"""Values of programs: handles of results that may not be computed yet."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Any, ClassVar, NoReturn, Protocol
from weakref import ReferenceType, ref

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.exec.interface import Array, Picked
from abw.core.program.recording.asks import Ask, Best, question

SHAPES = 1 << 8
# Nets are numbered up to this, then from the first again.
NETS = 1 << 12
# The low bits of a handle say which value it is: `kind_of`; the others are its reference.
BITS = 20
KINDS = 1 << BITS


def kind_of(net: int, shape: int) -> int:
    """The low bits of the handles of a net's values of a shape."""
    return net % NETS * SHAPES + shape


class Owner(Protocol):
    """What values belong to: the session of a net."""

    def ask(self, asked: Ask, /) -> Any:  # noqa: ANN401
        """Answer a question; in a generator, return the object to yield."""

    def shown(self, handle: int, /) -> str:
        """Format the numbers of a value, if they are known without waiting."""


class Value:
    """A value: what a cell computes, a table's row, a parameter, or zeros.

    The methods below ask for its numbers: the program waits, while the programs of all other instances
    continue. In a generator function write `yield value.argmax()`.
    """

    __slots__ = ()
    ref: int
    shape: ClassVar[tuple[int, ...]]
    """The shape of all values of a class: each net has a class for each shape."""
    _net: ClassVar[ReferenceType[Owner]]
    _size: ClassVar[int]

    def argmax(self, allowed: Sequence[bool] | None = None) -> int:
        """Return the index of the largest element, the first of equals, among those that are `allowed`.

        Errors: AbwError if nothing is allowed, or an element is not a number.
        """
        mask = None if allowed is None else _mask(allowed, self._size)
        ask = Ask()  # as `question` does it: this is what programs do most
        ask.how, ask.handles, ask.argument = "argmax", (self.ref,), mask
        found: int = (self._net() or _gone()).ask(ask)
        return found

    def sample(self, allowed: Sequence[bool] | None = None) -> int:
        """Return an index drawn by the softmax of all elements, or of those `allowed`.

        The draw depends on the seed, the instance's number and the number of its earlier draws, not on the
        mini-batch or `eager=True`. Errors: AbwError if nothing is allowed, or an element is not a number.
        """
        mask = None if allowed is None else _mask(allowed, self._size)
        found: int = (self._net() or _gone()).ask(question("sample", (self.ref,), mask))
        return found

    def above(self, limit: float) -> bool:
        """Return whether its one number is larger. Errors: AbwError for a value of several numbers."""
        if self._size != 1:
            raise AbwError(
                f"above needs a value of one number, not {self}", hint="argmax picks one of several"
            )
        found: bool = (self._net() or _gone()).ask(question("above", (self.ref,), float(limit)))
        return found

    @staticmethod
    def _best(values: Sequence[Value], k: int, plus: Sequence[float] | None) -> list[Picked]:
        """See `abw.best`; the first of the values is of this class."""
        if len({*map(type, values)}) > 1:
            refuse_best(values)
        if not isinstance(k, int | np.integer) or k < 1:
            raise AbwError(f"best cannot pick {k!r}", hint="a number of elements, 1 or more")
        start = (0.0,) * len(values) if plus is None else tuple(map(float, plus))
        if len(start) != len(values):
            raise AbwError(f"plus has {len(start)} numbers, for {len(values)} values")
        if not all(number < inf for number in start):
            raise AbwError(f"plus contains NaN or infinity: {[*start]}")
        handles = tuple([value.ref for value in values])
        found: list[Picked] = owner(values[0]).ask(question("best", handles, Best(int(k), start)))
        return found

    def value(self) -> Array:
        """Return its numbers as an array."""
        found: Array = (self._net() or _gone()).ask(question("value", (self.ref,), None))
        return found

    def __copy__(self) -> Value:
        """The value itself: it never changes."""
        return self

    def __deepcopy__(self, _: object) -> Value:
        """The value itself: it never changes."""
        return self

    def __repr__(self) -> str:
        net = self._net()
        return f"Value {list(self.shape)}{net.shown(self.ref) if net else ''}"

    def __bool__(self) -> NoReturn:
        raise TypeError("a value is neither true nor false: use value.above(0)")

    def __float__(self) -> NoReturn:
        raise TypeError("a value has to be asked for its numbers: value.value()")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a value has to be asked for its numbers: value.value()")


def value_class(net: Owner, shape: tuple[int, ...]) -> type[Value]:
    """A class for a net's values of a shape."""
    return type("Value", (Value,), {"__slots__": ("ref",), **class_fields(net, shape)})


def class_fields(net: Owner, shape: tuple[int, ...]) -> dict[str, Any]:
    """What all values of a class have in common: none of it holds the net."""
    return {"_net": ref(net), "shape": shape, "_size": prod(shape)}


def owner(value: Value) -> Owner:
    """Return the net that a value belongs to. Errors: AbwError if it no longer exists."""
    return value._net() or _gone()


def refuse_best(values: object) -> NoReturn:
    """Raise the error for wrong values of `abw.best`."""
    if not isinstance(values, Sequence) or not all(isinstance(value, Value) for value in values):
        raise TypeError("abw.best takes a list of values: abw.best(k, [value, …])")
    if not values:
        raise AbwError("abw.best needs at least one value")
    if len({owner(value) for value in values}) > 1:
        raise AbwError("abw.best needs values of one net")
    shapes = ", ".join(sorted({str(list(value.shape)) for value in values}))
    raise AbwError(f"abw.best needs values of one shape, not {shapes}")


def _gone() -> NoReturn:
    raise AbwError(
        "the value's net is gone", hint="keep the result of abw.cells as long as you use its values"
    )


_BOOL = frozenset({bool})


def _mask(allowed: Sequence[bool], size: int) -> bytes:
    plain = _BOOL.issuperset(map(type, allowed))  # takes half the time
    mask = bytes(allowed) if plain else bytes([*map(bool, allowed)])
    if len(mask) != size:
        raise AbwError(f"{len(mask)} are said to be allowed or not, of {size}")
    if 1 not in mask:
        raise AbwError("nothing is allowed", hint="call it only where something can be chosen")
    return mask
