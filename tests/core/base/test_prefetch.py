"""Items made ahead: the same, in order, at most so many, and at the pace of the slower end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.parallel import OneAhead, ahead, overlapping

# Seconds after which a test takes something for never happening.
WAIT = 20.0


@given(st.lists(st.integers(), max_size=30), st.integers(1, 4))
def test_the_same_items_in_order(items: list[int], depth: int) -> None:
    assert list(ahead(items, depth)) == items


def test_at_most_so_many_are_made_before_they_are_used() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for k in range(10):
            made.append(k)
            yield k

    for used, _ in enumerate(ahead(items(), 2)):
        assert len(made) <= used + 1 + 2 + 1  # in use, waiting, and the one that waits for room


def test_the_next_item_is_made_while_one_is_used() -> None:
    begun = [threading.Event() for _ in range(5)]

    def items() -> Iterator[int]:
        for k, event in enumerate(begun):
            event.set()
            yield k

    for k in ahead(items()):
        if k + 1 < len(begun):
            assert begun[k + 1].wait(WAIT)


def test_an_error_comes_in_its_place() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise KeyError("two")

    found = ahead(items())
    assert next(found) == 1
    with pytest.raises(KeyError, match="two"):
        next(found)


def test_the_thread_ends_with_the_iteration() -> None:
    def items() -> Iterator[int]:
        k = 0
        while True:
            yield k
            k += 1

    before = threading.active_count()
    for k in ahead(items()):
        if k == 3:
            break
    found = ahead(items())
    next(found)
    assert threading.active_count() == before + 1
    found.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("wanted", [False, True])
def test_a_block_is_left_without_a_thread(wanted: bool) -> None:
    before = threading.active_count()
    with overlapping(iter([1, 2, 3]), wanted=wanted) as items:
        assert [*items] == [1, 2, 3]
    with pytest.raises(KeyError), overlapping(iter(range(10)), wanted=wanted) as items:
        assert next(items) == 0 and threading.active_count() == before + wanted
        raise KeyError("left early")
    assert threading.active_count() == before


class Timeline:
    """Virtual time of a maker and a user, of whom the maker may run in a thread of its own."""

    def __init__(self, make: float, use: float, count: int, depth: int) -> None:
        self.make, self.use, self.count, self.depth = make, use, count, depth
        self.user_now = 0.0
        self.taken: list[float] = []
        self.user = threading.get_ident()

    def items(self) -> Iterator[float]:
        """The time at which each item is made."""
        now = 0.0
        for k in range(self.count):
            if threading.get_ident() == self.user:
                now = max(now, self.user_now)
            elif k > self.depth:  # there is room for this one once an earlier one was taken
                while len(self.taken) < k - self.depth:
                    time.sleep(0)  # it is out of the queue, but not yet written down
                now = max(now, self.taken[k - self.depth - 1])
            now += self.make
            yield now

    def total(self, items: Iterable[float]) -> float:
        """When the user is done with all items."""
        for made in items:
            self.user_now = max(self.user_now, made)
            self.taken.append(self.user_now)
            self.user_now += self.use
        return self.user_now


@given(st.floats(0.1, 10), st.floats(0.1, 10), st.integers(1, 3))
def test_twenty_items_go_at_the_pace_of_the_slower(make: float, use: float, depth: int) -> None:
    """In virtual time: at least 0.9 of its throughput."""
    line = Timeline(make, use, 20, depth)
    assert 20 * max(make, use) / line.total(ahead(line.items(), depth)) >= 0.9


def test_without_a_thread_they_would_not() -> None:
    line = Timeline(1, 1, 20, 2)
    assert 20 / line.total(line.items()) == 0.5


def test_one_is_made_early_by_whoever_asks() -> None:
    made = []

    def items() -> Iterator[int]:
        for number in range(3):
            made.append(number)
            yield number
        raise ValueError("the last")

    one = OneAhead(items())
    assert made == []
    assert next(one) == 0
    one.make()
    one.make()
    assert made == [0, 1]
    assert [next(one), next(one)] == [1, 2]
    one.make()  # what making raises is raised when it is asked for
    with pytest.raises(ValueError, match="the last"):
        next(one)
    assert list(one) == []
