"""Requests that wait: against a queue that is a plain list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.serve.queue import FullError, RequestQueue, Waiting

steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 6), st.integers(0, 20)),
        st.tuples(st.just("take"), st.integers(1, 8), st.just(0)),
        st.tuples(st.just("leave"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("die"), st.just(0), st.just(0)),
        st.tuples(st.just("tick"), st.integers(1, 4), st.just(0)),
    ),
    max_size=60,
)


@given(steps, st.integers(1, 12))
def test_a_queue_is_a_list_of_those_who_wait(steps: list[tuple[str, int, int]], room: int) -> None:
    queue: RequestQueue[int] = RequestQueue(room)
    every: list[Waiting[int]] = []
    line: list[Waiting[int]] = []  # the oracle: suspects first
    running: list[Waiting[int]] = []
    now = 0
    for step, a, b in steps:
        if step == "put":
            waiting = Waiting(len(every), a, now + b)
            if sum(w.instances for w in line) + a > room:
                with pytest.raises(FullError):
                    queue.put(waiting)
            else:
                queue.put(waiting)
                every.append(waiting)
                line.append(waiting)
        elif step == "take" and not running:
            running = queue.take(a, now)
            late = [w for w in line if w.gone]
            assert all(w.deadline <= now for w in late)
            line = [w for w in line if not w.gone]
            assert running == line[: len(running)]
            assert all(w.deadline > now for w in running)
            if any(w.suspect for w in running):
                assert len(running) == 1
            else:
                count = sum(w.instances for w in running)
                assert count <= a or len(running) == 1
                after = [w for w in line[len(running) :] if w.deadline > now][:1]
                assert not running or all(count + w.instances > a for w in after)
            assert running or not [w for w in line if w.deadline > now]
            line = line[len(running) :]
        elif step == "leave" and every:
            waiting = every[a % len(every)]
            queue.leave(waiting)
            line = [w for w in line if w is not waiting]
        elif step == "die":
            alive = [w for w in running if not w.gone]
            for waiting in alive:
                queue.put_back(waiting)
            suspects = sum(w.suspect for w in line)
            line[suspects:suspects] = [w for w in alive if w not in line]
            running = []
        elif step == "tick":
            now += a
        assert queue.instances == sum(w.instances for w in line)
        assert len(queue) == len(line)
