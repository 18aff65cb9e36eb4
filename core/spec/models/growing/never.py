"""Clauses whose conditions can never hold together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from abw.core.ir.growth import Clause, Number, Place, Test
from abw.core.spec.models.resolve import HOLDS

LARGEST = 2**31 - 1


def never(number: int, clauses: Sequence[Clause]) -> str:
    """Why clause `number` of a kind can never add a vertex; '' where it can, as far as its conditions say.

    They hold together with those of the clauses whose vertices it names. Each vertex or number is looked at
    by itself: what one says of another is not known.
    """
    clause = clauses[number]
    tests = list(_required(number, clauses))
    if clause.unless and all(test in tests for test in clause.unless):
        return "'unless' holds wherever 'when' does"
    if len(clause.unless) == 1:
        only = clause.unless[0]
        tests.append(Test(only.value, only.comparison, only.against, not only.negated))
    for value in dict.fromkeys(test.value for test in tests):
        own = [test for test in tests if test.value == value]
        near = {0, 1, *(test.against + step for test in own for step in (-1, 0, 1))}
        # where an answer changes, and where there is none
        cases = (None, *(n for n in near if 0 <= n <= LARGEST))
        if not any(all(_passes(test, case) for test in own) for case in cases):
            return f"{_said(value)} cannot be all that is asked of it"
    return ""


def _required(number: int, clauses: Sequence[Clause]) -> Iterator[Test]:
    """What must hold for a clause to be done."""
    yield from clauses[number].when
    for needed in clauses[number].needs:
        yield from _required(needed, clauses)


def _passes(test: Test, number: int | None) -> bool:
    """Whether a number, or as any number a vertex that is there, passes a test."""
    if number is None:
        return test.negated
    if test.comparison is None:
        return (isinstance(test.value, Place) or number != 0) != test.negated
    return HOLDS[test.comparison](number, test.against) != test.negated


def _said(value: Place | Number) -> str:
    place = value.place if isinstance(value, Number) else value
    names = [hop.link for hop in place.hops] + ([value.field] if isinstance(value, Number) else [])
    return f"'{'.'.join(names) or 'this'}'"
