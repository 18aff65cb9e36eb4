"""How a block's threads share the sums of a stage: tiles of lanes by units, and slabs of the products'
operands."""

from __future__ import annotations

from dataclasses import dataclass, replace

# Floats of the widest access; rows of values are padded to whole ones, and a thread sums so many units.
VECTOR = 4

WARP = 32

# On tensor cores: lanes, units and elements of what a warp multiplies; slabs in shared memory at once.
FRAGMENT, SLABS = 16, 3


@dataclass(frozen=True, slots=True)
class Sizes:
    """What all kernels of one form have in common.

    `threads`: of a block. `packed`: units whose weights lie together. `sums`: the most sums a thread holds.
    `shared`: floats of shared memory that tiles share among their threads; a tile with very many gates may
    need more. `slab`: elements of the operands that are in shared memory at a time, in tiles that do not
    split them. `blocks`: how many run at once. Threads, packed units and slabs are powers of two. `tensor`:
    tensor cores compute the sums for many lanes.
    """

    threads: int
    packed: int
    sums: int
    shared: int
    slab: int
    blocks: int
    tensor: bool = False


@dataclass(frozen=True, slots=True)
class Forms:
    """The two forms of a network's kernels: of `batch` one runs at a time, `plan` runs all of a plan.

    Both read the same packed weights.
    """

    batch: Sizes
    plan: Sizes

    def without_tensor_cores(self) -> Forms:
        """These forms where float32 units compute all."""
        return Forms(replace(self.batch, tensor=False), replace(self.plan, tensor=False))


def forms_for(processors: int, tensor: bool) -> Forms:
    """The forms for a GPU with so many multiprocessors, with or without their tensor cores.

    Of a kernel for one item two blocks or three of 128 threads fit each of them. The plan's kernel has one
    block of 256 on each: as few as can be meet at its barriers, with all registers theirs.
    """
    common = Sizes(
        threads=128, packed=32, sums=80, shared=12288, slab=16, blocks=2 * processors, tensor=tensor
    )
    return Forms(common, replace(common, threads=256, blocks=processors))


# For H100 and H200.
HOPPER = forms_for(132, True)

ENDLESS = 2**62


@dataclass(frozen=True, slots=True)
class Tile:
    """`across` threads side by side sum VECTOR units each, `down` threads below each other `each` lanes each;
    `split` such groups of threads share the elements of the operands."""

    across: int
    down: int
    each: int
    split: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.across * self.down * self.split

    @property
    def lanes(self) -> int:
        """Lanes of a tile."""
        return self.down * self.each

    @property
    def units(self) -> int:
        """Units of a tile."""
        return self.across * VECTOR

    def sums(self, gates: int) -> int:
        """Sums of all threads."""
        return self.threads * self.each * VECTOR * gates

    def columns(self, units: int) -> int:
        """Tiles side by side."""
        return -(-units // self.units)


@dataclass(frozen=True, slots=True)
class TensorTile:
    """`across` warps side by side sum FRAGMENT units each on tensor cores, `down` warps below each other
    `each` times FRAGMENT lanes each; as many elements of the operands are in a slab."""

    across: int
    down: int
    each: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return WARP * self.across * self.down

    @property
    def lanes(self) -> int:
        """Lanes of a tile."""
        return FRAGMENT * self.down * self.each

    @property
    def units(self) -> int:
        """Units of a tile."""
        return FRAGMENT * self.across

    def columns(self, units: int) -> int:
        """Tiles side by side."""
        return -(-units // self.units)

    @property
    def row_floats(self) -> int:
        """Floats of shared memory for a slab of the lanes' rows."""
        return FRAGMENT * self.lanes

    def slab_floats(self, fed: int) -> int:
        """Floats of shared memory for rows and for the weights of so many gates, with gaps between."""
        return self.row_floats + FRAGMENT * fed * self.units + 8 * (FRAGMENT // VECTOR)


def tensor_tile(sizes: Sizes, gates: int, fed: int) -> TensorTile | None:
    """The tile of a stage with so many gates, of which an operand feeds `fed` at most, on tensor cores; None
    where there are none, a block has too few warps, or registers or shared memory do not hold all sums and
    slabs."""
    across = sizes.packed // FRAGMENT
    down = sizes.threads // (WARP * across) if across else 0
    if not sizes.tensor or not down:
        return None
    for each in (4, 2, 1):
        tile = TensorTile(across, down, each)
        if 8 * gates * each <= sizes.sums and SLABS * tile.slab_floats(fed) <= sizes.shared:
            return tile
    return None


def tiles_for(sizes: Sizes, gates: int, longest: int, units: int) -> tuple[tuple[Tile, int], ...]:
    """Tiles for few, some and many lanes, each with the most lanes that it is right for.

    They follow from a stage's gates, the longest operand of its products, and its units. Small tiles have few
    units and share the operands' elements among many threads: so a batch of few lanes still occupies many
    blocks, and each block reads few weights. A tile is right as long as all blocks run at once.
    """
    each = 8
    while each > 1 and each * VECTOR * gates > sizes.sums:
        each //= 2
    wide = sizes.packed // VECTOR
    high = sizes.threads // wide
    shapes = (1, 2, min(each, 4)), (max(1, wide // 2), max(1, high // 2), min(each, 4)), (wide, high, each)
    pieces = max(1, -(-longest // VECTOR))
    tiles: list[tuple[Tile, int]] = []
    before = 0
    for number, (across, down, rows) in enumerate(shapes):
        tile = _tile(sizes, across, down, rows, pieces)
        while tile.split > 1 and tile.each > 1 and tile.sums(gates) > sizes.shared:
            tile = replace(tile, each=tile.each // 2)
        limit = ENDLESS
        if number < len(shapes) - 1:
            limit = sizes.blocks // tile.columns(units) * tile.lanes
        if limit > before:
            tiles.append((tile, limit))
            before = limit
    return tuple(tiles)


def _tile(sizes: Sizes, across: int, down: int, each: int, pieces: int) -> Tile:
    """A tile with all threads at work, of which no more share the operands' elements than have any."""
    while sizes.threads // (across * down) > pieces:
        if across * VECTOR < sizes.packed:
            across *= 2
        else:
            down *= 2
    return Tile(across, down, each, sizes.threads // (across * down))
