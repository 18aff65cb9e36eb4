"""A block of sums: some rows of a tile by one block of a group's weights, in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from abw.core.exec.cpu.llvm.emit import Function, Module
from abw.core.exec.cpu.llvm.prefetch import Ahead
from abw.core.exec.cpu.tiling import StageLayout
from abw.core.exec.lower.packing import PackedWeights
from abw.core.exec.lower.stages import Part

# The sums of each row, before or after products are added.
Sums = Sequence[Sequence[str]]
# Writes the products of a part with its weights, which lie that many bytes into `%weights`: the new sums.
Added = Callable[[Function, Part, Sums, int, Ahead | None], Sums]


def emit_block(
    module: Module,
    name: str,
    operands: str,
    stage: StageLayout,
    weights: PackedWeights,
    rows: int,
    added: Added,
) -> None:
    """Write the sums of a group's gates for `rows` rows and one block of the result.

    `operands`: the parameters that say where the rows lie.
    """
    ahead = Ahead("%ahead", "%step", "%apart") if stage.streamed else None
    more = ", ptr %ahead, i64 %step, i64 %apart" if ahead else ""
    f = Function(module, name, f"ptr %weights, {operands}, ptr %sums{more}")
    bytes_of_vector = 4 * module.target.lanes
    vectors = len(weights.group.gates) * stage.units
    bias = [f.load("%weights", bytes_of_vector * v) for v in range(vectors)]
    sums = [list(bias) for _ in range(rows)]
    at = bytes_of_vector * vectors
    for part, fed in weights.group.segments:
        places = [number * stage.units + unit for number in fed for unit in range(stage.units)]
        found = added(f, part, [[row[p] for p in places] for row in sums], at, ahead)
        ahead = ahead and ahead.after(f, weights.turns(part))
        for row, values in zip(sums, found, strict=True):
            for p, value in zip(places, values, strict=True):
                row[p] = value
        at += bytes_of_vector * len(places) * weights.depth(part)
    # the sums of all groups lie side by side
    pitch = bytes_of_vector * stage.sums
    for r, row in enumerate(sums):
        for v, value in enumerate(row):
            f.store(value, "%sums", pitch * r + bytes_of_vector * v)
    module.add(f)
