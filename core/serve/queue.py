"""Requests that wait for the engine: who goes next, who has waited too long, for whom there is no room."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


class FullError(Exception):
    """No room for a request now."""


@dataclass(slots=True, eq=False)
class Waiting(Generic[T]):
    """A request: so many instances to be answered until `deadline`; `asked` is whoever wants to know.

    One that is `gone` has got its answer or wants none any more. A `suspect` was with the engine when that
    died: it is run alone. `queued`: it waits for the engine, and takes room.
    """

    asked: T
    instances: int
    deadline: float
    since: float = 0.0
    gone: bool = False
    suspect: bool = False
    queued: bool = False


class RequestQueue(Generic[T]):
    """First come, first served. `room` instances may wait; those that are gone take none."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.instances = 0
        self._waiting: deque[Waiting[T]] = deque()
        self._suspects: deque[Waiting[T]] = deque()

    def __len__(self) -> int:
        """Requests that wait."""
        return sum(not w.gone for w in (*self._suspects, *self._waiting))

    def put(self, request: Waiting[T]) -> None:
        """Let a request wait. Raises FullError where there is no room for all of its instances."""
        if self.instances + request.instances > self.room:
            raise FullError
        self._enter(request, self._waiting)

    def put_back(self, request: Waiting[T]) -> None:
        """What was taken and not answered: it is a suspect now, and goes before all others."""
        request.suspect = True
        self._enter(request, self._suspects)

    def leave(self, request: Waiting[T]) -> None:
        """A request is not wanted any more: if it waits, its room is free at once."""
        request.gone = True
        if request.queued:
            request.queued = False
            self.instances -= request.instances

    def _enter(self, request: Waiting[T], line: deque[Waiting[T]]) -> None:
        line.append(request)
        request.queued = True
        self.instances += request.instances

    def take(self, most: int, now: float) -> list[Waiting[T]]:
        """The next requests, together of `most` instances or a single one with more; or one suspect.

        Those whose deadline is over are left out, and gone.
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
