"""What a thread knows of the instances that it grows: the words of its state, and arrays that these name."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.rounds.beam_result import Arrays, longer
from abw.core.jit.pointers import Table

Ints = NDArray[np.int32]


class Share:
    """What a thread knows while it grows instances: its words, and arrays for a round of `room` vertices.

    These are kept from mini-batch to mini-batch; of `state` only the words that say where they lie.
    """

    def __init__(
        self, words: Mapping[Hashable, int], tables: Mapping[str, Table], scores: int, width: int
    ) -> None:
        self.words = words
        self.state = self._lasting = Table(np.zeros(len(words), np.int64))
        self.used = 0
        self._width = width
        self.picks: Arrays = {}
        self.point({**tables, "shares": np.empty(scores, np.float64)})

    def __getitem__(self, name: Hashable) -> int:
        return int(self.state.words[self.words[name]])

    def __setitem__(self, name: Hashable, value: int) -> None:
        if name in self.words:
            self.state.words[self.words[name]] = value

    def begin(self, roots: Ints, room: int, widest: int) -> None:
        """Begin with instances whose own vertices are `roots`, and rounds of so many vertices."""
        self.state = Table(self._lasting.words.copy(), self._lasting)
        if room > self["room"] or widest > self["widest"]:
            self.reserve(room, widest)
        self.used, self.picks = 0, {}
        self["root_count"] = len(roots)
        self.point({"roots": roots})

    def end(self) -> None:
        """Forget the mini-batch."""
        self.state, self.picks = self._lasting, {}

    def reserve(self, room: int, widest: int = 0) -> None:
        """Have buffers for rounds of so many vertices, each with lists of at most `widest`."""
        room, widest = max(room, self["room"]), max(widest, self["widest"])
        for name, word in self.words.items():
            match name:
                case "room":
                    self._lasting.words[word] = room
                case "widest":
                    self._lasting.words[word] = widest
                case ("list", _) | "lanes" | "ends":
                    self._lasting.point(word, np.empty(room + 2, np.int32))
                case ("added", _):
                    self._lasting.point(word, np.empty(room * self._width, np.int32))
                case ("index", _):
                    self._lasting.point(word, np.empty((room + 1) * widest + 1, np.int32))
                case _:
                    continue
            self.state.words[word] = self._lasting.words[word]

    def hold(self, count: int) -> None:
        """Have room for so many picks."""
        self.picks = longer(self.picks, count)
        self.point(self.picks)
        self["kept", "end"] = count

    def point(self, arrays: Mapping[Any, NDArray[Any] | Table]) -> None:
        """Tell where arrays and tables lie, by the names of words."""
        for name, array in arrays.items():
            if name in self.words:
                self.state.point(self.words[name], array)
