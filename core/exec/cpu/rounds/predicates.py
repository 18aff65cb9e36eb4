"""Places, numbers and tests of the section `grow` as compiled code."""

from __future__ import annotations

from collections.abc import Sequence

from abw.core.exec.cpu.rounds.feeds import SIGNS, field_column
from abw.core.exec.cpu.rounds.state import StateFunction
from abw.core.ir.growth import Number, Place, Test, Tests


def evaluate(f: StateFunction, value: Place | Number, vertex: str, added: Sequence[str] = ()) -> str:
    """A place or number at a vertex, -1 for none; `added[i]`: what clause i added there."""
    if isinstance(value, Place):
        return f.follow(vertex if value.added is None else added[value.added], value.hops)
    found = f.column(field_column(value.field), evaluate(f, value.place, vertex, added))
    if not value.plus:
        return found
    # 32 bits, as columns have them
    total = f.let(f"add i32 {f.let(f'trunc i64 {found} to i32')}, {value.plus}")
    return f.either(f.test("sge", found, 0), f.most(f.let(f"sext i32 {total} to i64"), -1), "-1")


def holds(f: StateFunction, tests: Tests, vertex: str, added: Sequence[str] = ()) -> str:
    """Whether all tests hold at a vertex."""
    return f.both([_holds(f, test, evaluate(f, test.value, vertex, added)) for test in tests])


def _holds(f: StateFunction, test: Test, value: str) -> str:
    if test.comparison is not None:
        outcome = f.both([f.test("sge", value, 0), f.test(SIGNS[test.comparison], value, test.against)])
    else:
        outcome = f.test("sgt" if isinstance(test.value, Number) else "sge", value, 0)
    return f.let(f"xor i1 {outcome}, true") if test.negated else outcome
