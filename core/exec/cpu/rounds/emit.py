"""The compiled function of a growing model's rounds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from abw.core.data.vertices import KIND
from abw.core.exec.cpu.llvm.emit import Module
from abw.core.exec.cpu.rounds.beams import Beams
from abw.core.exec.cpu.rounds.choices import Choices
from abw.core.exec.cpu.rounds.clauses import ORIGIN, Clauses
from abw.core.exec.cpu.rounds.feeds import Feeds
from abw.core.exec.cpu.rounds.launch import Launcher
from abw.core.exec.cpu.rounds.members import Members
from abw.core.exec.cpu.rounds.state import DONE, FULL, PAUSED, RUNNING, StateFunction, Words
from abw.core.exec.cpu.target import Target
from abw.core.graph.growing.round_graph import Sprouter
from abw.core.ir.growth import GrowingKind
from abw.core.ir.schema import Hop
from abw.core.ir.steps import Origin, Origins, origins_of
from abw.core.plan.arenas import Arenas

Kinds = frozenset[str]
# Vertices of some kinds, and of some origins; None: of all.
Group = tuple[Kinds, Origins | None]


@dataclass(frozen=True, slots=True)
class Emitted:
    """Functions `begin(state)` and `rounds(state, scratch)`, and where they look for what in their state."""

    text: str
    words: Words


def emit_rounds(sprouter: Sprouter, arenas: Arenas, target: Target) -> Emitted:
    """Write the rounds of a model.

    `begin` adds what instances begin with, behind vertex `next`. `rounds` computes the vertices `first` to
    `last - 1`, decides, and adds vertices, until one of `state.py`'s ends: a round is whole, or FULL ends
    before it. In the first one given vertices from `given_first` to `given_last` decide, too.
    """
    module, words = Module(target), Words()
    kinds = {kind.name: kind for kind in sprouter.growth.kinds}
    f = StateFunction(module, "begin", words)
    clauses = Clauses(f, Members(f, sprouter), kinds, noted(sprouter))
    for kind in kinds.values():
        if kind.start is not None:
            clauses.start(kind.start, f.address("roots"), f.get("root_count"))
    module.add(f)
    f = StateFunction(module, "rounds", words, ", ptr %scratch")
    _Rounds(f, sprouter, arenas).emit()
    module.add(f)
    return Emitted(module.text(), words)


def wide(sprouter: Sprouter, arenas: Arenas) -> dict[int, int]:
    """How many rows of each arena a vertex's nodes may take."""
    found: dict[int, int] = {}
    for t in sprouter.phases.during:
        for o in range(int(arenas.outputs[t])):
            arena = int(arenas.output_arena[t, o])
            found[arena] = found.get(arena, 0) + 1
    return found


def most_added(sprouter: Sprouter) -> int:
    """How many vertices a vertex may add in a round, beside those for each of a list."""
    return max(len(k.clauses) * (k.best.width if k.best else 1) for k in sprouter.growth.kinds)


def noted(sprouter: Sprouter) -> tuple[Origin, ...]:
    """The origins that are noted of vertices: where steps ask for them."""
    return () if sprouter.phases.ordered else origins_of(sprouter.growth)


def width(sprouter: Sprouter) -> int:
    """How many continuations of a vertex may be picked in a round, if any are."""
    return sprouter.growth.beam[1].width if sprouter.growth.beam else 1


