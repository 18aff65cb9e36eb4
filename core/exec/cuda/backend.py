"""What the executor `cuda` needs of a device: a real one behind the driver, or a simulated one in tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cuda.image import Image
from abw.core.exec.cuda.tiles import Forms

Floats = NDArray[np.float32]
Kernel = Callable[..., Any]

# One launch for each item of the image, or one for the whole plan.
Scheme = Literal["batch", "plan"]


@dataclass(frozen=True, slots=True)
class Kernels:
    """Generated kernels of one network, as numba.cuda dispatchers; all take one-dimensional arrays.

    `batch[k](words, at, floats, weights)`: the item whose words begin at `at` (uint32), if its kernel is k;
    one block a tile. `plan(words, floats, weights, counters)`: all of an image packed for it; its blocks
    are resident at once, as many as the form says or the widest phase has tiles; `counters` (phases,) uint32
    are 0 before it. `words` is the image (uint32),
    `floats` the buffer of arenas, scratch rows and hoisted sums, `weights` the packed weights (float32).
    Blocks have `threads` threads, of the plan `plan_threads` and `plan_shared` bytes of dynamic shared
    memory. `text` is the source: the same text is the same kernels.
    """

    batch: tuple[Kernel, ...]
    plan: Kernel
    threads: int
    plan_threads: int
    plan_shared: int
    text: str


class Backend(Protocol):
    """A device with the memory and the kernels of one network. What it is asked for happens in order."""

    @property
    def forms(self) -> Forms:
        """The forms of the kernels that are right for the device."""

    def load(self, kernels: Kernels, weights: Floats) -> None:
        """Take kernels and weights; all that was there before is gone."""

    def renew(self, weights: Floats) -> None:
        """Take other weights for the kernels that are there, as many as before."""

    def reserve(self, floats: int, pieces: Sequence[tuple[int, Floats]]) -> None:
        """Have a buffer of at least so many floats and some to spare, with these pieces (place, values) in
        it.

        What lay in the buffer before need not stay. At least 4 floats after the last one can be read.
        """

    def write(self, first: int, values: Floats) -> None:
        """Write floats of the buffer, after all that was asked for before."""

    def run(self, image: Image, scheme: Scheme) -> None:
        """Run a plan packed for this scheme; it need not be done on return."""

    def read(self, first: int, count: int) -> Floats:
        """Floats of the buffer, after all that was asked for before."""
