"""Weight gradients as LLVM IR: products of rows summed over all rows, `dW += dZ^T X`.

Rows are read where they lie, by their numbers, CHUNK at a time. Of a chunk what blocks of dW multiply is
first copied side by side: rows lie a power of two apart, and of such the first-level cache holds but a few.
The sums of a block stay in registers over the chunk. Each chunk is summed from zero and then added, so that a
sum over tens of thousands of rows loses no digits; the order of all additions is that of the rows, whoever
computes which part of dW.
"""

from __future__ import annotations

from collections.abc import Callable

from abw.core.exec.cpu.llvm.emit import Function, Module
from abw.core.exec.cpu.target import Target

# Rows that are summed before they are added.
CHUNK = 128
# Vectors of z that are copied side by side: a whole number of blocks.
STRIP = 3
# So many strips of dW are worked on at once: what they multiply stays in the second-level cache.
STRIPS = 6

SUMS = "sums"
# What a job says, of 64 bits each. z and x are addresses of rows that lie `pitch` bytes apart; `z_rows` is
# that of the first of n row numbers of 32 bits, `z_step` bytes apart.
JOB = ("dw", "pitch", "z", "z_rows", "z_step", "z_pitch", "x", "x_rows", "x_step", "x_pitch", "n", "m", "c")


def block_of(target: Target) -> tuple[int, int]:
    """The rows of dW, and the vectors of each, whose sums the registers hold together.

    A strip has a whole number of blocks. What a block multiplies takes half a first-level cache.
    """
    if target.lanes == 16:
        return 12, 2
    return 6, 4 if target.accumulators == 32 else 2


def emit_sums(module: Module) -> None:
    """Write `sums(jobs, count, parts, taken)`: the jobs of a table (count, JOB), each in so many parts.

    A job: dw[i, j] += sum over k < n of z[z_rows[k], i] * x[x_rows[k], j], for i < m, j < c; a part of it is
    some blocks of dw's rows. All numbers are positive. Beyond the last float that is read of a row there is
    room for a vector. `taken` counts the parts that threads have taken: each does as many as are left.
    """
    rows, vectors = block_of(module.target)
    for r in range(1, rows + 1):
        for width in {vectors, 1}:
            _emit_block(module, r, width, masked=False)
        _emit_block(module, r, 1, masked=True)
    _emit_outer(module, rows, vectors)
    f = Function(module, SUMS, "ptr %jobs, i64 %count, i64 %parts, ptr %taken", public=True)

    def take(turn: str) -> None:
        number, part = f.i64("udiv", turn, "%parts"), f.i64("urem", turn, "%parts")
        place = f.at("%jobs", f.i64("mul", number, 8 * len(JOB)))
        f.do(f"call void @outer(ptr {place}, i64 {part}, i64 %parts)")

    f.until("atomicrmw add ptr %taken, i64 1 acq_rel", f.i64("mul", "%count", "%parts"), take)
    module.add(f)


def _name(rows: int, vectors: int, *, masked: bool) -> str:
    return f"block{rows}x{'part' if masked else vectors}"


def _emit_block(module: Module, rows: int, vectors: int, *, masked: bool) -> None:
    """Add a chunk's products to a block of dW; of a part of a vector the first `floats`."""
    f = Function(
        module,
        _name(rows, vectors, masked=masked),
        "ptr %dw, i64 %pitch, ptr %z, ptr %x, i64 %n, i64 %floats",
    )
    vector, size = f.target.vector, 4 * f.target.lanes

    def step(k: str, sums: list[str]) -> list[str]:
        z = f.at("%z", f.i64("mul", k, size * STRIP))
        x = f.at("%x", f.i64("mul", k, size * vectors))
        right = [f.load(x, size * v) for v in range(vectors)]
        found = []
        for r in range(rows):
            left = f.spread(f.item("float", z, r))
            found += [f.fma(left, right[v], sums[r * vectors + v]) for v in range(vectors)]
        return found

    sums = f.loop("%n", step, [(vector, "zeroinitializer")] * (rows * vectors))
    for r in range(rows):
        place = f.at("%dw", f.i64("mul", "%pitch", r))
        for v in range(vectors):
            _add(f, sums[r * vectors + v], f.at(place, size * v), masked=masked)
    module.add(f)


def _add(f: Function, vector: str, pointer: str, *, masked: bool) -> None:
    """Add a vector to memory; where `masked` its first `%floats` elements alone."""
    if not masked:
        f.store(f.vec("fadd", f.load(pointer), vector), pointer)
        return
    kind, suffix = f.target.vector, f"v{f.target.lanes}f32.p0"
    bits, mask = _mask(f, "%floats").rsplit(" ", 1)
    place = ("ptr", pointer), ("i32", 4), (bits, mask)
    before = f.call(kind, f"llvm.masked.load.{suffix}", *place, (kind, "zeroinitializer"))
    total = f.vec("fadd", before, vector)
    f.module.declare(f"void @llvm.masked.store.{suffix}({kind}, ptr, i32, {bits})")
    f.do(f"call void @llvm.masked.store.{suffix}({kind} {total}, ptr {pointer}, i32 4, {bits} {mask})")


def _mask(f: Function, floats: str) -> str:
    """A vector of bits, of which the first so many are set, behind its type."""
    lanes = f.target.lanes
    numbers = ", ".join(f"i64 {lane}" for lane in range(lanes))
    limit = f.spread(floats, "i64")
    return f"<{lanes} x i1> {f.let(f'icmp slt <{lanes} x i64> <{numbers}>, {limit}')}"


