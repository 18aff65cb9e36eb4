"""What has to be decided about a cell before its kernel is written: units, groups of gates, rows, tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from abw.core.cell.normal import NormalCell
from abw.core.exec.cpu.quantized import Narrow, NarrowRows, NarrowWeights
from abw.core.exec.cpu.target import Target
from abw.core.exec.lower.packing import Fixed, PackedWeights, static_values
from abw.core.exec.lower.rows import (
    Placement,
    place_values,
    products_read,
    read_by,
    row_floats,
    static_rows,
    stored_by,
    whole_arguments,
)
from abw.core.exec.lower.stages import Group, Single, Stage, group_gates, stages_of
from abw.core.exec.memory import Floats, on_huge_pages
from abw.core.ir.cell import Shape
from abw.core.ir.model import Reduction

# Rows that go through all stages together; 120 is a whole number of most blocks of rows.
TILE_ROWS = 120
# What part of the second-level cache the rows of a tile that are read again and again may take: a half.
TILE_SHARE = 2
# A stage's weights that take no more than a quarter of it stay in it.
KEPT_SHARE = 4


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Where a value lies in its rows: entry `entry` of the table of addresses, `column` floats further on."""

    entry: int
    column: int


@dataclass(frozen=True, slots=True)
class ListPlace:
    """An input of which a lane may have a list: how it is reduced, and where to (`offset`: floats a lane)."""

    reduction: Reduction
    shape: Shape
    offset: int

    @property
    def collector(self) -> str:
        """The name of the function that does it (see `abw.core.exec.cpu.llvm.reduction`)."""
        return f"collect_{self.reduction}_{'x'.join(map(str, self.shape))}"


@dataclass(frozen=True, slots=True)
class StageLayout:
    """A stage's groups of gates with their weights; `units` vectors of the result are computed together.

    `streamed`: the weights are too many to stay in the second-level cache. `narrow`: where weights are of
    less than 32 bits, what they are multiplied with, rounded.
    """

    stage: Stage
    weights: tuple[PackedWeights, ...]
    units: int
    block_rows: int
    streamed: bool
    narrow: tuple[NarrowRows, ...] = ()

    @property
    def sums(self) -> int:
        """Vectors that a row's sums take."""
        return len(self.stage.gates) * self.units


@dataclass(frozen=True, slots=True)
class CellTiling(Placement):
    """All decisions about a cell.

    The table of row addresses has the inputs first, then the outputs, the scratch values (`entries`) and the
    static values (`fixed`). `lists`: by input, None where each lane reads one row. `packed`: everything
    static, `constants` floats. `width`: floats a lane of scratch values and reduced lists, which come first
    in the `scratch_floats` of a tile; the rows that `narrow` weights (None: float32) are multiplied with
    follow them.
    """

    stages: tuple[StageLayout | Single, ...]
    entries: dict[int, int]
    lists: tuple[ListPlace | None, ...]
    fixed: tuple[Fixed, ...]
    packed: tuple[PackedWeights | Fixed, ...]
    scratch_floats: int
    tile: int
    narrow: Narrow | None = None

    @property
    def constants(self) -> int:
        """The floats of everything static."""
        return sum(packed.floats for packed in self.packed)

    @property
    def narrow_at(self) -> int:
        """Where in the scratch memory the rows begin that are multiplied with narrow weights."""
        return self.tile * self.width

    @property
    def scratch(self) -> list[tuple[int, int]]:
        """The scratch values, and the offset of each in floats a lane."""
        return [(value, home.number) for value, home in self.homes.items() if home.kind == "scratch"]

    def place(self, value: int) -> RowPlace:
        """Where a value, or the part of one that it is, lies."""
        held, column = self.held(value)
        return RowPlace(self.entries[held], column)

    def place_part(self, value: int, start: int) -> RowPlace:
        """Where the unpadded float `start` of a value lies."""
        return RowPlace(self.entries[value], self.column(value, start))

    def fixed_place(self, value: int, shape: Shape) -> RowPlace:
        """Where a static value lies as a row of a shape."""
        number = next(n for n, f in enumerate(self.fixed) if (f.value, f.shape) == (value, shape))
        return RowPlace(len(self.entries) + number, 0)

    def operands(self, single: Single) -> list[RowPlace]:
        """Where an operation that stands alone finds its operands, each part of a right side by itself."""
        places = [
            self.fixed_place(a, self.shape_of(a)) if self.normal.static[a] else self.place(a)
            for a in whole_arguments(self.normal, single)
        ]
        return places + [self.place_part(part.value, part.start) for part in single.right]

    def heights(self, single: Single) -> list[int]:
        """The rows of each part of the right side of a product of matrices."""
        return [part.length for part in single.right] or [
            self.shape_of(self.normal.arguments(single.value)[1])[0]
        ]

    @property
    def by_column(self) -> bool:
        """Whether threads share a batch by the elements of its rows, each with a part of the weights.

        It can be done where there is one stage: no element waits for others of its row.
        """
        stage = self.stages[0]
        return len(self.stages) == 1 and isinstance(stage, StageLayout) and bool(stage.weights)

    @property
    def table(self) -> int:
        """How many entries the table of addresses has."""
        return len(self.entries) + len(self.fixed)


