"""Lists at vertices as compiled code: where they begin and end, and their members one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from abw.core.exec.cpu.rounds.state import StateFunction
from abw.core.graph.growing.lists import EndsColumn
from abw.core.graph.growing.round_graph import Sprouter
from abw.core.ir.schema import Hop


@dataclass(frozen=True, slots=True)
class MembersColumn:
    """The name of a column: the members of the lists of a round's vertices, from the first of these on."""

    list: str


class Members:
    """Writes what reads lists into a function, and what `abw.core.graph.growing.lists` does.

    Lists of given vertices lie where the data has them. Of those of what grew, all members come to be in the
    round of the vertex that has the list: so many places of a column as the round has vertices are enough.
    Word `longest` of the state: how many members the longest of these has had.
    """

    def __init__(self, f: StateFunction, sprouter: Sprouter) -> None:
        self.f = f
        growth = sprouter.growth
        self._grown = {name: of for name, of in growth.reversed.items() if name in growth.closed}
        self._picked = [hop for hop in sprouter.hops if hop.link in self._grown]

    def note(self, first: str, last: str) -> None:
        """Make the lists of the vertices `first` to `last - 1` of a round; again, if need be."""
        for name, of in self._grown.items():
            self._note(name, of, first, last)

    def _note(self, name: str, of: str, first: str, last: str) -> None:
        """Count the members of each list, have the lists one behind the other, and fill them."""
        f = self.f
        low, high, members = EndsColumn(name, False), EndsColumn(name, True), MembersColumn(name)

        def more(_: str, owner: str) -> None:
            f.note(high, owner, f.i64("add", f.column(high, owner), 1))

        def begin(vertex: str) -> None:
            place, size = f.get("place"), f.column(high, vertex)
            f.set("longest", f.most(f.get("longest"), size))
            f.note(low, vertex, place)
            f.note(high, vertex, place)
            f.set("place", f.i64("add", place, size))

        def enter(vertex: str, owner: str) -> None:
            place = f.column(high, owner)
            f.note(members, place, vertex)
            f.note(high, owner, f.i64("add", place, 1))

        def pick(vertex: str) -> None:
            begins, ends = f.column(low, vertex), f.column(high, vertex)
            for hop in self._picked:
                if hop.link == name and hop.index is not None:
                    place = f.i64("add", begins if hop.index >= 0 else ends, hop.index)
                    there = f.both([f.test("sge", place, begins), f.test("slt", place, ends)])
                    f.note(hop, vertex, f.column(members, f.either(there, place, "-1")))

        f.each(first, last, lambda vertex: f.note(high, vertex, "0"))
        self._each_owned(of, first, last, more)
        f.set("place", first)
        f.each(first, last, begin)
        self._each_owned(of, first, last, enter)
        f.each(first, last, pick)

    def _each_owned(self, of: str, first: str, last: str, body: Callable[[str, str], None]) -> None:
        """`body(vertex, owner)` for the vertices that are in a list, and those that have it."""
        f = self.f

        def one(vertex: str) -> None:
            owner = f.column(Hop(of), vertex)
            f.when(f.test("sge", owner, 0), lambda: body(vertex, owner))

        f.each(first, last, one)

    def edges(self, hops: tuple[Hop, ...], at: str) -> tuple[str, str]:
        """Where the members begin to which hops lead from a vertex, -1 for none, and where they end.

        The first hop is the one that leads to several.
        """
        f, name = self.f, hops[0].link
        if name in self._grown:
            return f.column(EndsColumn(name, False), at), f.column(EndsColumn(name, True), at)
        there, indptr = f.test("sge", at, 0), f.address(("indptr", hops))
        place = f.i64("add", f.most(at, 0), f.get("begin"))
        low, high = f.int_item(indptr, place), f.int_item(indptr, f.i64("add", place, 1))
        return low, f.either(there, high, low)

    def each(self, hops: tuple[Hop, ...], at: str, body: Callable[[str], None]) -> None:
        """`body(vertex)` for each vertex to which hops lead from a vertex, in order; some may be none."""
        f, grown = self.f, hops[0].link in self._grown

        def one(place: str) -> None:
            if grown:
                body(f.follow(f.column(MembersColumn(hops[0].link), place), hops[1:]))
            else:
                body(f.i64("sub", f.int_item(f.address(("target", hops)), place), f.get("begin")))

        f.each(*self.edges(hops, at), one)
