"""Requests that wait: against a plain list of instances, and with clients in simulated time."""

from __future__ import annotations

import heapq
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.serve.dispatch import Pace
from abw.core.serve.queue import MEMORY, SHARE, FullError, Piece, RequestQueue, Waiting

steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 30), st.integers(0, 20)),
        st.tuples(st.just("take"), st.integers(1, 16), st.just(0)),
        st.tuples(st.just("leave"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("die"), st.just(0), st.just(0)),
        st.tuples(st.just("start over"), st.just(0), st.just(0)),
        st.tuples(st.just("tick"), st.integers(1, 4), st.just(0)),
    ),
    max_size=60,
)


@given(steps, st.integers(1, 40), st.integers(1, 16))
def test_each_instance_runs_once_while_somebody_waits(
    steps: list[tuple[str, int, int]], room: int, batch: int
) -> None:
    queue: RequestQueue[int] = RequestQueue(room, batch)
    every: list[Waiting[int]] = []
    left: dict[Waiting[int], set[int]] = {}  # the oracle: the instances of each request that nobody has taken
    running: list[Piece[int]] = []
    now = 0
    for step, a, b in steps:
        if step == "put":
            waiting = Waiting(len(every), a, now + b)
            small = [len(some) for w, some in left.items() if w.instances <= max(1, batch // SHARE)]
            before = sum(small) if a <= max(1, batch // SHARE) else sum(map(len, left.values()))
            if before + a > room:
                with pytest.raises(FullError):
                    queue.put(waiting)
            else:
                queue.put(waiting)
                every.append(waiting)
                left[waiting] = set(range(a))
        elif step == "take" and not running:
            running = queue.take(now, a)
            for waiting in [w for w in left if w.gone]:
                assert waiting.deadline <= now
                del left[waiting]
            require_a_mini_batch(running, batch)
            for piece in running:
                waiting = piece.waiting
                assert waiting.deadline > now and not piece.stale
                taken = set(range(piece.first, piece.last))
                assert taken and taken <= left[waiting] and piece.first == min(left[waiting])
                left[waiting] -= taken
            assert running or not [w for w, some in left.items() if some and w.deadline > now]
        elif step == "leave" and every:
            queue.leave(every[a % len(every)])
            left.pop(every[a % len(every)], None)
        elif step == "die":
            for waiting in dict.fromkeys(p.waiting for p in running if not p.stale):
                queue.put_back(waiting)
                left[waiting] = set(range(waiting.instances))
            assert all(piece.stale for piece in running)
            running = []
        elif step == "start over":
            queue.start_over()
            for waiting, some in left.items():
                if some:
                    some |= set(range(waiting.instances))
        elif step == "tick":
            now += a
        assert queue.instances == sum(map(len, left.values()))
        small = [len(some) for w, some in left.items() if w.instances <= max(1, batch // SHARE)]
        assert queue.small == sum(small) and queue.full == (sum(small) >= room)
        assert len(queue) == sum(bool(some) for some in left.values())


def require_a_mini_batch(pieces: list[Piece[int]], batch: int) -> None:
    """Pieces are of different requests, as many as may run together, all small or all large."""
    assert len({piece.waiting for piece in pieces}) == len(pieces)
    if any(piece.waiting.suspect for piece in pieces):
        assert len(pieces) == 1 and pieces[0].last == pieces[0].waiting.instances
        return
    assert sum(piece.last - piece.first for piece in pieces) <= batch
    assert len({piece.waiting.instances > max(1, batch // SHARE) for piece in pieces}) <= 1
    for piece in pieces:
        if piece.waiting.instances <= max(1, batch // SHARE):
            assert (piece.first, piece.last) == (0, piece.waiting.instances)


def sizes(pieces: list[Piece[str]]) -> list[tuple[str, int]]:
    return [(piece.waiting.asked, piece.last - piece.first) for piece in pieces]


def test_large_requests_take_turns_and_leave_room_for_small_ones() -> None:
    queue: RequestQueue[str] = RequestQueue(10_000, 64)
    for name in "AB":
        queue.put(Waiting(name, 500, 9.0))
    assert sizes(queue.take(0.0, 5)) == [("A", 64)]  # nobody else is there
    for name in "abc":
        queue.put(Waiting(name, 1, 9.0))
    assert sizes(queue.take(0.0, 5)) == [("a", 1), ("b", 1), ("c", 1)]
    queue.put(Waiting("d", 2, 9.0))
    assert sizes(queue.take(0.0, 5)) == [("B", 5)]
    queue.put(Waiting("e", 16, 9.0))
    assert sizes(queue.take(0.0, 5)) == [("d", 2), ("e", 16)]
    assert sizes(queue.take(0.0, 7)) == [("A", 7)]
    assert sizes(queue.take(MEMORY, 500)) == [("B", 64)]
    assert sizes(queue.take(MEMORY, 5)) == [("A", 5)]  # one may come again
    assert queue.take(MEMORY, 0) == []
    assert sizes(queue.take(MEMORY + 0.01, 5)) == [("B", 64)]


def test_room_may_shrink_and_an_empty_queue_takes_any_request() -> None:
    queue: RequestQueue[str] = RequestQueue(100, 64)
    queue.room = 10
    queue.put(Waiting("large", 60, 1.0))
    with pytest.raises(FullError):
        queue.put(Waiting("large", 60, 1.0))
    assert not queue.full  # for small ones
    for _ in range(10):
        queue.put(Waiting("one", 1, 1.0))
    assert queue.full
    with pytest.raises(FullError):
        queue.put(Waiting("one", 1, 1.0))


def simulated(singles: int, large: int, each: float, batch: float = 50e-6, pause: float = 100e-6) -> float:
    """The median seconds of requests by `singles` clients beside `large` ones with 500 instances.

    Each client asks again `pause` seconds after its answer. A mini-batch takes `batch` seconds, and `each`
    for an instance.
    """
    queue: RequestQueue[float] = RequestQueue(10_000, 64)
    pace = Pace()
    coming = [(0.0, n, 1 if n < singles else 500) for n in range(singles + large)]
    took: list[float] = []
    done: dict[Waiting[float], int] = {}
    now, number = 0.0, len(coming)
    while len(took) < 40 * singles:
        while coming and coming[0][0] <= now:
            since, _, size = heapq.heappop(coming)
            queue.put(Waiting(since, size, now + 1e9))
        pieces = queue.take(now, pace.piece)
        if not pieces:
            now = coming[0][0]
            continue
        count = sum(piece.last - piece.first for piece in pieces)
        now += batch + count * each
        pace.add(batch + count * each, count, large=queue.large(pieces[0].waiting))
        for piece in pieces:
            waiting = piece.waiting
            done[waiting] = done.get(waiting, 0) + piece.last - piece.first
            if done[waiting] == waiting.instances:
                if waiting.instances == 1:
                    took.append(now - waiting.asked)
                number += 1
                heapq.heappush(coming, (now + pause, number, waiting.instances))
    return median(took[5 * singles :])


@pytest.mark.parametrize("each", [20e-6, 64e-6, 1e-3, 20e-3])
@pytest.mark.parametrize("singles", [1, 8, 64])
def test_single_instances_take_at_most_three_times_as_long_beside_large_requests(
    singles: int, each: float
) -> None:
    alone, beside = simulated(singles, 0, each), simulated(singles, 2, each)
    assert alone < beside <= 3 * alone


def test_large_requests_get_a_quarter_of_an_engine_at_least() -> None:
    pace = Pace()
    assert pace.piece == 1
    pace.add(0.064, 64, large=False)
    pace.add(0.016, 16, large=True)
    assert pace.piece == 21  # a third of the 64 ms of small ones
    few = Pace()
    few.add(0.1e-3, 1, large=False)
    few.add(1e-3, 20, large=True)
    assert few.piece == 4  # twice the 0.1 ms
