"""Which operands to keep free of copies where not all can be: the heaviest possible set.

What can be kept is closed downwards: a part of a possible set is possible. So the operands to give up are a
cheapest hitting set of the conflicts (minimal impossible sets), of which only those are worked out that the
search meets: give up a cheapest hitting set of the conflicts known; if the rest is possible, that is
optimal; else it holds a new conflict. The weight of each hitting set is a lower bound, and each
rest made possible, with what then still fits, an upper bound.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from abw.pqtree.closure import Closure
from abw.pqtree.conflict import smallest
from abw.pqtree.hitting import greedy_hitting_set, hitting_set, packing_bound


@dataclass(frozen=True, slots=True)
class Choice:
    """The items kept, the conflicts met, and a proven lower bound on the weight that must be given up."""

    kept: tuple[int, ...]
    conflicts: tuple[frozenset[int], ...]
    bound: int


def choose(closure: Closure, deadline: float) -> Choice:
    """The heaviest set of items that can be kept, or the best one found until `deadline` (time.monotonic)."""
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
        """Greedy, swaps, then hitting sets."""
        every = list(range(len(self.weight)))
        if self.closure.feasible(every, at_once=True):
            return Choice(tuple(every), (), 0)
        self.offer(self.greedy([], self.heavy_first))
        self.offer(self.greedy([], every))
        self.swap()
        bound = self.improve_bound()
        return Choice(tuple(sorted(self.best)), tuple(self.conflicts), min(bound, self.given_up))

    def late(self) -> bool:
        return time.monotonic() > self.deadline

    def offer(self, kept: list[int]) -> bool:
        """Remember a possible set if it is the best so far."""
        given_up = sum(self.weight) - sum(self.weight[i] for i in kept)
        if given_up >= self.given_up:
            return False
        self.best, self.given_up = kept, given_up
        return True

    def greedy(self, kept: list[int], candidates: Iterable[int]) -> list[int]:
        """Add to a possible set the candidates that fit, one after the other; the first time, all of them.

        Most items that do not fit fail by adjacency: if what is left agrees on lane orders too, that is all.
        Else several are tried at once as long as they fit. The result is the same, and found faster.
        """
        held = set(kept)
        waiting = [i for i in candidates if i not in held]
        if not (self.best and self.late()) and self.closure.feasible(kept):
            found = [*kept, *(i for i in waiting if self.closure.push([i]))]
            if self.closure.alignment() is not None:
                return found
        found, at, size = list(kept), 0, len(waiting)
        while at < len(waiting) and not (self.best and self.late()):
            some = waiting[at : at + size]
            if self.closure.feasible([*found, *some]):
                found += some
            elif len(some) > 1:
                size = len(some) // 2
                continue
            at += len(some)
            size *= 2
        return found

    def conflict_in(self, some: Sequence[int]) -> frozenset[int] | None:
        """A minimal conflict among the items, also remembered; None if they are possible together."""
        if self.closure.feasible(some):
            return None
        fits, fails = 0, min(self.closure.added + 1, len(some))  # sizes of beginnings of `some`
        while fails - fits > 1:
            middle = (fits + fails) // 2
            if self.closure.feasible(some[:middle]):
                fits = middle
            else:
                fails = middle
        last = some[fits]
        found = frozenset([last, *smallest(some[:fits], lambda few: not self.closure.feasible([last, *few]))])
        self.conflicts.append(found)
        return found

    def swap(self) -> None:
        """Give up an operand that stands against several others, as long as that gains."""
        gained = True
        while gained and not self.late():
            gained = False
            dropped = [i for i in self.heavy_first if i not in self.best]
            for i in dropped:
                if not any(i in some and some <= {i, *self.best} for some in self.conflicts):
                    self.conflict_in([i, *self.best])
            rivals = {j for some in self.conflicts for j in some if j in self.best}
            for rival in sorted(rivals, key=lambda j: (self.weight[j], j)):
                without = [i for i in self.best if i != rival]
                if self.late() or self.offer(self.greedy(without, [*dropped, rival])):
                    gained = not self.late()
                    break

    def improve_bound(self) -> int:
        """Hitting sets until one leaves a possible rest. Returns the best proven bound."""
        bound = packing_bound(self.conflicts, self.weight)
        proven_with = 0  # conflicts
        while bound < self.given_up and not self.late():
            found = self.find_conflicts(greedy_hitting_set(self.conflicts, self.weight))
            if found and len(self.conflicts) < 1.5 * proven_with:
                continue  # cheap hitting sets do as long as they lead to new conflicts
            proven_with = len(self.conflicts)
            known = set(self.heavy_first) - set(self.best)
            given_up, proven = hitting_set(self.conflicts, self.weight, known, bound, self.deadline)
            if not proven:
                break
            bound = sum(self.weight[i] for i in given_up)
            if bound < self.given_up and not found:
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
