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
    """The instances that one thread grows: its words, and arrays for a round of `room` vertices."""

    def __init__(self, words: Mapping[Hashable, int], roots: Ints) -> None:
        self.words, self.roots = words, roots
        self.state = np.zeros(len(words), np.int64)
        self.buffers: dict[Hashable, NDArray[Any]] = {}
        self.picks: Arrays = {}
        self.used = 0

    def __getitem__(self, name: Hashable) -> int:
        return int(self.state[self.words[name]])

    def __setitem__(self, name: Hashable, value: int) -> None:
        if name in self.words:
            self.state[self.words[name]] = value

    def reserve(self, room: int, widest: int, picks: int, scores: int) -> None:
        """Have buffers for rounds of so many vertices, each with lists of at most `widest`, and `picks`."""
        self["room"] = room
        for name in self.words:
            match name:
                case ("list", _) | "lanes" | "ends":
                    self.buffers[name] = np.empty(room + 2, np.int32)
                case ("added", _):
                    self.buffers[name] = np.empty(room * picks, np.int32)
                case ("index", _):
                    self.buffers[name] = np.empty((room + 1) * widest + 1, np.int32)
                case "shares":
                    self.buffers[name] = np.empty(scores, np.float64)
        self.point(self.buffers)

    def hold(self, count: int) -> None:
        """Have room for so many picks."""
        self.picks = longer(self.picks, count)
        self.point(self.picks)
        self["kept", "end"] = count

    def point(self, arrays: Mapping[Any, NDArray[Any]]) -> None:
        """Tell where arrays lie, by the names of words."""
        for name, array in arrays.items():
            self[name] = address(array)
