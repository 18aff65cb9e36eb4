"""Data races of simulated threads, found in every schedule: not only in one where they show.

An access is known to have happened before another one if barriers put it so. Barriers of a block count the
block's epochs: whatever a thread did in an earlier epoch happened before what any thread of the block does
in a later one. Across blocks the order goes through atomics: a release tells which epochs of every block it
comes after, an acquire learns that, and the next barrier of the block tells it to all its threads. (Vector
clocks as in FastTrack, Flanagan and Freund, PLDI 2009, with a block in place of a thread.) A warp's
synchronisation orders its own lanes.
"""

from __future__ import annotations

from dataclasses import dataclass, field


class RaceError(AssertionError):
    """Two threads touch one address, at least one of them writes, and nothing orders them."""


@dataclass(slots=True)
class Clock:
    """What one thread knows: its own epochs, and for each block the last epoch that is over for it."""

    block: int
    warp: int
    thread: int
    known: dict[int, int]
    epoch: int = 0
    warp_epoch: int = 0


Access = tuple[int, int, int, int, int]  # block, epoch, warp, epoch of the warp, thread


@dataclass(slots=True)
class Races:
    """The last write of each address, and its reads since. Raises RaceError."""

    writes: dict[int, Access] = field(default_factory=dict)
    reads: dict[int, dict[int, Access]] = field(default_factory=dict)
    released: dict[int, dict[int, int]] = field(default_factory=dict)

    def read(self, address: int, clock: Clock) -> None:
        """A plain load."""
        last = self.writes.get(address)
        if last is not None and not _before(last, clock):
            raise RaceError(f"read of what another thread wrote: {_say(last)}, then {_say(_now(clock))}")
        self.reads.setdefault(address, {})[clock.thread] = _now(clock)

    def write(self, address: int, clock: Clock) -> None:
        """A plain store."""
        last = self.writes.get(address)
        if last is not None and not _before(last, clock):
            raise RaceError(f"two writes: {_say(last)}, then {_say(_now(clock))}")
        for read in self.reads.pop(address, {}).values():
            if not _before(read, clock):
                raise RaceError(f"write of what another thread reads: {_say(read)}, then {_say(_now(clock))}")
        self.writes[address] = _now(clock)

    def release(self, address: int, clock: Clock) -> None:
        """Tell all that is over for this thread: the earlier epochs of its block, and what it has learnt."""
        told = self.released.setdefault(address, {})
        _learn(told, clock.known)
        told[clock.block] = max(told.get(clock.block, -1), clock.epoch - 1)

    def acquire(self, address: int, clock: Clock) -> None:
        """Learn what releases of this address told."""
        _learn(clock.known, self.released.get(address, {}))


def barrier(clocks: list[Clock]) -> None:
    """All threads of a block meet: they share what they know, and a new epoch begins."""
    together: dict[int, int] = {}
    for clock in clocks:
        _learn(together, clock.known)
    for clock in clocks:
        clock.known = dict(together)
        clock.epoch += 1


def _learn(known: dict[int, int], told: dict[int, int]) -> None:
    for block, epoch in told.items():
        if known.get(block, -1) < epoch:
            known[block] = epoch


def _now(clock: Clock) -> Access:
    return clock.block, clock.epoch, clock.warp, clock.warp_epoch, clock.thread


def _before(access: Access, clock: Clock) -> bool:
    block, epoch, warp, warp_epoch, thread = access
    if block != clock.block:
        return epoch <= clock.known.get(block, -1)
    if epoch < clock.epoch or thread == clock.thread:
        return True
    return warp == clock.warp and warp_epoch < clock.warp_epoch


def _say(access: Access) -> str:
    block, epoch, _, _, thread = access
    return f"block {block} thread {thread} after {epoch} barriers"
