"""What is decided at vertices from the values just computed, and which vertices come to be by that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.data.instances import Ints
from abw.core.data.vertices import INDEX, INSTANCE, KIND, Columns, FieldColumn
from abw.core.graph.bind import passes
from abw.core.graph.growing.growth_index import Whose
from abw.core.ir.growth import Clause, Decision, GrowingKind, Number, Place, Test, Tests
from abw.core.ir.schema import Hop

Bools = NDArray[np.bool_]
Scores = NDArray[np.floating[Any]]
# The values of an output of a type on vertices: `read(type, output, vertices)` (n, *shape).
Read = Callable[[int, int, Ints], Scores]

GOLDEN = 0x9E3779B97F4A7C15
WORD = 2**64 - 1
# The steps of splitmix64's finaliser: by how much a number is shifted before it is added to itself bit by
# bit, and what the sum is multiplied with.
MIXERS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))
# What a decision has picked at each of some vertices, if it picks several at one.
Picked = Mapping[str, Ints]

# What a decision chooses at each of some vertices; or where several may be picked at one, these vertices as
# often as something is picked there, and what.
Decided = Callable[[Decision, Ints], Ints | tuple[Ints, Ints]]
# What a clause added at some vertices: the place of each among these, and the new one, or -1.
Added = tuple[NDArray[np.intp], Ints]

THIS = Place(())
_NOTHING: Picked = MappingProxyType({})


class ScoreError(Exception):
    """A score that is not a number: nothing can be chosen at `vertex`."""

    def __init__(self, decision: Decision, vertex: int) -> None:
        super().__init__(decision.name)
        self.decision, self.vertex = decision, vertex


@dataclass(frozen=True, slots=True)
class Chances:
    """What chance goes by: the seed, and each instance's number in its file (N,)."""

    seed: int
    numbers: NDArray[np.int64]

    def drawn(self, decision: Decision, columns: Columns, at: Ints) -> NDArray[np.float64]:
        """A number from 0 to below 1 for each vertex, whatever mini-batch it is in.

        splitmix64's finaliser (Steele, Lea and Flood, OOPSLA 2014) of the instance's number in the file, the
        vertex's number among its kind, the kind, the decision's name and the seed.
        """
        x = self.numbers[columns[INSTANCE][at]].astype(np.uint64) << np.uint64(32)
        x |= columns[INDEX][at].astype(np.uint64)
        x ^= columns[KIND][at].astype(np.uint64) << np.uint64(24)
        return drawn(x, salt_of(decision, self.seed))


def drawn(x: NDArray[np.uint64], salt: int) -> NDArray[np.float64]:
    """A number from 0 to below 1 for each of some numbers: splitmix64's finaliser, with a salt, twice."""
    x = x.copy()
    for constant in (salt, GOLDEN):
        x += np.uint64(constant)
        for shift, factor in MIXERS:
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53


def salt_of(decision: Decision, seed: int) -> int:
    """What tells a decision's chance from others': 64 bits of its name and the seed."""
    salt = seed * GOLDEN
    for letter in decision.name.encode():
        salt = (salt ^ letter) * 0x100000001B3
    return salt & WORD


def evaluate(
    value: Place | Number,
    columns: Columns,
    at: Ints,
    added: Sequence[Ints] = (),
    picked: Picked = _NOTHING,
) -> Ints:
    """A place or number for each vertex of `at`, -1 for none; `added[i]`: what clause i added there."""
    if isinstance(value, Place):
        begin = at if value.added is None else added[value.added]
        return columns.follow(begin, value.hops)
    if value.place == THIS and value.field in picked:
        return np.where(picked[value.field] >= 0, picked[value.field] + np.int32(value.plus), np.int32(-1))
    where = evaluate(value.place, columns, at, added)
    found = (columns[INDEX] if value.field == "index" else columns[FieldColumn(value.field)])[where]
    return np.where(found >= 0, np.maximum(found + np.int32(value.plus), -1), np.int32(-1))


def holds(
    tests: Tests, columns: Columns, at: Ints, added: Sequence[Ints] = (), picked: Picked = _NOTHING
) -> Bools:
    """Whether all tests hold, for each vertex of `at`."""
    found = np.ones(len(at), np.bool_)
    for test in tests:
        found &= _holds(test, evaluate(test.value, columns, at, added, picked))
    return found


