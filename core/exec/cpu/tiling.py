"""What has to be decided about a cell before its kernel is written: units, groups of gates, places, tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from abw.core.cell.normal import NormalCell
from abw.core.exec.blas.calls import static_values
from abw.core.exec.cpu.packing import Floats, PackedWeights, on_huge_pages
from abw.core.exec.cpu.quantized import Narrow, NarrowRows, NarrowWeights
from abw.core.exec.cpu.target import Target
from abw.core.exec.lower.rows import Fixed, columns, padded, row_floats
from abw.core.exec.lower.stages import Group, Single, Stage, group_gates, stages_of
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
class CellTiling:
    """All decisions about a cell.

    The table of row addresses has the inputs first, then the outputs, the scratch values (`scratch`: value,
    offset in floats a lane) and the static values (`fixed`). `lists`: by input, None where each lane reads
    one row. `constants`: floats of everything static. `narrow`: what weights are kept in, where that is not
    float32; the rows that are multiplied with them lie `narrow_at` floats into the scratch memory.
    """

    normal: NormalCell
    target: Target
    stages: tuple[StageLayout | Single, ...]
    entries: dict[int, int]
    lists: tuple[ListPlace | None, ...]
    scratch: tuple[tuple[int, int], ...]
    fixed: tuple[Fixed, ...]
    packed: tuple[PackedWeights | Fixed, ...]
    constants: int
    scratch_floats: int
    tile: int
    narrow: Narrow | None = None
    narrow_at: int = 0

    def shape_of(self, value: int) -> Shape:
        """The shape of a value."""
        return self.normal.cell.shape_of(value)

    def floats(self, value: int) -> int:
        """The floats of a value's row."""
        return row_floats(self.shape_of(value), self.target.lanes)

    def place(self, value: int) -> RowPlace:
        """Where a value, or the part of one that it is, lies."""
        held = self.normal.root[value]
        return RowPlace(self.entries[held], self.start(held, self.normal.start[value]))

    def start(self, held: int, first: int) -> int:
        """Where the unpadded float `first` of a value lies in its row."""
        count = columns(self.shape_of(held))
        return first // count * padded(count, self.target.lanes) + first % count

    def fixed_place(self, value: int, shape: Shape) -> RowPlace:
        """Where a static value lies as a row of a shape."""
        first = len(self.entries)
        number = next(n for n, f in enumerate(self.fixed) if (f.value, f.shape) == (value, shape))
        return RowPlace(first + number, 0)

    def operands(self, single: Single) -> list[RowPlace]:
        """Where an operation that stands alone finds its operands, each part of a right side by itself."""
        arguments = self.normal.arguments(single.value)[: 1 if single.right else None]
        places = [
            self.fixed_place(a, self.shape_of(a)) if self.normal.static[a] else self.place(a)
            for a in arguments
        ]
        return places + [
            RowPlace(self.entries[part.value], self.start(part.value, part.start)) for part in single.right
        ]

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
    normal: NormalCell,
    target: Target,
    reductions: tuple[Reduction | None, ...],
    narrow: Narrow | None = None,
) -> CellTiling:
    """Decide everything about a cell. `reductions`: of its inputs' slots; `narrow`: of weights of less than
    32 bits. Cost: under a millisecond.
    """
    cell, lanes = normal.cell, target.lanes
    stages = stages_of(normal)
    end = 0
    laid: list[StageLayout | Single] = []
    packed: list[PackedWeights | Fixed] = []
    fixed: dict[tuple[int, Shape], Fixed] = {}
    scratch: list[tuple[int, int]] = []
    width = narrow_bytes = 0
    outputs = {value: o for o, (_, value) in enumerate(cell.outputs)}

    def keep(value: int) -> None:
        nonlocal width
        if value not in outputs:
            scratch.append((value, width))
            width += row_floats(cell.shape_of(value), lanes)

    def fix(value: int, shape: Shape) -> None:
        nonlocal end
        if normal.static[value] and (value, shape) not in fixed:
            fixed[value, shape] = Fixed(end, value, shape, lanes)
            packed.append(fixed[value, shape])
            end += row_floats(shape, lanes)

    for stage in stages:
        if isinstance(stage, Single):
            keep(stage.value)
            for a in normal.arguments(stage.value)[: 1 if stage.right else None]:
                fix(a, cell.shape_of(a))
            laid.append(stage)
            continue
        for value in stage.stores:
            keep(value)
        for value in stage.operations:
            for a in normal.arguments(value):
                fix(a, stage.shape)
        units, groups = _groups(stage, target)
        weights = []
        for group in groups:
            own = end, group, stage.shape, units, lanes
            weights.append(NarrowWeights(*own, narrow) if narrow else PackedWeights(*own))
            end += weights[-1].blocks * weights[-1].block_floats
        packed += weights
        widest = max((len(group.gates) for group in groups), default=1)
        taken = sum(4 * w.blocks * w.block_floats for w in weights)
        streamed = taken > target.cache // KEPT_SHARE
        rows = _narrow_rows(groups, narrow) if narrow else ()
        narrow_bytes = max(narrow_bytes, sum(row.pitch for row in rows))
        laid.append(
            StageLayout(stage, tuple(weights), units, target.block_rows(widest * units), streamed, rows)
        )

    lists: list[ListPlace | None] = []
    for port, reduction in zip(cell.inputs, reductions, strict=True):
        lists.append(ListPlace(reduction, port.shape, width) if reduction else None)
        width += row_floats(port.shape, lanes) if reduction else 0

    order = [*range(len(cell.inputs)), *outputs, *(value for value, _ in scratch)]
    entries = {value: entry for entry, value in enumerate(order)}
    kept = max(1, width, narrow_bytes // 4, _reread(stages, normal, lanes))
    tile = max(1, min(TILE_ROWS, target.cache // TILE_SHARE // (4 * kept)))
    return CellTiling(
        normal, target, tuple(laid), entries, tuple(lists), tuple(scratch), tuple(fixed.values()),
        tuple(packed), end, tile * (width + narrow_bytes // 4), tile, narrow, tile * width,
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


def _reread(stages: tuple[Stage | Single, ...], normal: NormalCell, lanes: int) -> int:
    """Floats a lane that kernels read more than once: the operands of products, and what singles work on."""
    values = set()
    for stage in stages:
        if isinstance(stage, Single):
            arguments = normal.arguments(stage.value)[: 1 if stage.right else None]
            values |= {normal.root[a] for a in arguments if not normal.static[a]}
            values |= {stage.value, *(part.value for part in stage.right)}
        else:
            values |= {part.value for gate in stage.gates for _, _, part in gate.products}
    return sum(row_floats(normal.cell.shape_of(v), lanes) for v in values)
