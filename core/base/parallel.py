"""Work in threads: items made ahead of their use, and work on several items at once, in their order."""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import count
from queue import SimpleQueue
from typing import Any, TypeVar, cast


def usable_cores() -> int:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def current_core() -> int:
    """The number of the core that this thread runs on, for now; -1 where the system does not say."""
    find = _getcpu()
    return int(find()) if find else -1


def leave(core: int) -> None:
    """Go on with this thread on another core, if it is on this one and may be on others.

    Linux may start a thread where the one runs that has woken it, and lets that wait, for as long as 4 ms,
    though another core has nothing to do (so seen with 6.18 on two cores). Cost: some 1 us, or 20 to move.
    """
    if core < 0 or current_core() != core:
        return
    usable = os.sched_getaffinity(0)
    if others := usable - {core}:
        os.sched_setaffinity(0, others)
        os.sched_setaffinity(0, usable)


@cache
def _getcpu() -> Any:  # noqa: ANN401 (a function of the C library)
    try:
        return ctypes.CDLL(None).sched_getcpu if hasattr(os, "sched_setaffinity") else None
    except (OSError, AttributeError):
        return None


T = TypeVar("T")
U = TypeVar("U")
Tool = TypeVar("Tool")

# So many results a tool may wait for earlier ones, or to be taken, beside what is worked on.
WAITING = 3


def ahead(items: Iterable[T], depth: int = 2) -> Generator[T, None, None]:
    """Items in their order, made ahead by a thread: `depth` of them, and one more, made and not yet taken.

    What making an item raises is raised here in its place. The thread ends with the iteration, however that
    ends. It helps as far as making and using release the interpreter's lock.
    """
    source, end = iter(items), object()
    with ThreadPoolExecutor(1, "abw-ahead") as pool:
        made = deque(pool.submit(next, source, end) for _ in range(depth + 1))
        try:
            while (item := made.popleft().result()) is not end:
                made.append(pool.submit(next, source, end))
                yield cast(T, item)
        finally:
            pool.shutdown(cancel_futures=True)


class OneAhead(Iterator[T]):
    """Items in their order, of which the next one is made early by whoever calls `make`.

    What making an item raises is raised in its place.
    """

    def __init__(self, items: Iterator[T]) -> None:
        """None is made yet."""
        self._items = items
        self._made: list[Future[T]] = []

    def make(self) -> None:
        """Make the next item, unless it is there."""
        if not self._made:
            made: Future[T] = Future()
            try:
                made.set_result(next(self._items))
            except BaseException as error:
                made.set_exception(error)
            self._made.append(made)

    def __next__(self) -> T:
        """The next item, made now if it is not there."""
        self.make()
        return self._made.pop().result()


@contextmanager
def overlapping(items: Iterator[T], *, wanted: bool) -> Iterator[Iterator[T]]:
    """The items in the block, one of them made ahead where that is wanted; its thread ends with the block."""
    if not wanted:
        yield items
        return
    found = ahead(items, 1)
    try:
        yield found
    finally:
        found.close()


def map_in_order(
    items: Iterator[T],
    tools: Sequence[Tool],
    work: Callable[[Tool, T], U],
    told: Callable[[Tool], object] = lambda _: None,
) -> Generator[U, None, None]:
    """Yield `work` of each item, in their order; each tool works on one at a time, on a thread.

    The first tool's is the caller's own, which works while it waits for what is next: so no thread is without
    work for another to get a processor. A thread makes the item that it works on: one is made at a time,
    after `told` was called with the thread's tool. What making one raises, or work on it, is raised in its
    place. What has begun is waited for, however the iteration ends. It helps as far as both release the
    interpreter's lock.
    """
    room = threading.Semaphore(len(tools) * (1 + WAITING))
    making, numbers = threading.Lock(), count()
    ended = threading.Event()
    results: SimpleQueue[tuple[int, U | None, BaseException | None]] = SimpleQueue()

    def take(place: int) -> None:
        """Make an item and work on it, if there is one left."""
        number, value, error = -1, None, None
        try:
            with making:
                if ended.is_set():
                    return
                number = next(numbers)
                told(tools[place])
                item = next(items)
            value = work(tools[place], item)
        except BaseException as raised:
            if place == 0 and isinstance(raised, KeyboardInterrupt):
                raise  # now, and not in the item's place
            error = raised
            ended.set()
        results.put((number, value, error))

    def worker(place: int) -> None:
        leave(core)
        while not ended.is_set():
            room.acquire()
            take(place)

    core = current_core()
    threads = [
        threading.Thread(target=worker, args=[place], name="abw-abreast", daemon=True)
        for place in range(1, len(tools))
    ]
    try:
        for thread in threads:
            thread.start()
        done: dict[int, tuple[U | None, BaseException | None]] = {}
        for number in count():
            while number not in done:
                if results.empty() and not ended.is_set() and room.acquire(blocking=False):
                    take(0)
                    continue
                found, *outcome = results.get()
                done[found] = cast("tuple[U | None, BaseException | None]", tuple(outcome))
            value, error = done.pop(number)
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield cast(U, value)
            room.release()
    finally:
        ended.set()
        room.release(len(tools))
        for thread in threads:
            if thread.ident is not None:  # Ctrl-C may have come before it was started
                thread.join()
