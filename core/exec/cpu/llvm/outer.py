"""Weight gradients as LLVM IR: products of rows summed over all rows, `dW += dZ^T X`, and sums of columns.

Accumulators of a block of dW stay in registers over CHUNK rows, which are read where they lie, by their
numbers: nothing is gathered or packed. Each chunk is summed from zero and then added, so that a sum over tens
of thousands of rows loses no digits; the order of all additions is that of the rows, whoever computes which
part of dW.
"""

from __future__ import annotations

from collections.abc import Callable

from abw.core.exec.cpu.llvm.emit import Function, Module
from abw.core.exec.cpu.target import Target

CHUNK = 128
"""Rows that are summed before they are added: of 256 floats they fill half a second-level cache or less."""

OUTER = "outer"
COLUMNS = "columns"


def block_of(target: Target) -> tuple[int, int]:
    """The rows of dW, and the vectors of each, whose sums the registers hold together."""
    return 6, 4 if target.accumulators == 32 else 2


def emit_outer(module: Module) -> None:
    """Write the functions `outer` and `columns`.

    - `outer(dw, pitch, z, z_rows, z_pitch, x, x_rows, x_pitch, n, m, c)`: dw[i, j] += sum over k < n of
      z[z_rows[k], i] * x[x_rows[k], j], for i < m, j < c; n, m, c > 0. Pitches are bytes; row numbers are of
      32 bits. Beyond the last float that is read of a row there is room for a vector.
    - `columns(out, z, z_rows, z_pitch, n, c)`: out[j] += sum over k < n of z[z_rows[k], j].
    """
    rows, vectors = block_of(module.target)
    for r in range(1, rows + 1):
        for width in {vectors, 1}:
            _emit_block(module, r, width, masked=False)
        _emit_block(module, r, 1, masked=True)
    _emit_outer(module, rows, vectors)
    _emit_columns(module)


def _name(rows: int, vectors: int, *, masked: bool) -> str:
    return f"outer{rows}x{'part' if masked else vectors}"


def _emit_block(module: Module, rows: int, vectors: int, *, masked: bool) -> None:
    """Add a chunk's products to a block of dW; of a part of a vector the first `floats`."""
    f = Function(
        module,
        _name(rows, vectors, masked=masked),
        "ptr %dw, i64 %pitch, ptr %zs, i64 %zat, ptr %xs, i64 %xat, i64 %n, i64 %floats",
    )
    vector, size = f.target.vector, 4 * f.target.lanes

    def step(k: str, sums: list[str]) -> list[str]:
        z = f.at(f.pointer_item("%zs", k), "%zat")
        x = f.at(f.pointer_item("%xs", k), "%xat")
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
    kind, lanes = f.target.vector, f.target.lanes
    suffix, bits = f"v{lanes}f32.p0", f"<{lanes} x i1>"
    first = f.let(f"insertelement <{lanes} x i64> poison, i64 %floats, i64 0")
    many = f"<{lanes} x i64>"
    limit = f.let(f"shufflevector {many} {first}, {many} poison, <{lanes} x i32> zeroinitializer")
    numbers = ", ".join(f"i64 {lane}" for lane in range(lanes))
    mask = f.let(f"icmp slt {many} <{numbers}>, {limit}")
    f.module.declare(f"{kind} @llvm.masked.load.{suffix}(ptr, i32, {bits}, {kind})")
    f.module.declare(f"void @llvm.masked.store.{suffix}({kind}, ptr, i32, {bits})")
    before = f.let(
        f"call {kind} @llvm.masked.load.{suffix}(ptr {pointer}, i32 4, {bits} {mask}, {kind} zeroinitializer)"
    )
    total = f.vec("fadd", before, vector)
    f.do(f"call void @llvm.masked.store.{suffix}({kind} {total}, ptr {pointer}, i32 4, {bits} {mask})")