def _chunks(f: Function, body: Callable[[str], None]) -> None:
    """`body(count)` for each chunk of rows, whose addresses lie in the tables `%zs` and `%xs` then."""
    for side in "zx":
        f.do(f"%{side}s = alloca ptr, i64 {CHUNK}, align 64")
    chunks = f.i64("udiv", f.i64("add", "%n", CHUNK - 1), CHUNK)

    def chunk(number: str) -> None:
        first = f.i64("mul", number, CHUNK)
        count = f.least(f.i64("sub", "%n", first), CHUNK)

        def note(k: str) -> None:
            at = f.i64("add", first, k)
            for side in "zx":
                row = f.int_item(f.at(f"%{side}_rows", f.i64("mul", at, f"%{side}_step")), 0)
                f.put("ptr", f.at(f"%{side}", f.i64("mul", row, f"%{side}_pitch")), f"%{side}s", k)

        f.repeat(count, note)
        body(count)

    f.repeat(chunks, chunk)


def _copy_vectors(
    f: Function, count: str, table: str, offset: str, out: str, width: int, step: int, floats: str = ""
) -> None:
    """Copy `width` vectors of each row, `offset` bytes in, to places `step` bytes apart.

    `floats`: so many are the row's; what is behind becomes zeros, since products of subnormals are slow.
    """
    kind, size = f.target.vector, 4 * f.target.lanes

    def row(k: str) -> None:
        place, to = f.at(f.pointer_item(table, k), offset), f.at(out, f.i64("mul", k, step))
        for v in range(width):
            vector = f.load(place, size * v)
            if floats:
                vector = f.let(f"select {_mask(f, floats)}, {kind} {vector}, {kind} zeroinitializer")
            f.store(vector, to, size * v)

    f.repeat(count, row)


def _emit_outer(module: Module, rows: int, vectors: int) -> None:
    """Write `outer(job, part, parts)`."""
    f = Function(module, "outer", "ptr %job, i64 %part, i64 %parts")
    for place, name in enumerate(JOB):
        kind = "ptr" if name in ("dw", "z", "z_rows", "x", "x_rows") else "i64"
        f.do(f"%{name}_at = getelementptr i64, ptr %job, i64 {place}")
        f.do(f"%{name} = load {kind}, ptr %{name}_at")
    lanes = f.target.lanes
    strip = STRIP * lanes
    f.do(f"%left = alloca float, i64 {CHUNK * STRIPS * strip}, align 64")
    f.do(f"%right = alloca float, i64 {CHUNK * vectors * lanes}, align 64")
    wide = f.i64("udiv", "%c", lanes * vectors)
    whole, part = f.i64("udiv", "%c", lanes), f.i64("urem", "%c", lanes)
    done = f.i64("mul", wide, vectors)

    def ceiling(size: str, of: int) -> str:
        return f.i64("udiv", f.i64("add", size, of - 1), of)

    def panel(first: str, last: str) -> None:
        """Rows `first` to `last - 1` of dW, where strips begin."""

        def strips(body: Callable[[str, str, str], None]) -> None:
            """`body(first row, rows, where what they multiply lies)` for each strip."""

            def one(number: str) -> None:
                begin = f.i64("add", first, f.i64("mul", number, strip))
                place = f.at("%left", f.i64("mul", number, 4 * CHUNK * strip))
                body(begin, f.least(f.i64("sub", last, begin), strip), place)

            f.repeat(ceiling(f.i64("sub", last, first), strip), one)

        def chunk(count: str) -> None:
            def pack(begin: str, height: str, place: str) -> None:
                offset = f.i64("mul", begin, 4)
                f.cases(
                    ceiling(height, lanes),
                    range(1, STRIP + 1),
                    lambda width: _copy_vectors(f, count, "%zs", offset, place, width, 4 * strip),
                )

            def across(at: str, width: int, *, masked: bool = False) -> None:
                """The blocks of a column that begins `at` vectors to the right."""
                right = f.i64("mul", at, 4 * lanes)
                _copy_vectors(
                    f, count, "%xs", right, "%right", width, 4 * lanes * width, part if masked else ""
                )

                def blocks(begin: str, height: str, place: str) -> None:
                    several = ceiling(height, rows)

                    def block(number: str) -> None:  # of nearly equal heights
                        low, high = (
                            f.i64("udiv", f.i64("mul", f.i64("add", number, i), height), several)
                            for i in (0, 1)
                        )
                        row = f.i64("add", begin, low)
                        dw = f.at(f.at("%dw", f.i64("mul", row, "%pitch")), right)
                        z = f.at(place, f.i64("mul", low, 4))

                        def call(r: int) -> None:
                            f.do(
                                f"call void @{_name(r, width, masked=masked)}(ptr {dw}, i64 %pitch, ptr {z}, "
                                f"ptr %right, i64 {count}, i64 {part})"
                            )

                        f.cases(f.i64("sub", high, low), range(1, rows + 1), call)

                    f.repeat(several, block)

                strips(blocks)

            strips(pack)
            f.repeat_any(wide, lambda b: across(f.i64("mul", b, vectors), vectors))
            f.repeat_any(f.i64("sub", whole, done), lambda b: across(f.i64("add", done, b), 1))
            f.when(f.let(f"icmp sgt i64 {part}, 0"), lambda: across(whole, 1, masked=True))

        _chunks(f, chunk)

    blocks = ceiling("%m", rows)
    low, high = (
        f.least(f.i64("mul", f.i64("udiv", f.i64("mul", blocks, place), "%parts"), rows), "%m")
        for place in ("%part", f.i64("add", "%part", 1))
    )
    panels = ceiling(f.i64("sub", high, low), STRIPS * strip)

    def one(number: str) -> None:
        first = f.i64("add", low, f.i64("mul", number, STRIPS * strip))
        panel(first, f.least(f.i64("add", first, STRIPS * strip), high))

    f.repeat_any(panels, one)
    module.add(f)