def layout_of(
    normal: NormalCell, target: Target, reductions: tuple[Reduction | None, ...], narrow: Narrow | None = None
) -> CellTiling:
    """Decide everything about a cell. `reductions`: of its inputs' slots; `narrow`: of weights of less than
    32 bits. Cost: under a millisecond.
    """
    cell, lanes = normal.cell, target.lanes
    stages = stages_of(normal)
    placement = place_values(normal, stages, lanes)
    laid: list[StageLayout | Single] = []
    packed: list[PackedWeights | Fixed] = []
    fixed: dict[tuple[int, Shape], Fixed] = {}
    end = narrow_bytes = 0

    def pack(more: PackedWeights | Fixed) -> None:
        nonlocal end
        packed.append(more)
        end += more.floats

    for stage in stages:
        for value, shape in static_rows(normal, stage):
            if (value, shape) not in fixed:
                pack(fixed.setdefault((value, shape), Fixed(end, value, shape, lanes)))
        if isinstance(stage, Single):
            laid.append(stage)
            continue
        units, groups = _groups(stage, target)
        weights = []
        for group in groups:
            own = end, group, stage.shape[0], units * lanes
            weights.append(NarrowWeights(*own, narrow=narrow) if narrow else PackedWeights(*own))
            pack(weights[-1])
        widest = max((len(group.gates) for group in groups), default=1)
        streamed = sum(4 * w.floats for w in weights) > target.cache // KEPT_SHARE
        rows = _narrow_rows(groups, narrow) if narrow else ()
        narrow_bytes = max(narrow_bytes, sum(row.pitch for row in rows))
        block_rows = target.block_rows(widest * units)
        laid.append(StageLayout(stage, tuple(weights), units, block_rows, streamed, rows))

    width = placement.width
    lists: list[ListPlace | None] = []
    for port, reduction in zip(cell.inputs, reductions, strict=True):
        lists.append(ListPlace(reduction, port.shape, width) if reduction else None)
        width += row_floats(port.shape, lanes) if reduction else 0

    entries = {value: entry for entry, value in enumerate(placement.homes)}
    kept = max(1, width, narrow_bytes // 4, _reread(stages, placement))
    tile = max(1, min(TILE_ROWS, target.cache // TILE_SHARE // (4 * kept)))
    return CellTiling(
        normal, lanes, placement.homes, width, tuple(laid), entries, tuple(lists), tuple(fixed.values()),
        tuple(packed), tile * (width + narrow_bytes // 4), tile, narrow,
    )  # fmt: skip


def packed_constants(layout: CellTiling, params: Sequence[Floats]) -> Floats:
    """The block of all that no lane changes. `params`: the cell's, in its order."""
    static = static_values(layout.normal, params)
    memory = on_huge_pages(layout.constants)
    for packed in layout.packed:
        packed.write(memory, static)
    return memory


def _groups(stage: Stage, target: Target) -> tuple[int, list[Group]]:
    """The vectors of the result to compute together, and the gates in groups that the registers hold."""
    if not stage.gates:
        return 1, []
    count = -(-len(stage.gates) // target.group)
    size = -(-len(stage.gates) // count)
    vectors = row_floats(stage.shape, target.lanes) // target.lanes
    most = min(vectors, target.group)
    fitting = [u for u in range(1, most + 1) if vectors % u == 0 and u * size <= target.group]
    # what a block of rows loads for each multiplication: its operands, and its weights
    units = min(fitting, key=lambda u: 1 / (u * size) + 1 / target.block_rows(u * size))
    return units, [
        group_gates(stage.gates[first : first + size]) for first in range(0, len(stage.gates), size)
    ]


def _narrow_rows(groups: Sequence[Group], narrow: Narrow) -> tuple[NarrowRows, ...]:
    """The operands of a stage's groups, each once, one behind the other."""
    rows: list[NarrowRows] = []
    offset = 0
    for part in dict.fromkeys(part for group in groups for part, _ in group.segments):
        rows.append(NarrowRows(part, offset, narrow.pitch(part.length)))
        offset += rows[-1].pitch
    return tuple(rows)


def _reread(stages: Sequence[Stage | Single], placement: Placement) -> int:
    """Floats a lane that kernels read more than once: the operands of products, and what singles work on."""
    normal, values = placement.normal, set[int]()
    for stage in stages:
        if isinstance(stage, Single):
            values |= {*read_by(normal, stage), *stored_by(stage)}
        else:
            values |= products_read(stage)
    return sum(placement.floats(value) for value in values if not normal.static[value])