def _holds(test: Test, values: Ints) -> Bools:
    outcome: Bools
    if test.comparison is not None:
        outcome = passes(test.comparison, values, test.against)
    else:
        outcome = values > 0 if isinstance(test.value, Number) else values >= 0
    return ~outcome if test.negated else outcome


def allowed(decision: Decision, columns: Columns, at: Ints) -> Bools | None:
    """Which choices are allowed at each vertex (n, choices); None where all are."""
    if decision.allow is None:
        return None
    return np.stack([holds(tests, columns, at) for tests in decision.allow], axis=1)


def masked(decision: Decision, columns: Columns, at: Ints, read: Read) -> tuple[Scores, Bools | None]:
    """The scores at each vertex (n, choices), -inf where a choice is not allowed, and which are allowed.

    Raises ScoreError.
    """
    scores = read(decision.type, decision.output, at).reshape(len(at), -1)
    odd = np.isnan(scores).any(axis=1)
    if odd.any():
        raise ScoreError(decision, int(at[np.argmax(odd)]))
    may = allowed(decision, columns, at)
    return (scores if may is None else np.where(may, scores, -np.inf)), may


def decide(decision: Decision, columns: Columns, at: Ints, read: Read, chances: Chances) -> Ints:
    """What is chosen at each vertex (see `Decision`), by itself. Raises ScoreError. Linear in the scores."""
    if decision.how == "chance":
        return (chances.drawn(decision, columns, at) < decision.limit).astype(np.int32)
    scores, may = masked(decision, columns, at, read)
    if decision.how == "over":
        return (scores[:, 0] > decision.limit).astype(np.int32)
    if decision.how == "sample":
        chosen = sampled(scores, chances.drawn(decision, columns, at))
    else:
        chosen = scores.argmax(axis=1)
    if may is not None:
        chosen = np.where(may.any(axis=1), among(chosen, scores, may), -1)
    return chosen.astype(np.int32)


def among(chosen: NDArray[np.intp], scores: Scores, may: Bools) -> NDArray[np.intp]:
    """What is chosen (n,), but where all that is allowed scores -inf, the first of that."""
    some = scores[np.arange(len(chosen)), chosen] > -np.inf
    return np.where(some, chosen, may.argmax(axis=1))


def sampled(scores: Scores, drawn: NDArray[np.float64]) -> NDArray[np.int64]:
    """The first choice up to which the softmax of the scores (n, choices) adds up to more than `drawn`."""
    ends = shares(scores)
    chosen = (ends <= drawn[:, None]).sum(axis=1)
    # where rounding leaves nothing above, the last with any share
    last = scores.shape[1] - 1 - np.argmax(scores[:, ::-1] > -np.inf, axis=1)
    found: NDArray[np.int64] = np.minimum(chosen, last)
    return found


def shares(scores: Scores) -> NDArray[np.float64]:
    """Where each choice's share of 0 to 1 ends (n, choices): the softmax, added up, in double precision."""
    ends: NDArray[np.float64] = np.cumsum(np.exp(relative(scores)), axis=1)
    return ends / ends[:, -1:]


def relative(scores: Scores) -> NDArray[np.float64]:
    """Scores less the largest of their row (n, choices), in double precision; 0 for that, if infinite too."""
    found: NDArray[np.float64] = scores.astype(np.float64)
    top = found.max(axis=1, keepdims=True)
    largest = None if np.isfinite(top).all() else found == top
    with np.errstate(invalid="ignore"):
        found -= top
    if largest is not None:
        found[largest] = 0.0
    return found


