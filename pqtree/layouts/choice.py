"""Which operands to keep free of copies where not all can be: the heaviest possible set.

What can be kept is closed downwards: a part of a possible set is possible. So the operands to give up are a
cheapest hitting set of the conflicts (minimal impossible sets), of which only those are worked out that the
search meets: give up a cheapest hitting set of the conflicts known; if the rest is possible, that is
optimal; else it holds a new conflict. The weight of each hitting set is a lower bound, and each
rest made possible, with what then still fits, an upper bound. Where half of the time has proven nothing, the
other half goes into exchanges: an item given up comes back, and those that do not fit any more go.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from abw.pqtree.layouts.closure import Closure
from abw.pqtree.layouts.hitting import greedy_hitting_set, hitting_set, packing_bound


@dataclass(frozen=True, slots=True)
class Choice:
    """The items kept, the conflicts met, and a proven lower bound on the weight that must be given up."""

    kept: tuple[int, ...]
    conflicts: tuple[frozenset[int], ...]
    bound: int


def choose(closure: Closure, deadline: float) -> Choice:
    """The heaviest set of items that can be kept, or the best one found until `deadline` (time.thread_time).

    Meant for items of which not all can be kept.
    """
    return _Search(closure, deadline).run()


class _Search:
    def __init__(self, closure: Closure, deadline: float) -> None:
        self.closure, self.deadline = closure, deadline
        self.weight = [item.weight for item in closure.items]
        sizes = [item.size for item in closure.items]
        every = range(len(closure.items))
        self.heavy_first = sorted(every, key=lambda i: (-self.weight[i], -sizes[i], i))
        self.conflicts: list[frozenset[int]] = []
        self.best: list[int] = []
        self.given_up = sum(self.weight) + 1

    def run(self) -> Choice:
        """Greedy, then hitting sets, then exchanges; last, what stands against each item given up."""
        every = range(len(self.weight))
        self.offer(self.greedy([], self.heavy_first))
        self.offer(self.greedy([], every))
        end, self.deadline = self.deadline, (time.thread_time() + self.deadline) / 2
        bound = self.improve_bound()
        self.deadline = end
        self.exchange(bound)
        kept = set(self.best)
        explained = {i for some in self.conflicts if len(some - kept) == 1 for i in some - kept}
        for i in every:
            if i not in kept and i not in explained and not self.late():
                self.conflict_in([i, *self.best])
        return Choice(tuple(sorted(self.best)), tuple(self.conflicts), min(bound, self.given_up))

    def late(self) -> bool:
        return time.thread_time() > self.deadline

    def offer(self, kept: list[int]) -> bool:
        """Remember a possible set if it is the best so far."""
        given_up = sum(self.weight) - sum(self.weight[i] for i in kept)
        if given_up >= self.given_up:
            return False
        self.best, self.given_up = kept, given_up
        return True

    def greedy(self, kept: list[int], candidates: Iterable[int]) -> list[int]:
        """Add to a possible set the candidates that fit, one after the other; the first time, all of them.

        Most items that do not fit fail by adjacency, and are passed over at once; where what is added then
        does not agree on lane orders, the first item that is against it goes too, and those after it are
        tried anew.
        """
        held = set(kept)
        waiting = [i for i in candidates if i not in held]
        while waiting and not (self.best and self.late()):
            found = self.closure.fill(kept, waiting)
            fits = self.fails_at(found, len(kept))
            kept = found[:fits]
            waiting = waiting[waiting.index(found[fits]) + 1 :] if fits < len(found) else []
        return kept

    def exchange(self, bound: int) -> None:
        """Take in items given up, at random: what shares no variable with one stays if it fits, then others.

        What costs as much as the best found counts, too: it may lead further.
        """
        random = Random(0)
        lanes = [frozenset(item.lanes) for item in self.closure.items]
        never: set[int] = set()
        while bound < self.given_up and not self.late():
            held = never.union(self.best)
            out = [i for i in self.heavy_first if i not in held]
            if not out:
                return
            random.shuffle(out)
            new = out.pop()
            if not self.closure.feasible([new]):
                never.add(new)
                continue
            near = [i for i in self.best if not lanes[new].isdisjoint(lanes[i])]
            random.shuffle(near)
            far = [i for i in self.best if lanes[new].isdisjoint(lanes[i])]
            found = self.greedy([new], [*far, *near, *out])
            if sum(self.weight[i] for i in found) >= sum(self.weight[i] for i in self.best):
                self.best = found
                self.given_up = sum(self.weight) - sum(self.weight[i] for i in found)

    def conflict_in(self, some: Sequence[int]) -> frozenset[int] | None:
        """A minimal conflict among the items, also remembered; None if they are possible together.

        The item with which a beginning of the list becomes impossible is in the conflict; it goes to the
        front, those after it go, and the next one is sought, until the front is impossible by itself.
        """
        core: list[int] = []
        rest = list(some)
        while (at := self.fails_at([*core, *rest])) >= len(core):
            if at == len(core) + len(rest):
                return None
            at -= len(core)
            core.append(rest[at])
            rest = rest[:at]
        found = frozenset(core)
        self.conflicts.append(found)
        return found

    def fails_at(self, some: Sequence[int], fits: int = 0) -> int:
        """How many items at the beginning are possible together, at least `fits`: not so with the next."""
        fails = self.closure.hold(some)
        if self.closure.agrees():
            return fails
        while fails - fits > 1:
            middle = (fits + fails) // 2
            if self.closure.feasible(some[:middle]):
                fits = middle
            else:
                fails = middle
        return fits

    def improve_bound(self) -> int:
        """Hitting sets until one leaves a possible rest. Returns the best proven bound."""
        bound = packing_bound(self.conflicts, self.weight)
        while bound < self.given_up and not self.late():
            if self.find_conflicts(greedy_hitting_set(self.conflicts, self.weight)):
                continue  # cheap hitting sets do as long as they lead to new conflicts
            known = set(self.heavy_first) - set(self.best)
            given_up, proven = hitting_set(self.conflicts, self.weight, known, bound, self.deadline)
            if not proven:
                break
            bound = sum(self.weight[i] for i in given_up)
            if bound < self.given_up:
                self.find_conflicts(given_up)
        return max(bound, packing_bound(self.conflicts, self.weight))

    def find_conflicts(self, given_up: set[int]) -> bool:
        """Find conflicts in the rest that share nothing, until what is left is possible; was there one?"""
        rest = [i for i in self.heavy_first if i not in given_up]
        before = len(self.conflicts)
        while not self.late():
            found = self.conflict_in(rest)
            if found is None:
                self.offer(self.greedy(rest, self.heavy_first))
                break
            rest = [i for i in rest if i not in found]
        return len(self.conflicts) > before
