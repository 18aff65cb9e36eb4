"""The queue of requests for the engines, with deadlines and bounded room; large requests take turns."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# A request of more than a mini-batch divided by this is large.
SHARE = 4
# Seconds after a small request was taken in which large ones leave room for the next one.
MEMORY = 1.0


class FullError(Exception):
    """The queue has no room for a request."""


@dataclass(slots=True, eq=False)
class Waiting(Generic[T]):
    """A request of some `instances`, to be answered before `deadline`, on behalf of `asked`.

    `gone`: it was answered, or nobody waits for it. `suspect`: it ran when an engine died, and runs alone
    now. `taken`: instances that an engine has got; `attempt` grows when they have to run again. `parts`: what
    came of the pieces so far, by their first instances.
    """

    asked: T
    instances: int
    deadline: float
    since: float = 0.0
    gone: bool = False
    suspect: bool = False
    taken: int = 0
    attempt: int = 0
    parts: dict[int, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Piece(Generic[T]):
    """Instances `first` to `last` of a request, in its present attempt."""

    waiting: Waiting[T]
    first: int
    last: int
    attempt: int

    @property
    def stale(self) -> bool:
        """Whether nobody is waiting for these instances."""
        return self.waiting.gone or self.attempt != self.waiting.attempt


class RequestQueue(Generic[T]):
    """A queue for at most `room` instances, of which mini-batches have `batch`; gone requests take no room.

    First come, first served, among small requests and among large ones, which take turns. A small request
    runs in one mini-batch, a large one in pieces; after each it waits behind the other large ones, and it
    takes no room from small ones. `instances`: those that wait, `small` of them of small requests. `room` may
    change; an empty queue takes requests of up to its first value.
    """

    def __init__(self, room: int, batch: int) -> None:
        self.room = self._most = room
        self.batch = batch
        self.instances = self.small = 0
        self._small: deque[Waiting[T]] = deque()
        self._large: deque[Waiting[T]] = deque()
        self._suspects: deque[Waiting[T]] = deque()
        self._turn_of_large = False
        self._mixed_until = -1.0  # large requests leave room for small ones

    def __len__(self) -> int:
        """The number of requests that wait, at least in part."""
        lines = (*self._small, *self._large)
        return sum(not (w.gone or w.suspect) for w in lines) + sum(not w.gone for w in self._suspects)

    @property
    def suspicious(self) -> bool:
        """Whether a request must run alone."""
        return bool(self._suspects)

    @property
    def full(self) -> bool:
        """Whether there is no room for a single instance."""
        return self.small > 0 and self.small >= self.room

    def large(self, request: Waiting[T]) -> bool:
        """Whether a request runs in pieces."""
        return request.instances > max(1, self.batch // SHARE)

    def put(self, request: Waiting[T]) -> None:
        """Add a request. Raises FullError if there is no room for all of its instances."""
        large = self.large(request)
        before = self.instances if large else self.small
        if before + request.instances > (self.room if before else self._most):
            raise FullError
        self._count(request, request.instances)
        (self._large if large else self._small).append(request)

    def _count(self, request: Waiting[T], more: int) -> None:
        """Note that `more` instances of a request wait."""
        self.instances += more
        if not self.large(request):
            self.small += more

    def put_back(self, request: Waiting[T]) -> None:
        """Add a request that was taken and not answered, as a suspect, before all others."""
        self._begin_again(request)
        request.suspect = True
        self._suspects.append(request)

    def start_over(self) -> None:
        """Run requests that have begun and still wait again, from their first instance."""
        for request in self._large:
            if request.taken and not request.gone and not request.suspect:
                self._begin_again(request)

    def _begin_again(self, request: Waiting[T]) -> None:
        self._count(request, request.taken)
        request.taken = 0
        request.attempt += 1
        request.parts.clear()

    def leave(self, request: Waiting[T]) -> None:
        """Drop a request; its room is free at once."""
        if not request.gone:
            request.gone = True
            self._count(request, request.taken - request.instances)

    def take(self, now: float, piece: int) -> list[Piece[T]]:
        """Take a mini-batch: small requests, or instances of large ones; or one suspect.

        While small requests come, mini-batches of large ones have `piece` instances (0: there are none), and
        small ones are next. Requests whose deadline has passed are dropped.
        """
        while self._suspects:
            first = self._suspects.popleft()
            if self._alive(first, now):
                return [self._piece(first, first.instances)]
        small, large = self._first(self._small, now), self._first(self._large, now)
        if small is not None:
            self._mixed_until = now + MEMORY
        room = self.batch if now > self._mixed_until else min(piece, self.batch)
        if large is not None and room and (small is None or self._turn_of_large):
            self._turn_of_large = False
            return self._pieces(now, room)
        self._turn_of_large = True
        return self._whole(now)

    def _whole(self, now: float) -> list[Piece[T]]:
        """Take small requests."""
        taken: list[Piece[T]] = []
        free = self.batch
        while (first := self._first(self._small, now)) and first.instances <= free:
            self._small.popleft()
            free -= first.instances
            taken.append(self._piece(first, first.instances))
        return taken

    def _pieces(self, now: float, free: int) -> list[Piece[T]]:
        """Take `free` instances of large requests."""
        taken: list[Piece[T]] = []
        while free and (first := self._first(self._large, now)):
            self._large.popleft()
            count = min(first.instances - first.taken, free)
            free -= count
            taken.append(self._piece(first, count))
            if first.taken < first.instances:
                self._large.append(first)
        return taken

    def _first(self, line: deque[Waiting[T]], now: float) -> Waiting[T] | None:
        """The first request that is waited for; those before it are dropped."""
        while line and (line[0].suspect or not self._alive(line[0], now)):
            line.popleft()
        return line[0] if line else None

    def _alive(self, request: Waiting[T], now: float) -> bool:
        """Whether a request is waited for; one whose time is over is dropped."""
        if not request.gone and request.deadline <= now:
            self.leave(request)
        return not request.gone

    def _piece(self, request: Waiting[T], count: int) -> Piece[T]:
        """Take the next `count` instances of a request."""
        first = request.taken
        request.taken += count
        self._count(request, -count)
        return Piece(request, first, request.taken, request.attempt)
