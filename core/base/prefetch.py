"""Work done ahead of its use, in a thread: while one item is used the next ones are made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from queue import Empty, Full, Queue
from typing import NoReturn, TypeVar

T = TypeVar("T")

# Seconds after which a thread that waits looks whether its other end is still there.
_POLL = 0.1


def ahead(items: Iterable[T], depth: int = 2) -> Generator[T, None, None]:
    """Items in their order, made ahead by a thread: at most `depth` of them made and not yet taken.

    What making an item raises is raised here in its place. The thread ends with the iteration, however that
    ends. It helps as far as making and using release the interpreter's lock.
    """
    made: Queue[tuple[T | None, BaseException | None]] = Queue(depth)
    stopped = threading.Event()

    def hand_over(item: T | None, error: BaseException | None) -> bool:
        while not stopped.is_set():
            try:
                made.put((item, error), timeout=_POLL)
                return True
            except Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not hand_over(item, None):
                    return
            hand_over(None, StopIteration())
        except BaseException as error:
            hand_over(None, error)

    thread = threading.Thread(target=work, name="abw-ahead", daemon=True)
    try:
        thread.start()
        while True:
            try:
                item, error = made.get(timeout=_POLL)
            except Empty:
                continue  # so that Ctrl-C is seen
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item  # type: ignore[misc]  # only an error comes without an item
    finally:
        stopped.set()
        if thread.is_alive():  # Ctrl-C may have come while it was started
            thread.join()


class OneAhead(Iterator[T]):
    """Items in their order, of which the next one is made early by whoever calls `make`.

    What making an item raises is raised in its place.
    """

    def __init__(self, items: Iterator[T]) -> None:
        """None is made yet."""
        self._items = items
        self._made: list[Callable[[], T]] = []

    def make(self) -> None:
        """Make the next item, unless it is there."""
        if not self._made:
            self._made.append(_outcome(self._items))

    def __next__(self) -> T:
        """The next item, made now if it is not there."""
        self.make()
        return self._made.pop()()


def _outcome(items: Iterator[T]) -> Callable[[], T]:
    """What gives the next item, or raises what making it raised."""
    try:
        item = next(items)
    except BaseException as error:
        return partial(_raise, error)
    return lambda: item


def _raise(error: BaseException) -> NoReturn:
    raise error


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
