"""The queue of requests for the engine, with deadlines and bounded room."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


class FullError(Exception):
    """There is no room for a request."""


@dataclass(slots=True, eq=False)
class Waiting(Generic[T]):
    """A request of some `instances`, to be answered before `deadline`, on behalf of `asked`.

    `gone`: it was answered, or nobody waits for it. `suspect`: it ran when the engine died, and runs alone
    now. `queued`: it waits for the engine, and takes room.
    """

    asked: T
    instances: int
    deadline: float
    since: float = 0.0
    gone: bool = False
    suspect: bool = False
    queued: bool = False


class RequestQueue(Generic[T]):
    """A queue for at most `room` instances, first come, first served; requests that are gone take no room."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.instances = 0
        self._waiting: deque[Waiting[T]] = deque()
        self._suspects: deque[Waiting[T]] = deque()

    def __len__(self) -> int:
        """The number of waiting requests."""
        return sum(not w.gone for w in (*self._suspects, *self._waiting))

    def put(self, request: Waiting[T]) -> None:
        """Add a request. Raises FullError if there is no room for all of its instances."""
        if self.instances + request.instances > self.room:
            raise FullError
        self._enter(request, self._waiting)

    def put_back(self, request: Waiting[T]) -> None:
        """Add a request that was taken and not answered, as a suspect, before all others."""
        request.suspect = True
        self._enter(request, self._suspects)

    def leave(self, request: Waiting[T]) -> None:
        """Drop a request; its room is free at once."""
        request.gone = True
        if request.queued:
            request.queued = False
            self.instances -= request.instances

    def _enter(self, request: Waiting[T], line: deque[Waiting[T]]) -> None:
        line.append(request)
        request.queued = True
        self.instances += request.instances

    def take(self, most: int, now: float) -> list[Waiting[T]]:
        """Take the next requests, of at most `most` instances or a single larger one; or one suspect.

        Requests whose deadline has passed are dropped.
        """
        taken: list[Waiting[T]] = []
        count = 0
        source = self._suspects or self._waiting
        while source:
            first = source[0]
            if not first.gone and first.deadline <= now:
                self.leave(first)
            if first.gone:
                source.popleft()
                source = source if taken else self._suspects or self._waiting
                continue
            if taken and (first.suspect or taken[0].suspect or count + first.instances > most):
                break
            taken.append(source.popleft())
            count += first.instances
            first.queued = False
            self.instances -= first.instances
        return taken
