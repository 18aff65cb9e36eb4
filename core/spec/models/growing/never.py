"""Clauses whose conditions can never hold together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from abw.core.ir.growth import Clause, Number, Place, Test

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
        if only.comparison is None:
            tests.append(Test(only.value, negated=not only.negated))
    for value in dict.fromkeys(test.value for test in tests):
        own = [test for test in tests if test.value == value]
        if not _possible(value, own):
            return f"{_said(value)} cannot be all that is asked of it"
    return ""


def _required(number: int, clauses: Sequence[Clause]) -> Iterator[Test]:
    """What must hold for a clause to be done."""
    yield from clauses[number].when
    for needed in clauses[number].needs:
        yield from _required(needed, clauses)


def _possible(value: Place | Number, tests: Iterable[Test]) -> bool:
    """Whether one vertex or number can pass all tests."""
    low, high, holes, absent = 0, LARGEST, set(), True
    for test in tests:
        if test.comparison is None:
            if isinstance(value, Place):
                low, high, absent = _there(low, high, absent, not test.negated)
            elif test.negated:
                high = min(high, 0)
            else:
                low, absent = max(low, 1), False
        elif not test.negated:
            absent = False
            match test.comparison:
                case "==":
                    low, high = max(low, test.against), min(high, test.against)
                case "!=":
                    holes.add(test.against)
                case "<":
                    high = min(high, test.against - 1)
                case "<=":
                    high = min(high, test.against)
                case ">":
                    low = max(low, test.against + 1)
                case ">=":
                    low = max(low, test.against)
        elif test.comparison == "==":  # also where it is absent
            holes.add(test.against)
    while low in holes:
        low += 1
    return absent or low <= high


def _there(low: int, high: int, absent: bool, wanted: bool) -> tuple[int, int, bool]:
    """A vertex that must be there is taken for a number, one that must not for none."""
    return (low, high, False) if wanted else (low, -1, absent)


def _said(value: Place | Number) -> str:
    place = value.place if isinstance(value, Number) else value
    names = [hop.link for hop in place.hops] + ([value.field] if isinstance(value, Number) else [])
    return f"'{'.'.join(names) or 'this'}'"
