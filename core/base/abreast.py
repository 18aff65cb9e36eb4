"""Work on several items at once, a thread for each tool, in the order of the items."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from queue import SimpleQueue
from typing import TypeVar, cast

T = TypeVar("T")
U = TypeVar("U")
Tool = TypeVar("Tool")

WAITING = 2
"""So many results may wait for earlier ones, or to be taken, beside what is worked on."""


def abreast(items: Iterator[T], tools: Sequence[Tool], work: Callable[[Tool, T], U]) -> Iterator[U]:
    """What `work` makes of each item, in their order; each tool works on one at a time, on a thread.

    A thread makes the item that it works on: one is made at a time. What making one raises, or work on it,
    is raised in its place. What has begun is waited for, however the iteration ends. It helps as far as both
    release the interpreter's lock.
    """
    room = threading.Semaphore(len(tools) + WAITING)
    making, numbers = threading.Lock(), count()
    ended = threading.Event()
    results: SimpleQueue[tuple[int, U | None, BaseException | None]] = SimpleQueue()

    def worker(tool: Tool) -> None:
        while True:
            room.acquire()
            number, value, error = -1, None, None
            try:
                with making:
                    if ended.is_set():
                        return
                    number = next(numbers)
                    item = next(items)
                value = work(tool, item)
            except BaseException as raised:
                error = raised
                ended.set()
            results.put((number, value, error))

    threads = [threading.Thread(target=worker, args=[t], name="abw-abreast", daemon=True) for t in tools]
    try:
        for thread in threads:
            thread.start()
        done: dict[int, tuple[U | None, BaseException | None]] = {}
        for number in count():
            while number not in done:
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
