"""The meanings of operations: computed with an array library, or spelled in the terms of a back end."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any, TypeVar

from abw.core.ir.operations import OPERATIONS

T = TypeVar("T")


class Arrays:
    """An array library, NumPy or PyTorch, extended by the table's operations."""

    def __init__(self, library: ModuleType) -> None:
        """Its functions take and give arrays."""
        self._library = library

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._library, name, None) or partial(OPERATIONS[name].meaning, self)


def spell(
    name: str,
    args: Sequence[T | float],
    own: Container[str],
    do: Callable[[str, Sequence[T]], T],
    number: Callable[[float], T],
) -> T:
    """The result of an element-wise operation by a back end that has code for the names in `own`.

    `do(name, args)` is called for the operation itself where it is one of these, else for each step of its
    meaning; `number` gives constants. Besides operations of the table there are the steps `less(a, b)`,
    `less_equal(a, b)` and `equal(a, b)`, conditions, and `select(condition, yes, no)`. Arguments that are
    Python's numbers stay so. Errors: ValueError for what is neither in `own` nor made of others.
    """
    speller = _Speller(own, do, number)
    terms = (value if type(value) is float else _Term(speller, value) for value in args)
    result: T = speller.apply(name, *terms).value
    return result


@dataclass(frozen=True, slots=True)
class _Speller:
    """The `xp` that does each step by a back end's means."""

    own: Container[str]
    do: Callable[[str, Sequence[Any]], Any]
    number: Callable[[float], Any]
    spelled: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Callable[..., _Term]:
        return partial(self.apply, name)

    def where(self, condition: _Term, yes: _Term | float, no: _Term | float) -> _Term:
        return self.apply("select", condition, yes, no)

    def apply(self, name: str, *args: _Term | float) -> _Term:
        if name in self.own:
            values = [a.value if isinstance(a, _Term) else self.number(a) for a in args]
            return _Term(self, self.do(name, values))
        if name not in OPERATIONS or name in self.spelled:
            raise ValueError(f"no code for '{name}', which is made of nothing else")
        result: _Term = OPERATIONS[name].meaning(replace(self, spelled=(*self.spelled, name)), *args)
        return result


def _both(name: str) -> tuple[Callable[..., _Term], Callable[..., _Term]]:
    """A sign with a term on its left, and the same sign with a term on its right."""
    return (
        lambda term, other: term.speller.apply(name, term, other),
        lambda term, other: term.speller.apply(name, other, term),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Term:
    """A back end's value, on which the signs of Python work."""

    speller: _Speller
    value: Any

    __add__, __radd__ = _both("add")
    __sub__, __rsub__ = _both("sub")
    __mul__, __rmul__ = _both("mul")
    __truediv__, __rtruediv__ = _both("div")
    __lt__, __gt__ = _both("less")
    __le__, __ge__ = _both("less_equal")
    __eq__, _ = _both("equal")  # type: ignore[assignment]

    @property
    def shape(self) -> Any:  # noqa: ANN401
        """The shape of a value that has one."""
        return self.value.shape

    def __neg__(self) -> _Term:
        return self.speller.apply("neg", self)
