"""The memory-layout problem: variables, and the batches that read and write them.

A batch is its result operand followed by its sources; an operand lists a variable for each lane. It needs
no copy if its variables lie next to each other in the order of the batch's lanes (adjacency and alignment,
section 3.2 of ED-Batch).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

Key = tuple[int, int]  # an operand: the batch's number, and 0 for its result, then 1, 2, ... for its sources

# What one memory kernel costs, in bytes moved: about 2 microseconds of a core, beside 10 GB/s.
LAUNCH = 16_384


@dataclass(frozen=True, slots=True)
class Item:
    """An operand that can be free of copies: its variables differ, in one arena, and are of one size."""

    key: Key
    lanes: tuple[int, ...]
    weight: int  # what its copy costs at run time, in bytes
    size: int  # of all its lanes, in bytes


@dataclass(frozen=True, slots=True)
class Program:
    """Variables 0 to n - 1 with their `sizes` in bytes, and `batches` of operands (result, sources...).

    `arenas` gives for each variable the memory it must lie in; variables in an arena listed in `constant`
    never change, so that a copy of them is made once and costs nothing at run time. `launch` is the cost of
    a memory kernel in bytes.
    """

    sizes: tuple[int, ...]
    batches: tuple[tuple[tuple[int, ...], ...], ...]
    arenas: tuple[Hashable, ...]
    constant: frozenset[Hashable]
    launch: int
    obstacles: tuple[tuple[str | None, ...], ...]  # of each operand, "" if there is none; None: broadcast

    @classmethod
    def of(
        cls,
        sizes: Sequence[int],
        batches: Sequence[Sequence[Sequence[int]]],
        arenas: Sequence[Hashable] | None = None,
        constant: Collection[Hashable] = (),
        launch: int = LAUNCH,
    ) -> Program:
        """Checked: raises ValueError for an unknown variable, an empty operand or batch, a negative size."""
        n, home = len(sizes), tuple(arenas) if arenas is not None else (0,) * len(sizes)
        if len(home) != n:
            raise ValueError(f"{len(home)} arenas for {n} variables")
        if min(sizes, default=0) < 0 or launch < 0:
            raise ValueError("a size or cost is negative")
        for b, batch in enumerate(batches):
            if not batch or not all(batch):
                raise ValueError(f"batch {b} is empty or has an empty operand")
            for operand in batch:
                if min(operand) < 0 or max(operand) >= n:
                    raise ValueError(f"batch {b} has a variable that is not in 0..{n - 1}")
        return cls(
            tuple(sizes),
            tuple([tuple([tuple(operand) for operand in batch]) for batch in batches]),
            home,
            frozenset(constant),
            launch,
            tuple([_obstacles(batch, sizes, home) for batch in batches]),
        )

    def bytes_of(self, operand: Sequence[int]) -> int:
        """The size of all lanes together."""
        return sum([self.sizes[variable] for variable in operand])

    def is_constant(self, operand: Sequence[int]) -> bool:
        """Whether a copy of the operand can be made once for all runs."""
        return bool(self.constant) and all(self.arenas[variable] in self.constant for variable in operand)

    def is_broadcast(self, key: Key) -> bool:
        """Whether a source gives all lanes of its batch the same variable."""
        return self.obstacles[key[0]][key[1]] is None

    def obstacle(self, key: Key) -> str:
        """Why no layout can make the operand contiguous, whatever else is given up; empty if one can."""
        return self.obstacles[key[0]][key[1]] or ""

    def items(self) -> tuple[Item, ...]:
        """The operands that a layout decides on: of two lanes or more, without obstacle or broadcast."""
        found = []
        for b, batch in enumerate(self.batches):
            for k, operand in enumerate(batch):
                if len(operand) < 2 or self.obstacles[b][k] != "":
                    continue
                size = self.bytes_of(operand)
                weight = 0 if self.is_constant(operand) else self.launch + size
                found.append(Item((b, k), operand, weight, size))
        return tuple(found)


def _obstacles(
    batch: Sequence[Sequence[int]], sizes: Sequence[int], home: Sequence[Hashable]
) -> tuple[str | None, ...]:
    """Find what keeps each operand of a batch from being contiguous."""
    lanes = len(batch[0])
    obstacles: list[str | None] = []
    for k, operand in enumerate(batch):
        different = len(set(operand))
        if k and different == 1 and len(operand) in (1, lanes):
            obstacles.append(None if lanes > 1 else "")
        elif len(operand) != lanes:
            obstacles.append(f"has {len(operand)} lanes, its batch {lanes}")
        elif different < len(operand):
            twice = next(variable for i, variable in enumerate(operand) if variable in operand[:i])
            obstacles.append(f"repeats variable {twice}")
        elif len({home[variable] for variable in operand}) > 1:
            obstacles.append("mixes arenas")
        elif len({sizes[variable] for variable in operand}) > 1:
            obstacles.append("its lanes differ in size")
        else:
            obstacles.append("")
    return tuple(obstacles)
