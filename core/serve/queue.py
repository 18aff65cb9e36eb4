"""The queue of requests for the engines, with deadlines and bounded room; large requests take turns."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# A request of more than a mini-batch divided by this is large. While others wait, too, or did in the last
# `MEMORY` mini-batches, all large ones together get this share of one.
SHARE = 4
MEMORY = 8


class FullError(Exception):
    """There is no room for a request."""


@dataclass(slots=True, eq=False)
class Waiting(Generic[T]):
    """A request of some `instances`, to be answered before `deadline`, on behalf of `asked`.

    `whole`: its instances run together. `gone`: it was answered, or nobody waits for it. `suspect`: it ran
    when an engine died, and runs alone now. `taken`: instances that an engine has got; `attempt` grows when
    they have to run again. `parts`: what came of the pieces so far, by their first instances.
    """

    asked: T
    instances: int
    deadline: float
    since: float = 0.0
    whole: bool = False
    gone: bool = False
    suspect: bool = False
    taken: int = 0
    attempt: int = 0
    parts: dict[int, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Piece(Generic[T]):
    """Instances `first` to `last` of a request, in its present attempt."""

    waiting: Waiting[T]
    first: int
    last: int
    attempt: int

    @property
    def stale(self) -> bool:
        """Whether nobody waits for these instances."""
        return self.waiting.gone or self.attempt != self.waiting.attempt


class RequestQueue(Generic[T]):
    """A queue for at most `room` instances; requests that are gone take no room.

    First come, first served, but a large request gets a piece at a time and then waits behind the others.
    `instances`: those that wait. `room` may change; an empty queue takes any request of up to `most`.
    """

    def __init__(self, most: int) -> None:
        self.room = self.most = most
        self.instances = 0
        self._line: deque[Waiting[T]] = deque()
        self._suspects: deque[Waiting[T]] = deque()
        self._mixed = 0  # mini-batches until large requests may fill one
        self._large = 0  # the most instances of a request that is not large

    def __len__(self) -> int:
        """The number of requests that wait, at least in part."""
        line = sum(not (w.gone or w.suspect) for w in self._line)
        return line + sum(not w.gone for w in self._suspects)

    @property
    def suspicious(self) -> bool:
        """Whether a request must run alone."""
        return bool(self._suspects)

    @property
    def full(self) -> bool:
        """Whether there is no room for a single instance."""
        return bool(self.instances) and self.instances >= min(self.room, self.most)

    def put(self, request: Waiting[T]) -> None:
        """Add a request. Raises FullError if there is no room for all of its instances."""
        room = min(self.room, self.most) if self.instances else self.most
        if self.instances + request.instances > room:
            raise FullError
        self.instances += request.instances
        self._line.append(request)
        if request.instances <= self._large:
            self._mixed = MEMORY

    def put_back(self, request: Waiting[T]) -> None:
        """Add a request that was taken and not answered, as a suspect, before all others."""
        self._begin_again(request)
        request.suspect = True
        self._suspects.append(request)

    def start_over(self) -> None:
        """Let requests that have begun and still wait run again from their first instance."""
        for request in self._line:
            if request.taken and not request.gone and not request.suspect:
                self._begin_again(request)

    def _begin_again(self, request: Waiting[T]) -> None:
        self.instances += request.taken
        request.taken = 0
        request.attempt += 1
        request.parts.clear()

    def leave(self, request: Waiting[T]) -> None:
        """Drop a request; its room is free at once."""
        if not request.gone:
            request.gone = True
            self.instances -= request.instances - request.taken

    def take(self, most: int, now: float) -> list[Piece[T]]:
        """Take what runs next: `most` instances, or a single request with more; or one suspect.

        Requests whose deadline has passed are dropped.
        """
        while self._suspects:
            first = self._suspects.popleft()
            if self._alive(first, now):
                return [self._piece(first, first.instances)]
        large = self._large = max(1, most // SHARE)
        free, others = most, most if self._mixed <= 0 else large  # room of all, and of large ones
        taken: list[Piece[T]] = []
        held: list[Waiting[T]] = []
        behind: list[Waiting[T]] = []
        while self._line and free > 0:
            first = self._line.popleft()
            if first.suspect or not self._alive(first, now):
                continue
            if first.whole or first.instances <= large:
                if taken and first.instances > free:
                    self._line.appendleft(first)
                    break
                count = first.instances
                self._mixed = MEMORY
            else:
                count = min(first.instances - first.taken, free, others)
                if not count:
                    held.append(first)
                    continue
                others -= count
                if first.taken + count < first.instances:
                    behind.append(first)
            free -= count
            taken.append(self._piece(first, count))
        self._line.extendleft(reversed(held))
        self._line.extend(behind)
        self._mixed -= bool(taken) and self._mixed > 0
        return taken

    def _alive(self, request: Waiting[T], now: float) -> bool:
        """Whether a request is waited for; one whose time is over is dropped."""
        if not request.gone and request.deadline <= now:
            self.leave(request)
        return not request.gone

    def _piece(self, request: Waiting[T], count: int) -> Piece[T]:
        """Take the next `count` instances of a request."""
        first = request.taken
        request.taken += count
        self.instances -= count
        return Piece(request, first, request.taken, request.attempt)
