"""Stretches of calls by instructions: the words of the tape and what is returned, as Python makes them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.program.recording.machine_code import available
from abw.core.program.recording.machine_region import INSTRUCTIONS
from abw.core.program.recording.recorder import LEAST, Recorder
from abw.core.program.recording.values import BITS, Value

pytestmark = pytest.mark.skipif(not available(), reason="calls are recorded by Python here")
WIDTH, ROWS, FIRST = 4, 5, -(10 << BITS) + 1


class Owner:
    """What stands for a net."""


class Holder:
    __slots__ = ("one", "two")
    one: Any
    two: Any


def _value(kind: type[Value], ref: int) -> Value:
    made: Any = kind()
    made.ref = ref
    return made  # type: ignore[no-any-return]


def _double(value: object) -> object:
    """A value of the first class with twice the handle, of a number."""
    return _value(KIND, 2 * value) if isinstance(value, int) else None


RECORDER, OWNER = Recorder(WIDTH), Owner()
KIND, OTHER = (RECORDER.value_class(OWNER, (n,)) for n in (2, 3))  # type: ignore[arg-type]
SAME = object()
PROGRAM: list[tuple[str | int, ...]] = [
    ("value", 0, id(KIND), 0),
    ("items", 1, id(tuple), 3, 3),
    ("row", 3, 1, FIRST, ROWS),
    ("values", 4, id(KIND), 2, 1),
    ("given", 5, id(KIND), 3, id(_double)),
    ("fields", 2, id(Holder), 2, 6),
    ("same", 6, id(SAME)),
    ("values", 7, id(KIND), 4, 1),
    ("alike", 2, 4),
    ("cell", 7, 3, 2, 2, 2, 1, 4, 5, 1, 6, (1 << BITS) + 2),  # a node for each value of two lists
    ("reduce", 9, 5, 7, 3),
    ("cell", 8, 3, 1, -1, 0, 7, 3, 8, 4),
    ("commit",),
    ("made", 8, id(OTHER)),
    ("all", 6, id(OTHER)),
    ("all", 2, id(KIND)),
    ("handles", 5),
    ("length", 2),
    ("held", 0),
    ("sequence", 0, 2),
    ("constant", id(SAME)),
    ("object", id(Holder), 2),
    ("sequence", 1, 5),
    ("return",),
]
CALL = RECORDER.callable_region(
    "region(x, y, z)", 3, PROGRAM, (8, 9, 9), (PROGRAM, OWNER), lambda *_, **__: None
)


def test_all_instructions_are_tried() -> None:
    assert {name for name, *_ in PROGRAM} == set(INSTRUCTIONS)


@given(
    st.integers(-2, ROWS + 1), st.integers(0, 4), st.integers(0, 4), st.integers(0, 9),
    st.sampled_from(["", "", "", "x", "list", "kind", "given", "same", "count", "named"]),
)  # fmt: skip
def test_what_is_recorded_is_what_instructions_say(row: int, n: int, m: int, g: int, wrong: str) -> None:
    RECORDER.restore()
    x = _value(OTHER if wrong == "x" else KIND, 7)
    first = [_value(KIND, 100 + i) for i in range(n)]
    second = [_value(OTHER if wrong == "kind" and i else KIND, 200 + i) for i in range(m)]
    held = Holder()
    held.one, held.two = object() if wrong == "same" else SAME, tuple(second)
    y: Any = (row, first, "none" if wrong == "given" else g)
    begun, step = RECORDER.next, RECORDER.step
    if wrong == "named":
        found = CALL(x, y, z=held)
    else:
        found = CALL(x, list(y) if wrong == "list" else y, held, *[x] * (wrong == "count"))
    words = RECORDER.take().words.tolist()
    fits = 0 <= row < ROWS and n == m > 0 and not (wrong and (wrong != "kind" or m > 1))
    if not fits:
        assert found is None and words == [] and RECORDER.next == begun
        return
    table = FIRST - (row << BITS)
    nodes = [begun + i * step for i in range(n)]
    wanted = [word for i in range(n) for word in (7, 100 + i, table, 200 + i)]
    total, last = (
        (nodes[0] + 1, begun + n * step) if n == 1 else (begun + n * step + 3, begun + (n + 1) * step)
    )
    wanted += [9, n, *[node + 1 for node in nodes]] if n > 1 else []
    assert words == [*wanted, 8, 7, total, 2 * g]
    assert RECORDER.next == last + step
    made, rows, same, handles, pair = found
    assert type(made) is OTHER and made.ref == last + 4
    assert [row.ref for row in rows] == [node + (1 << BITS) + 2 for node in nodes]
    assert all(type(row) is OTHER for row in rows) and same == first and same is not first
    assert handles == [node + 1 for node in nodes]
    assert type(pair) is Holder and pair.one == (n, x) and pair.two is SAME


def test_where_there_is_no_room_calls_are_left_to_others() -> None:
    RECORDER.restore()
    held = Holder()
    held.one, held.two = SAME, [_value(KIND, i) for i in range(LEAST)]
    assert CALL(held.two[0], (0, held.two, 1), held) is None and not RECORDER.take().nodes


def test_handles_are_read_of_values_of_several_classes() -> None:
    read = RECORDER.reader(KIND)
    same, mixed = [_value(KIND, 3), _value(KIND, 1 << 40)], (_value(KIND, 3), _value(OTHER, 4))
    assert read(same) == [3, 1 << 40] and read(mixed) == [3, 4] and read([]) == []


def test_an_empty_list_has_no_items() -> None:
    program: list[tuple[str | int, ...]] = [
        ("items", 0, id(list), 0, 1), ("commit",), ("sequence", 0, 0), ("return",)
    ]  # fmt: skip
    call = RECORDER.callable_region("region(x)", 1, program, (1, 0, 1), OWNER, lambda *_: None)
    RECORDER.restore()
    assert call([]) == () and call([1]) is None and call(()) is None