class Grower:
    """Adds vertices to a mini-batch's columns by the clauses of kinds.

    `cut` (kinds, instances): whether a vertex of a kind did not come to be in an instance because it had
    `most` of them.
    """

    def __init__(self, kinds: Mapping[str, GrowingKind], names: Sequence[str], whose: Whose) -> None:
        """`names`: of all kinds, by their numbers."""
        self._kinds, self._names, self._whose = kinds, names, whose
        self.count = np.zeros((len(names), whose.count), np.int64)
        self.cut = np.zeros((len(names), whose.count), np.bool_)

    def start(self, columns: Columns, roots: Ints) -> Ints:
        """Add what instances begin with; `roots` (instances,) are their own vertices.

        The vertices of the first round: the given ones that decide, then those that were added.
        """
        given = np.arange(columns.count, dtype=np.int32)
        for kind in self._kinds.values():
            if kind.start is not None:
                self._add(kind.start, columns, roots, np.ones(len(roots), np.bool_))
        deciding = frozenset[str]().union(*(kind.kinds for kind in self._kinds.values() if kind.given))
        own = self._whose.of_kinds(deciding, columns, given)
        return np.concatenate([own, np.arange(len(given), columns.count, dtype=np.int32)])

    def round(
        self, columns: Columns, now: Ints, decided: Decided
    ) -> Iterator[tuple[GrowingKind, Ints, tuple[Added, ...]]]:
        """Decide at the vertices `now`, then do the clauses of their kinds.

        Each kind, where its clauses were done, and what each of them added.
        """
        found = []
        for kind in self._kinds.values():
            at = on = self._whose.of_kinds(kind.kinds, columns, now)
            picked = {}
            for decision in kind.decisions if len(at) else ():
                chosen = decided(decision, at)
                if isinstance(chosen, tuple):
                    on, picked[decision.name] = chosen
                else:
                    columns[FieldColumn(decision.name)][at] = chosen
            found.append((kind, on, picked))
        for kind, at, picked in found:
            yield kind, at, self._grow(kind, columns, at, picked)

    def _grow(self, kind: GrowingKind, columns: Columns, at: Ints, picked: Picked) -> tuple[Added, ...]:
        """Do a kind's clauses at its vertices, whose decisions are made; nothing where one chose nothing.

        Vertices come as often as something is `picked` there. What each clause added.
        """
        may = np.ones(len(at), np.bool_)
        for decision in kind.decisions:
            may &= evaluate(Number(THIS, decision.name), columns, at, (), picked) >= 0
        added: list[Added] = []
        known: list[Ints] = []
        for clause in kind.clauses:
            here, numbers, before, rows = at, picked, known, np.arange(len(at))
            if clause.each:
                begin = columns.follow(at, clause.each[:-1])
                sizes, members = self._whose.reached(columns, clause.each[-1:], begin)
                rows = np.repeat(rows, sizes)
                here, before = at[rows], [*(new[rows] for new in known), members]
                numbers = {name: values[rows] for name, values in picked.items()}
            there = may[rows] & holds(clause.when, columns, here, before, numbers)
            if clause.unless:
                there &= ~holds(clause.unless, columns, here, before, numbers)
            for needed in clause.needs:
                there &= before[needed] >= 0
            new = self._add(clause, columns, here, there, before, numbers)
            added.append((rows, new))
            # of a clause that may add several nothing is asked
            known.append(np.full(len(at), -1, np.int32) if clause.each else new)
        return tuple(added)

    def _add(
        self,
        clause: Clause,
        columns: Columns,
        at: Ints,
        there: Bools,
        added: Sequence[Ints] = (),
        picked: Picked = _NOTHING,
    ) -> Ints:
        """New vertices where a clause says so and there is room; for each of `at` the new one, or -1."""
        found = np.full(len(at), -1, np.int32)
        who = np.flatnonzero(there)
        if not len(who):
            return found
        number, most = self._names.index(clause.adds), self._kinds[clause.adds].most
        whose = columns[INSTANCE][at[who]]
        index = self.count[number][whose] + ranks(whose)
        room = index < most
        if not room.all():
            self.cut[number][whose[~room]] = True
            who, index, whose = who[room], index[room], whose[room]
        self.count[number] += np.bincount(whose, minlength=self.count.shape[1])
        deciding = at[who]
        chosen = {name: numbers[who] for name, numbers in picked.items()}
        before = [values[who] for values in added]
        links = [(Hop(name), evaluate(place, columns, deciding, before)) for name, place in clause.links]
        numbers = [
            (
                FieldColumn(name),
                evaluate(value, columns, deciding, before, chosen) if isinstance(value, Number) else value,
            )
            for name, value in clause.fields
        ]
        new = columns.append(len(who))
        for name, values in (*links, *numbers):
            columns[name][new] = values
        columns[KIND][new] = number
        columns[INSTANCE][new] = whose
        columns[INDEX][new] = index
        home = columns[Hop("instance")][deciding]
        columns[Hop("instance")][new] = np.where(home >= 0, home, deciding)
        found[who] = new
        return found


def ranks(groups: Ints) -> Ints:
    """For each entry how many before it are of the same group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    first = np.searchsorted(ordered, ordered, side="left")
    ranks = np.empty(len(groups), np.int32)
    ranks[order] = np.arange(len(groups)) - first
    return ranks
