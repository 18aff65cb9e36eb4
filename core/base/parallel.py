"""Work on several items at once, a thread for each tool, in the order of the items."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import count
from queue import SimpleQueue
from typing import TypeVar, cast

from abw.core.base.cores import current_core, leave

T = TypeVar("T")
U = TypeVar("U")
Tool = TypeVar("Tool")

# So many results a tool may wait for earlier ones, or to be taken, beside what is worked on.
WAITING = 3


def abreast(
    items: Iterator[T], tools: Sequence[Tool], work: Callable[[Tool, T], U]
) -> Generator[U, None, None]:
    """What `work` makes of each item, in their order; each tool works on one at a time, on a thread.

    The first tool's is the caller's own, which works while it waits for what is next: so no thread is without
    work for another to get a processor. A thread makes the item that it works on: one is made at a time. What
    making one raises, or work on it, is raised in its place. What has begun is waited for, however the
    iteration ends. It helps as far as both release the interpreter's lock.
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
