"""What a thread knows of the instances that it grows: the words of its state, and arrays that these name."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.packing import address
from abw.core.exec.cpu.rounds.picked import Arrays, longer

Ints = NDArray[np.int32]


class Share:
    """What a thread knows while it grows instances: its words, and arrays for a round of `room` vertices.

    They are kept from mini-batch to mini-batch.
    """

    def __init__(
        self, words: Mapping[Hashable, int], tables: Mapping[str, NDArray[np.int64]], scores: int, width: int
    ) -> None:
        self.words = words
        self.state = np.zeros(len(words), np.int64)
        self.at = address(self.state)
        self.used = 0
        self._roots = np.zeros(0, np.int32)
        self._buffers: dict[Hashable, NDArray[Any]] = {"shares": np.empty(scores, np.float64)}
        self._width = width
        self.picks: Arrays = {}
        self.point(tables)
        self._fixed = self.state.copy()

    def __getitem__(self, name: Hashable) -> int:
        return int(self.state[self.words[name]])

    def __setitem__(self, name: Hashable, value: int) -> None:
        if name in self.words:
            self.state[self.words[name]] = value

    def begin(self, roots: Ints, room: int, widest: int) -> None:
        """Begin with instances whose own vertices are `roots`, and rounds of so many vertices."""
        self.state[:] = self._fixed
        if room > self["room"] or widest > self["widest"]:
            self.reserve(room, widest)
        self.used, self.picks, self._roots = 0, {}, roots
        self["root_count"], self["roots"] = len(roots), address(roots)

    def reserve(self, room: int, widest: int = 0) -> None:
        """Have buffers for rounds of so many vertices, each with lists of at most `widest`."""
        room, widest = max(room, self["room"]), max(widest, self["widest"])
        for name in self.words:
            match name:
                case ("list", _) | "lanes" | "ends":
                    self._buffers[name] = np.empty(room + 2, np.int32)
                case ("added", _):
                    self._buffers[name] = np.empty(room * self._width, np.int32)
                case ("index", _):
                    self._buffers[name] = np.empty((room + 1) * widest + 1, np.int32)
        found: dict[Hashable, int] = {"room": room, "widest": widest} | {
            name: address(buffer) for name, buffer in self._buffers.items()
        }
        for name, value in found.items():
            if name in self.words:
                self.state[self.words[name]] = self._fixed[self.words[name]] = value

    def hold(self, count: int) -> None:
        """Have room for so many picks."""
        self.picks = longer(self.picks, count)
        self.point(self.picks)
        self["kept", "end"] = count

    def point(self, arrays: Mapping[Any, NDArray[Any]]) -> None:
        """Tell where arrays lie, by the names of words."""
        for name, array in arrays.items():
            self[name] = address(array)
