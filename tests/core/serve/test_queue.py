"""Requests that wait: against a queue that is a plain list of instances."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.serve.queue import MEMORY, SHARE, FullError, Piece, RequestQueue, Waiting

steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 30), st.integers(0, 20)),
        st.tuples(st.just("whole"), st.integers(1, 30), st.integers(0, 20)),
        st.tuples(st.just("take"), st.integers(1, 16), st.just(0)),
        st.tuples(st.just("leave"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("die"), st.just(0), st.just(0)),
        st.tuples(st.just("start over"), st.just(0), st.just(0)),
        st.tuples(st.just("tick"), st.integers(1, 4), st.just(0)),
    ),
    max_size=60,
)


@given(steps, st.integers(1, 40))
def test_each_instance_runs_once_while_somebody_waits(steps: list[tuple[str, int, int]], room: int) -> None:
    queue: RequestQueue[int] = RequestQueue(room)
    every: list[Waiting[int]] = []
    left: dict[Waiting[int], set[int]] = {}  # the oracle: the instances of each request that nobody has taken
    running: list[Piece[int]] = []
    now = 0
    for step, a, b in steps:
        if step in ("put", "whole"):
            waiting = Waiting(len(every), a, now + b, whole=step == "whole")
            if sum(map(len, left.values())) + a > room:
                with pytest.raises(FullError):
                    queue.put(waiting)
            else:
                queue.put(waiting)
                every.append(waiting)
                left[waiting] = set(range(a))
        elif step == "take" and not running:
            running = queue.take(a, now)
            for waiting in [w for w in left if w.gone]:
                assert waiting.deadline <= now
                del left[waiting]
            require_a_mini_batch(running, a)
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
        assert len(queue) == sum(bool(some) for some in left.values())


def require_a_mini_batch(pieces: list[Piece[int]], most: int) -> None:
    """Pieces are of different requests, and as many as may run together."""
    assert len({piece.waiting for piece in pieces}) == len(pieces)
    if any(piece.waiting.suspect for piece in pieces):
        assert len(pieces) == 1 and pieces[0].last == pieces[0].waiting.instances
    elif sum(piece.last - piece.first for piece in pieces) > most:
        assert len(pieces) == 1 and pieces[0].waiting.whole
    for piece in pieces:
        if piece.waiting.whole or piece.waiting.instances <= most // SHARE:
            assert (piece.first, piece.last) == (0, piece.waiting.instances)


def sizes(pieces: list[Piece[str]]) -> list[tuple[str, int]]:
    return [(piece.waiting.asked, piece.last - piece.first) for piece in pieces]


def test_large_requests_take_turns_and_leave_room_for_small_ones() -> None:
    queue: RequestQueue[str] = RequestQueue(10_000)
    for name in "AB":
        queue.put(Waiting(name, 500, 1.0))
    assert sizes(queue.take(64, 0.0)) == [("A", 64)]  # nobody else is there
    for name in "abc":
        queue.put(Waiting(name, 1, 1.0))
    assert sizes(queue.take(64, 0.0)) == [("B", 16), ("a", 1), ("b", 1), ("c", 1)]
    for turn in range(MEMORY - 1):  # one may come again
        assert sizes(queue.take(64, 0.0)) == [("AB"[turn % 2], 16)]
    assert sizes(queue.take(64, 0.0)) == [("BA"[MEMORY % 2], 64)]


def test_room_may_shrink_and_an_empty_queue_takes_any_request() -> None:
    queue: RequestQueue[str] = RequestQueue(100)
    queue.room = 10
    queue.put(Waiting("large", 60, 1.0))
    assert queue.full
    with pytest.raises(FullError):
        queue.put(Waiting("one", 1, 1.0))
    queue.take(64, 0.0)
    assert not queue.full
    for _ in range(10):
        queue.put(Waiting("one", 1, 1.0))
    assert queue.full
    with pytest.raises(FullError):
        queue.put(Waiting("one", 1, 1.0))