def _chunks(f: Function, tables: dict[str, tuple[str, str, str]], body: Callable[[str], None]) -> None:
    """`body(count)` for each chunk of rows, whose addresses lie in the tables (pointer, rows, pitch) then."""
    for name in tables:
        f.do(f"%{name} = alloca ptr, i64 {CHUNK}, align 64")
    chunks = f.i64("udiv", f.i64("add", "%n", CHUNK - 1), CHUNK)

    def chunk(number: str) -> None:
        first = f.i64("mul", number, CHUNK)
        count = f.least(f.i64("sub", "%n", first), CHUNK)

        def note(k: str) -> None:
            at = f.i64("add", first, k)
            for name, (pointer, rows, pitch) in tables.items():
                row = f.int_item(rows, at)
                f.put("ptr", f.at(pointer, f.i64("mul", row, pitch)), f"%{name}", k)

        f.repeat(count, note)
        body(count)

    f.repeat(chunks, chunk)


def _some(f: Function, count: str, body: Callable[[str], None]) -> None:
    """`body(index)` for each index below `count`, which may be 0."""
    f.when(f.let(f"icmp sgt i64 {count}, 0"), lambda: f.repeat(count, body))


def _emit_outer(module: Module, rows: int, vectors: int) -> None:
    f = Function(
        module,
        OUTER,
        "ptr %dw, i64 %pitch, ptr %z, ptr %z_rows, i64 %z_pitch, ptr %x, ptr %x_rows, i64 %x_pitch, "
        "i64 %n, i64 %m, i64 %c",
        public=True,
    )
    lanes = f.target.lanes
    full, rest = f.i64("udiv", "%m", rows), f.i64("urem", "%m", rows)
    wide = f.i64("udiv", "%c", lanes * vectors)
    whole = f.i64("udiv", "%c", lanes)
    part = f.i64("urem", "%c", lanes)
    done = f.i64("mul", wide, vectors)
    narrow = f.i64("sub", whole, done)

    def chunk(count: str) -> None:
        def down(at: str, width: int, *, masked: bool = False) -> None:
            """The blocks of a column that begins `at` vectors to the right."""
            right = f.i64("mul", at, 4 * lanes)

            def call(r: int, row: str) -> None:
                place = f.at(f.at("%dw", f.i64("mul", row, "%pitch")), right)
                f.do(
                    f"call void @{_name(r, width, masked=masked)}(ptr {place}, i64 %pitch, ptr %zs, "
                    f"i64 {f.i64('mul', row, 4)}, ptr %xs, i64 {right}, i64 {count}, i64 {part})"
                )

            _some(f, full, lambda b: call(rows, f.i64("mul", b, rows)))
            below = f.i64("mul", full, rows)
            f.cases(rest, range(1, rows), lambda r: call(r, below))

        _some(f, wide, lambda b: down(f.i64("mul", b, vectors), vectors))
        _some(f, narrow, lambda b: down(f.i64("add", done, b), 1))
        f.when(f.let(f"icmp sgt i64 {part}, 0"), lambda: down(whole, 1, masked=True))

    _chunks(f, {"zs": ("%z", "%z_rows", "%z_pitch"), "xs": ("%x", "%x_rows", "%x_pitch")}, chunk)
    module.add(f)


def _emit_columns(module: Module) -> None:
    f = Function(module, COLUMNS, "ptr %out, ptr %z, ptr %z_rows, i64 %z_pitch, i64 %n, i64 %c", public=True)
    lanes, vector = f.target.lanes, f.target.vector
    whole = f.i64("udiv", "%c", lanes)
    f.do(f"%floats = urem i64 %c, {lanes}")

    def chunk(count: str) -> None:
        def column(at: str, *, masked: bool) -> None:
            right = f.i64("mul", at, 4 * lanes)

            def step(k: str, sums: list[str]) -> list[str]:
                return [f.vec("fadd", sums[0], f.load(f.at(f.pointer_item("%zs", k), right)))]

            (total,) = f.loop(count, step, [(vector, "zeroinitializer")])
            _add(f, total, f.at("%out", right), masked=masked)

        _some(f, whole, lambda at: column(at, masked=False))
        f.when(f.let("icmp sgt i64 %floats, 0"), lambda: column(whole, masked=True))

    _chunks(f, {"zs": ("%z", "%z_rows", "%z_pitch")}, chunk)
    module.add(f)
