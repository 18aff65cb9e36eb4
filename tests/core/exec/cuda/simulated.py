"""A device that is a simulation: the backend of the executor `cuda` in tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cuda.backend import Kernels, Scheme
from abw.core.exec.cuda.image import ITEM, Image
from abw.core.exec.cuda.tiles import Forms, Sizes
from tests.core.exec.cuda.simgrid import launch

Floats = NDArray[np.float32]

_PLAN = Sizes(threads=64, packed=16, sums=16, shared=1024, slab=8, blocks=3)
# One warp a block, or two; a thread sums one lane of four gates, so that all tiles are small.
SMALL = Forms(replace(_PLAN, threads=32, blocks=4), _PLAN)


@dataclass
class SimulatedDevice:
    """Runs kernels on `blocks` blocks at once, or as many as their form says, threads in the random order of
    `seed`.

    `used`: the kernels of all items run.
    """

    seed: int | None = None
    forms: Forms = SMALL
    blocks: int = 0
    races: bool = True
    used: list[int] = field(default_factory=list)

    def load(self, kernels: Kernels, weights: Floats) -> None:
        self.kernels, self.weights = kernels, aligned(weights)

    def renew(self, weights: Floats) -> None:
        self.weights = aligned(weights)

    def reserve(self, floats: int, pieces: Sequence[tuple[int, Floats]]) -> None:
        self.floats = aligned(np.full(floats + 4, np.nan, np.float32))
        for place, values in pieces:
            self.floats[place : place + len(values)] = values

    def write(self, first: int, values: Floats) -> None:
        self.floats[first : first + len(values)] = values

    def run(self, image: Image, scheme: Scheme) -> None:
        self.used += image.items[:, 0].tolist()
        kernels, words = self.kernels, image.words.copy()
        args: list[Any]
        if scheme == "plan" and len(image.items) == 0:
            return
        if scheme == "plan":
            counters = np.zeros(int(words[0]), np.uint32)
            args = [words, self.floats, self.weights, counters]
            shared, seed = kernels.plan_shared, self.seed
            launch(
                kernels.plan, self.blocks or self.forms.plan.blocks, kernels.plan_threads, args,
                shared=shared, seed=seed, races=self.races,
            )  # fmt: skip
            return
        for i, (number, _, _, tiles, *_) in enumerate(image.items.tolist()):
            at = np.uint32(int(words[2]) + ITEM * i)
            args = [words, at, self.floats, self.weights]
            kernel = kernels.batch[number]
            launch(
                kernel,
                tiles,
                kernels.threads,
                args,
                seed=self.seed,
                resident=self.blocks or self.forms.batch.blocks,
                races=self.races,
            )

    def read(self, first: int, count: int) -> Floats:
        return self.floats[first : first + count]


def aligned(values: Floats) -> Floats:
    """The same at an address that wide accesses can use."""
    memory = np.empty(len(values) + 4, np.float32)
    begin = -memory.ctypes.data // 4 % 4
    memory[begin : begin + len(values)] = values
    return memory[begin : begin + len(values)]
