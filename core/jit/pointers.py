"""Addresses that machine code reads, each with what lies there: nothing is given back while it can be read.

`address` is for the arguments of a call alone: `walk(address(bounds))`, where `bounds` is a local name that
holds the array until the call is over. What is kept longer (in an attribute, a closure, a list, a table of
words, or by whoever is given it back) is a `Pointer` or a `Table`. `tests/core/exec/test_pointers.py` refuses
everything else.
"""

from __future__ import annotations

import ctypes
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]


def address(array: NDArray[Any]) -> int:
    """Where an array's first element lies; 0 for an empty one. As an argument of a call, see above."""
    if not array.size:
        return 0
    if array.flags.carray:
        # a sixth of what array.ctypes.data takes
        return ctypes.addressof(ctypes.c_char.from_buffer(cast(Any, array)))
    return int(array.ctypes.data)


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where an array lies (`at`), and the array (`owner`), which is there as long as this is."""

    owner: NDArray[Any]
    at: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", address(self.owner))


class Table:
    """64-bit words for machine code: numbers, and where arrays and other tables lie.

    `words` is what is read, an array of NumPy's or of ctypes', `at` where it lies. A number is written into
    `words`, an address by `point` and `spread`: these keep what it is the address of until the word says
    something else, or as long as the table is there.
    """

    __slots__ = ("_kept", "at", "words")

    def __init__(self, words: Any, owner: object = None) -> None:  # noqa: ANN401 (either kind of array)
        """`owner`: what the words that are written already are addresses in, where they are."""
        self.words = words
        self.at = ctypes.addressof(ctypes.c_char.from_buffer(words)) if len(words) else 0
        self._kept: dict[Hashable, object] = {"owner": owner}

    def point(self, place: Hashable, to: NDArray[Any] | Table) -> None:
        """Let a word say where an array or a table lies. Cost: some 0.3 us."""
        self.words[place] = to.at if isinstance(to, Table) else address(to)
        self._kept[place] = to

    def name(self, word: int, to: NDArray[Any] | Table) -> None:
        """Let a word say where an array or a table lies, and the next one how many elements it has."""
        self.point(word, to)
        self.words[word + 1] = len(to.words) if isinstance(to, Table) else to.size

    def spread(self, places: Longs, to: NDArray[Any], offsets: Longs) -> None:
        """Let words say where so many bytes behind an array's beginning lie."""
        self.words[places] = address(to) + offsets
        self.keep(places.tobytes(), to)

    def copy(self, places: Longs, other: Table) -> None:
        """Let words say what all words of another table say, which is kept."""
        self.words[places] = other.words
        self.keep(places.tobytes(), other)

    @property
    def kept(self) -> tuple[object, ...]:
        """What is kept because words say where it lies: arrays, tables, machine code."""
        return tuple(self._kept.values())

    def keep(self, name: str | bytes, owner: object) -> None:
        """Keep what addresses lie in that compiled code writes, in place of what had this name before."""
        self._kept[name] = owner
