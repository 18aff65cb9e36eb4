"""Lists of what grew: for a vertex all whose link leads to it, whole as soon as it is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from abw.core.data.instances import Ints
from abw.core.data.vertices import Columns
from abw.core.ir.schema import Hop


@dataclass(frozen=True, slots=True)
class EndsColumn:
    """The name of a column: where a vertex's members begin among all (`last` False), or where they end."""

    list: str
    last: bool


class GrownLists:
    """The members of a mini-batch's lists, those of a vertex one after the other."""

    def __init__(self, reversed: Mapping[str, str], picked: Iterable[Hop]) -> None:
        """`reversed`: by list the link that leads to who has it; `picked`: members asked for by place."""
        self._reversed = reversed
        self._picked = [hop for hop in picked if hop.link in reversed]
        self._members = Columns(0)

    def __contains__(self, name: str) -> bool:
        return name in self._reversed

    def note(self, columns: Columns, new: Ints) -> None:
        """Make the lists of vertices that came to be in the same round. Cost: sorting them."""
        for name, of in self._reversed.items():
            owner = columns[Hop(of)][new]
            order = np.argsort(owner, kind="stable")
            order = order[owner[order] >= 0]
            owner, first = owner[order], self._members.count
            places = self._members.append(len(order))
            self._members[name][places] = new[order]
            has, begin, size = np.unique(owner, return_index=True, return_counts=True)
            low, high = first + begin, first + begin + size
            columns[EndsColumn(name, False)][has] = low
            columns[EndsColumn(name, True)][has] = high
            for hop in self._picked:
                if hop.link == name and hop.index is not None:
                    place = (low if hop.index >= 0 else high) + hop.index
                    there = (low <= place) & (place < high)
                    columns[hop][has[there]] = self._members[name][place[there]]

    def edges(self, name: str, columns: Columns, at: Ints) -> tuple[Ints, Ints]:
        """Of each vertex the number of its first member among all, and of the first behind."""
        return columns[EndsColumn(name, False)][at], columns[EndsColumn(name, True)][at]

    def members(self, name: str, numbers: Ints) -> Ints:
        """Members by their numbers."""
        return self._members[name][numbers]
