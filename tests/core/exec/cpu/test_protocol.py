"""What threads share, as docs/cpu.md has it: models of it hold in every order of steps, and broken ones fail.

Models keep each access of what is shared and each operation that orders, in the order of the code. Plain
accesses must be ordered by these operations, so processors may reorder what nothing orders. They leave out
what is computed; how often a waiting thread looks; that a counter's new value may be seen late, which delays
whoever waits for it; signals, and Python's own structures, which its lock guards.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from tests.core.exec.cpu.interleavings import Memory, Model, Steps, WrongError, explore


def wrong(model: Model, message: str, check: Callable[[SimpleNamespace], object] = bool) -> None:
    with pytest.raises(WrongError, match=message):
        explore(model, check)


# the checker itself


def counting(*, atomic: bool) -> Model:
    def thread(state: SimpleNamespace, number: int) -> Steps:
        if atomic:
            state.memory.add(number, "sum")
        else:
            before = state.memory.peek("sum")
            yield None
            state.memory.counters["sum"] = before + 1
        yield None

    def model() -> tuple[SimpleNamespace, list[Steps]]:
        state = SimpleNamespace(memory=Memory(2))
        return state, [thread(state, number) for number in range(2)]

    return model


def counted(state: SimpleNamespace) -> None:
    assert state.memory.peek("sum") == 2


def test_every_state_is_seen() -> None:
    def thread() -> Steps:
        yield None

    assert explore(lambda: (SimpleNamespace(), [thread(), thread(), thread()])) == 3**3


def test_a_lost_addition_is_found() -> None:
    explore(counting(atomic=True), counted)
    wrong(counting(atomic=False), "assert 1 == 2", counted)


def test_who_waits_for_ever_is_found() -> None:
    def thread() -> Steps:
        yield lambda: False

    wrong(lambda: (SimpleNamespace(), [thread()]), "wait for ever")


# launches that threads do together (`walk`)


def together(
    threads: int, first: int, last: int, *, waits: bool = True, ordered: bool = True, since: int | None = None
) -> Model:
    """Each launch reads what every thread wrote in the one before. `since`: where counting begins."""
    begin = first if since is None else since

    def walk(memory: Memory, me: int) -> Steps:
        for launch in range(first, last):
            if launch > first:
                for other in range(threads):
                    memory.read(me, ("row", launch - 1, other))
            yield None
            memory.write(me, ("row", launch, me))
            yield None
            memory.add(me, "arrived", ordered=ordered)
            goal = (launch + 1 - begin) * threads
            if waits:
                yield lambda goal=goal: memory.peek("arrived") >= goal  # type: ignore[misc]
                memory.load(me, "arrived", ordered=ordered)

    def model() -> tuple[SimpleNamespace, list[Steps]]:
        memory = Memory(threads)
        return SimpleNamespace(memory=memory), [walk(memory, me) for me in range(threads)]

    return model


@pytest.mark.parametrize(("threads", "first", "last"), [(2, 0, 4), (3, 0, 2), (2, 2, 5)])
def test_launches_begin_when_all_have_arrived(threads: int, first: int, last: int) -> None:
    explore(together(threads, first, last))


def test_launches_that_are_not_ordered_are_found() -> None:
    wrong(together(2, 0, 2, waits=False), "before it is written|while")
    wrong(together(2, 0, 2, ordered=False), "while")
    wrong(together(2, 2, 4, since=0), "wait for ever")


# parts that threads claim, section by section, of a caller's arrays (`walk_parts`, `Team.share`)


def claimed(
    threads: int,
    parts: int,
    sections: int,
    *,
    atomic: bool = True,
    waits: bool = True,
    ordered: bool = True,
    kept: bool = True,
    fails: bool = False,
    awaited: bool = True,
) -> Model:
    """Parts write over what parts of the section before read. The caller is thread 0.

    `kept`: the bounds are there until all have ended; `fails`: the caller does none of the work.
    """

    def walk(state: SimpleNamespace, me: int) -> Steps:
        memory = state.memory
        for section in range(sections):
            memory.read(me, "bounds")
            while True:
                if atomic:
                    part = memory.add(me, ("taken", section), ordered=ordered)
                else:
                    part = memory.peek(("taken", section))
                    yield None
                    memory.counters["taken", section] = part + 1
                yield None
                if part >= parts:
                    break
                memory.write(me, ("row", (part + section) % parts), section)
                state.done.append((section, part))
                yield None
                memory.add(me, "done", ordered=ordered)
            if waits:
                goal = (section + 1) * parts
                yield lambda goal=goal: memory.peek("done") >= goal  # type: ignore[misc]
                memory.load(me, "done", ordered=ordered)

    def caller(state: SimpleNamespace) -> Steps:
        memory = state.memory
        memory.write(0, "bounds")
        if not kept:
            memory.give_back(0, "bounds")
        memory.add(0, "submitted")
        yield None
        if not fails:
            yield from walk(state, 0)
        if awaited:
            yield lambda: memory.peek("ended") == threads - 1
            memory.load(0, "ended")
            for row in range(parts):
                assert memory.read(0, ("row", row)) == sections - 1
        memory.give_back(0, "bounds")

    def other(state: SimpleNamespace, me: int) -> Steps:
        memory = state.memory
        yield lambda: memory.peek("submitted") > 0
        memory.load(me, "submitted")
        yield from walk(state, me)
        memory.add(me, "ended")

    def model() -> tuple[SimpleNamespace, list[Steps]]:
        state = SimpleNamespace(memory=Memory(threads), done=[])
        return state, [caller(state), *(other(state, me) for me in range(1, threads))]

    return model


def each_once(state: SimpleNamespace) -> None:
    assert len(set(state.done)) == len(state.done)


@pytest.mark.parametrize(("threads", "parts", "sections"), [(2, 2, 2), (2, 3, 2), (3, 2, 1), (2, 2, 3)])
def test_parts_are_done_once_each_and_section_by_section(threads: int, parts: int, sections: int) -> None:
    explore(claimed(threads, parts, sections), each_once)


def test_a_caller_that_fails_waits_for_the_others() -> None:
    explore(claimed(2, 2, 2, fails=True), each_once)
    wrong(claimed(2, 2, 2, fails=True, awaited=False), "bounds")


def test_parts_that_are_not_ordered_are_found() -> None:
    wrong(claimed(2, 2, 1, atomic=False), "while|==", each_once)
    wrong(claimed(2, 2, 2, waits=False), "while")
    wrong(claimed(2, 2, 2, ordered=False), "while")
    wrong(claimed(2, 2, 1, awaited=False), "bounds")


def test_bounds_that_nobody_keeps_are_found() -> None:
    wrong(claimed(2, 2, 1, kept=False), "bounds after it was given back")


# the team's threads: all are there when work begins in which they wait for each other


def team(others: int, *, pool: bool) -> Model:
    """A piece in which nobody waits, then one in which all do.

    `pool`: one for all threads, which starts one where none is said to be idle, as Python's from 3.12 on.
    """

    def worker(state: SimpleNamespace, me: int) -> Steps:
        queue = state.queues[0 if pool else me]
        yield lambda: state.closed or state.started > me
        while True:
            if not queue:
                yield None
                state.idle += 1
                yield lambda: bool(queue) or state.closed
            if state.closed:
                return
            piece = queue.pop(0)
            yield None
            if piece:
                state.met += 1
                yield lambda: state.met > others
            state.ended += 1
            yield None

    def caller(state: SimpleNamespace) -> Steps:
        for piece in (0, 1):
            for number in range(others):
                state.queues[0 if pool else number].append(piece)
                yield None
                if not pool:
                    state.started = max(state.started, number + 1)
                elif state.idle:
                    state.idle -= 1
                elif state.started < others:
                    state.started += 1
                yield None
            if piece:
                state.met += 1
                yield lambda: state.met > others
            goal = (piece + 1) * others
            yield lambda goal=goal: state.ended == goal  # type: ignore[misc]
        state.closed = True

    def model() -> tuple[SimpleNamespace, list[Steps]]:
        queues: list[list[int]] = [[] for _ in range(1 if pool else others)]
        state = SimpleNamespace(queues=queues, started=0, idle=0, met=0, ended=0, closed=False)
        return state, [caller(state), *(worker(state, me) for me in range(others))]

    return model


def test_a_team_has_all_its_threads() -> None:
    explore(team(2, pool=False))
    wrong(team(3, pool=True), "wait for ever")


# work abreast (`core/base/parallel.py`): each thread has a twin of its own; items are made one at a time


def abreast(
    tools: int,
    items: int,
    taken: int,
    *,
    waiting: int = 1,
    locks: bool = True,
    joins: bool = True,
    frees: bool = True,
) -> Model:
    """The caller takes so many results and closes, or all. One of the threads is the caller's."""

    def take(state: SimpleNamespace, me: int) -> Steps:
        memory = state.memory
        if locks:
            yield lambda: memory.peek("making") == 0
            memory.add(me, "making")
        yield None
        if state.ended:
            memory.add(me, "making", -1)
            return
        number = state.next
        state.next += 1
        memory.write(me, "plan", number)  # by the policy and the reader, which are one for all
        yield None
        if locks:
            memory.add(me, "making", -1)
        if number >= items:
            state.ended = True
            state.results.append((number, None))
            return
        memory.write(me, ("arena", me), number)
        yield None
        value = memory.read(me, ("arena", me))
        memory.add(me, "results")
        state.results.append((number, value))

    def worker(state: SimpleNamespace, me: int) -> Steps:
        while not state.ended:
            yield lambda: state.room > 0
            state.room -= 1
            yield from take(state, me)
            yield None
        state.memory.add(me, "joined")

    def caller(state: SimpleNamespace) -> Steps:
        done: dict[int, int | None] = {}
        for wanted in range(taken):
            while wanted not in done:
                if not state.results and not state.ended:
                    yield None
                    if state.room > 0:
                        state.room -= 1
                        yield from take(state, 0)
                        continue
                yield lambda: bool(state.results)
                number, value = state.results.pop(0)
                done[number] = value
            state.memory.load(0, "results")
            value = done.pop(wanted)
            if value is None:
                break
            state.found.append(value)
            yield None
            state.room += 1
        yield None
        state.ended = True
        if frees:
            state.room += tools
        if joins:
            yield lambda: state.memory.peek("joined") == tools - 1
            state.memory.load(0, "joined")
        for tool in range(tools):
            state.memory.give_back(0, ("arena", tool))

    def model() -> tuple[SimpleNamespace, list[Steps]]:
        room = tools * (1 + waiting)
        state = SimpleNamespace(memory=Memory(tools), room=room, next=0, results=[], ended=False, found=[])
        return state, [caller(state), *(worker(state, me) for me in range(1, tools))]

    return model


@pytest.mark.parametrize("taken", range(4))
@pytest.mark.parametrize("waiting", [0, 1])
def test_results_come_in_order_and_all_threads_end(taken: int, waiting: int) -> None:
    def check(state: SimpleNamespace) -> None:
        assert state.found == list(range(min(taken, 2)))

    explore(abreast(2, 2, taken, waiting=waiting), check)


def test_work_abreast_that_is_not_ordered_is_found() -> None:
    wrong(abreast(2, 2, 3, locks=False), "plan")
    wrong(abreast(2, 2, 1, joins=False), "arena")
    wrong(abreast(2, 2, 0, waiting=0, frees=False), "wait for ever")