class _Rounds:
    """The function `rounds` while it is written."""

    def __init__(self, f: StateFunction, sprouter: Sprouter, arenas: Arenas) -> None:
        self.f, self.sprouter, self.arenas = f, sprouter, arenas
        self.model = sprouter.model
        launcher = Launcher(f, arenas)
        beam = sprouter.growth.beam
        self.beams = Beams(f, launcher, arenas, beam[1]) if beam else None
        self.members = Members(f, sprouter)
        self.feeds = Feeds(f, launcher, self.members, sprouter, arenas)
        self.choices = Choices(f, launcher, arenas, self.model.data.seed)
        kinds = {kind.name: kind for kind in sprouter.growth.kinds}
        self.clauses = Clauses(f, self.members, kinds, noted(sprouter))
        self.steps: list[tuple[int, Group]] = [
            (t, (self.model.types[t].kinds, None if sprouter.phases.ordered else origins))
            for t, origins in sprouter.phases.steps
        ]
        decide: list[Group] = [(kind.kinds, None) for kind in sprouter.growth.kinds]
        self.groups = list(dict.fromkeys([*(group for _, group in self.steps), *decide]))

    def emit(self) -> None:
        f = self.f
        f.set("status", RUNNING)
        place = f.let(f"getelementptr i64, ptr %state, i64 {f.words['status']}")
        f.until(f"load i64, ptr {place}", str(DONE), lambda _: self._if_room())

    def _if_room(self) -> None:
        """A round, where there is room for all that may come of it."""
        f = self.f
        given = f.i64("sub", f.get("given_last"), f.get("given_first"))
        count = f.i64("add", f.i64("sub", f.get("last"), f.get("first")), given)
        f.set("wanted", count)
        self.members.note(f.get("first"), f.get("last"))
        self._adding(count)
        bounds: list[tuple[Hashable, Hashable, int]] = [
            (("row", a), ("row_end", a), n) for a, n in wide(self.sprouter, self.arenas).items()
        ]
        if self.beams:  # what is kept is never less than what is picked
            bounds.append((("kept", "next"), ("kept", "end"), width(self.sprouter)))
        fits = [
            f.test("sle", f.i64("add", f.get(at), f.i64("mul", count, times)), f.get(end))
            for at, end, times in bounds
        ]
        fits.append(f.test("sle", f.i64("add", f.get("next"), f.get("adding")), f.get("end")))
        fits.append(f.test("sle", count, f.get("room")))
        fits.append(f.test("sle", f.get("longest"), f.get("widest")))
        f.when(f.both(fits), self._round, lambda: f.set("status", FULL))

    def _adding(self, count: str) -> None:
        """Note how many vertices the round may add."""
        f = self.f
        f.set("adding", f.i64("mul", count, most_added(self.sprouter)))
        for kind in self.sprouter.growth.kinds:
            for clause in kind.clauses:
                if clause.each:
                    self._add_size(kind, clause.each)

    def _add_size(self, kind: GrowingKind, hops: tuple[Hop, ...]) -> None:
        """Add the sizes of lists at vertices of a kind to what the round may add."""
        f = self.f

        def add(vertex: str) -> None:
            low, high = self.members.edges(hops[-1:], f.follow(vertex, hops[:-1]))
            f.set("adding", f.i64("add", f.get("adding"), f.i64("sub", high, low)))

        self._visit(kind.kinds, lambda vertex, there: f.when(there, lambda: add(vertex)))

    def _round(self) -> None:
        f = self.f
        f.set("round", f.i64("add", f.get("round"), 1))
        for number, group in enumerate(self.groups):
            self._list(number, *group)
        for t, group in self.steps:
            self.feeds.batch(t, *self._of(group))
        for kind in self.sprouter.growth.kinds:
            for decision in kind.decisions:
                scores = self._scores(decision.type, decision.output)
                if self.beams and decision is kind.best:
                    self.beams.pick(*self._of((kind.kinds, None)), scores)
                else:
                    self.choices.decide(decision, *self._of((kind.kinds, None)), scores)
        before = f.get("next")
        for kind in self.sprouter.growth.kinds:
            if kind.clauses:
                picked = self.beams.picked() if self.beams and kind.best else None
                self.clauses.grow(kind, *(picked or self._of((kind.kinds, None))))
        self._next(before)

    def _next(self, first: str) -> None:
        """What came to be is computed in the next round, if there is one."""
        f = self.f
        last = f.get("next")
        f.set("first", first)
        f.set("last", last)
        f.set("given_last", f.get("given_first"))
        count = f.i64("sub", last, first)
        left = f.i64("sub", f.get("left"), count)
        f.set("left", left)
        going = f.either(f.test("sgt", left, 0), str(RUNNING), str(PAUSED))
        f.set("status", f.either(f.test("sgt", count, 0), going, str(DONE)))

    def _scores(self, t: int, output: int) -> int:
        return self.model.types[t].outputs[output].shape[0] if t >= 0 else 0

    def _of(self, group: Group) -> tuple[str, str]:
        """The vertices of a group that the round is of, and how many they are."""
        number = self.groups.index(group)
        return self.f.address(("list", number)), self.f.get(("listed", number))

    def _list(self, number: int, kinds: Kinds, origins: Origins | None) -> None:
        """List the round's vertices of a group, in order."""
        f = self.f
        f.set(("listed", number), 0)

        def look(vertex: str, found: str) -> None:
            if origins is not None:
                found = f.both([found, self._is_one(f.column(ORIGIN, vertex), map(str, sorted(origins)))])
            count = f.get(("listed", number))
            f.put_int(vertex, f.address(("list", number)), count)
            f.set(("listed", number), f.i64("add", count, f.let(f"zext i1 {found} to i64")))

        self._visit(kinds, look)

    def _is_one(self, value: str, wanted: Iterable[str]) -> str:
        """Whether a number is one of some."""
        f, found = self.f, "false"
        for one in wanted:
            found = f.let(f"or i1 {found}, {f.test('eq', value, one)}")
        return found

    def _visit(self, kinds: Kinds, body: Callable[[str, str], None]) -> None:
        """`body(vertex, whether)` for the round's vertices: whether each is of these kinds."""
        f = self.f
        wanted = [f.get(("kind", name)) for name in sorted(kinds)]

        def look(vertex: str) -> None:
            body(vertex, self._is_one(f.column(KIND, vertex), wanted))

        ranges: Sequence[tuple[str, str]] = [("first", "last")]
        if not kinds <= self.sprouter.growth.grown:
            ranges = [("given_first", "given_last"), *ranges]
        for first, last in ranges:
            f.each(f.get(first), f.get(last), look)


def deciding(kinds: Sequence[GrowingKind]) -> Kinds:
    """The given kinds that decide."""
    return frozenset().union(*(kind.kinds for kind in kinds if kind.given))
