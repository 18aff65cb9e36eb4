"""Work side by side: the same, in order, each tool at one item at a time, and no thread left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.parallel import WAITING, map_in_order
from tests.core.base.test_prefetch import WAIT


@given(st.lists(st.integers(), max_size=30), st.integers(1, 5))
def test_the_same_in_order(items: list[int], tools: int) -> None:
    assert list(map_in_order(iter(items), range(tools), lambda _, item: item + 1)) == [i + 1 for i in items]


def test_a_tool_works_on_one_at_a_time_and_one_item_is_made_at_a_time() -> None:
    busy, making = [threading.Lock() for _ in range(3)], threading.Lock()

    def items() -> Iterator[int]:
        for k in range(200):
            assert making.acquire(blocking=False)
            making.release()
            yield k

    def work(tool: int, item: int) -> int:
        assert busy[tool].acquire(blocking=False)
        busy[tool].release()
        return item

    assert list(map_in_order(items(), range(3), work)) == list(range(200))


def test_all_tools_work_at_once() -> None:
    together = threading.Barrier(3)
    assert list(map_in_order(iter(range(6)), range(3), lambda *_: together.wait(WAIT) >= 0)) == [True] * 6


def test_only_so_many_wait_for_one_that_takes_long() -> None:
    first, done = threading.Event(), []

    def work(tool: int, item: int) -> int:
        if item == 0:
            assert first.wait(WAIT)
        else:
            done.append(item)
            if item == 1 + 2 * WAITING:  # the last that there is room for
                first.set()
        return item

    found = map_in_order(iter(range(50)), range(2), work)
    assert next(found) == 0
    assert max(done) <= 1 + 2 * WAITING
    assert list(found) == list(range(1, 50))


@given(st.integers(0, 8), st.booleans())
def test_an_error_comes_in_its_place(at: int, made: bool) -> None:
    def items() -> Iterator[int]:
        for k in range(12):
            if made and k == at:
                raise KeyError("here")
            yield k

    def work(tool: int, item: int) -> int:
        if item == at and not made:
            raise KeyError("here")
        return item

    found = map_in_order(items(), range(3), work)
    assert [next(found) for _ in range(at)] == list(range(at))
    with pytest.raises(KeyError, match="here"):
        next(found)


def test_the_threads_end_with_the_iteration() -> None:
    before = threading.active_count()
    found = map_in_order(iter(range(10**9)), range(3), lambda _, item: item)
    assert [next(found), next(found)] == [0, 1]
    assert threading.active_count() == before + 2
    found.close()
    assert threading.active_count() == before
    assert list(map_in_order(iter(range(5)), range(3), lambda _, item: item)) == list(range(5))
    assert threading.active_count() == before
