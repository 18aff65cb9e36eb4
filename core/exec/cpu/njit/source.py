"""The kernels of a network as plain Python for numba: stages and layout of the IR's, lane after lane.

A kernel is `kernel(n, index, lists, constants, scratch, …)` with, for each input, its arena, where its index
array begins, and its lists (-1: each lane reads one row), and for each output its arena and first row. `walk`
calls them batch by batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from pathlib import Path

from abw.core.cell.normal import size_of
from abw.core.exec.cpu.njit import loops
from abw.core.exec.cpu.tiling import CellTiling, RowPlace, StageLayout
from abw.core.exec.lower.expressions import assign
from abw.core.exec.lower.rows import columns
from abw.core.exec.lower.stages import Single, consecutive, spread_sizes
from abw.core.graph.group import structure
from abw.core.ir.cell import Op
from abw.core.ir.model import Attention, Reduction
from abw.core.ir.network import NetType, Network
from abw.core.plan.arenas import Arenas

HEADER = '''"""Written by abw for {loops}; may be deleted at any time."""

import numba
import numpy as np
from numpy import exp, floor, log, nan, sqrt, tanh

from abw.core.jit.decorators import allocating
from abw.core.exec.cpu.njit.loops import (
    accumulate, attend, by_matrix, by_vector, copy, gelu, max_along, max_rows, mean_rows, sigmoid, softmax,
    std_rows, var_rows,
    sum_along, sum_rows, transpose
)
'''

# walk alone is kept on disk, and contains the kernels: as many files as networks
WALK = """
@allocating
def walk(types, ptr, base, operand_ptr, index_ptr, index, list_ptr, lists, arenas, constants, scratch):
    for b in range(len(types)):
        t, n, k = types[b], ptr[b + 1] - ptr[b], operand_ptr[b]
"""


def module_source(network: Network, arenas: Arenas, layouts: Sequence[CellTiling | None]) -> str:
    """The module of a network; equal types share a kernel. `layouts`: None for reductions."""
    made: dict[Hashable, str] = {}
    kernels: list[str] = []
    branches: list[str] = []
    for t, (net_type, layout) in enumerate(zip(network.types, layouts, strict=True)):
        key = structure(net_type)
        if key not in made:
            made[key] = f"kernel{len(made)}"
            kernels.append(kernel_text(made[key], net_type, layout))
        inputs = [
            f"arenas[{arenas.slot_arena[t, s]}], index_ptr[k + {s}], list_ptr[k + {s}]"
            for s in range(len(net_type.slots))
        ]
        outputs = [f"arenas[{arenas.output_arena[t, o]}], base[b, {o}]" for o in range(len(net_type.outputs))]
        arguments = ", ".join(["n", "index", "lists", f"constants[{t}]", "scratch", *inputs, *outputs])
        branches.append(f"        if t == {t}:\n            {made[key]}({arguments})\n")
    # machine code on disk contains that of the loops, too
    digest = hashlib.sha256(Path(loops.__file__).read_bytes()).hexdigest()
    header = HEADER.format(loops=f"loops {digest[:16]}")
    return "\n".join([header, *kernels, WALK]) + "".join(branches)


def scratch_floats(layout: CellTiling) -> int:
    """What a lane takes: the layout's scratch values, and the sums of a stage."""
    sums = [len(s.stage.gates) * columns(s.stage.shape) for s in layout.stages if isinstance(s, StageLayout)]
    return _sums_offset(layout) + max(sums, default=0)


def _sums_offset(layout: CellTiling) -> int:
    return layout.scratch_floats // layout.tile


def kernel_text(name: str, net_type: NetType, layout: CellTiling | None) -> str:
    """The kernel of a type, as a function of that name. `layout`: None for a reduction."""
    params = ["n", "index", "lists", "constants", "scratch"]
    params += [f"a{s}, p{s}, l{s}" for s in range(len(net_type.slots))]
    params += [f"o{o}, b{o}" for o in range(len(net_type.outputs))]
    body = _Body()
    if layout is not None:
        _Cell(body, layout).write()
    else:
        body.loop("i", "n")
        if isinstance(net_type.reduction, Attention):
            body.attend(net_type.reduction, [size_of(slot.shape) for slot in net_type.slots])
            return _function(name, params, body)
        for s in range(len(net_type.slots)):
            assert net_type.reduction is not None
            size = size_of(net_type.slots[s].shape)
            body.reduce(net_type.reduction, f"o{s}, {size} * (b{s} + i), {size}", s)
    return _function(name, params, body)


def _function(name: str, params: Sequence[str], body: _Body) -> str:
    return "\n".join(
        ["@numba.njit(nogil=True, error_model='numpy')", f"def {name}({', '.join(params)}):", *body.lines, ""]
    )


class _Body:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1

    def do(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def loop(self, name: str, count: object) -> None:
        """What follows is inside, until the depth is set back."""
        self.do(f"for {name} in range({count}):")
        self.depth += 1

    def attend(self, attention: Attention, sizes: Sequence[int]) -> None:
        """Attention of lane i's lists of values, keys and queries, of so many floats a row."""
        values, keys, _ = sizes
        factor = 0.0 if attention.added else attention.factor(keys)
        self.do("begin, end = lists[l0 + i], lists[l0 + i + 1]")
        rows = ", ".join(f"a{s}, index[p{s} + begin : p{s} + end]" for s in range(len(sizes)))
        out = f"o0[{values} * (b0 + i) : {values} * (b0 + i + 1)]"
        self.do(f"attend({out}, {keys}, {attention.heads}, {factor}, {rows})")

    def reduce(self, reduction: Reduction, out: str, slot: int) -> None:
        """Reduce what lane i of an operand reads, its list or one row, to `out` (array, place, floats)."""
        self.do(f"u, v = (p{slot} + i, p{slot} + i + 1) if l{slot} < 0 else (")
        self.do(f"    p{slot} + lists[l{slot} + i], p{slot} + lists[l{slot} + i + 1])")
        self.do(f"{reduction}_rows({out}, a{slot}, index, u, v)")


class _Cell:
    def __init__(self, body: _Body, layout: CellTiling) -> None:
        self.body, self.layout, self.normal = body, layout, layout.normal
        cell = self.normal.cell
        # each entry of the layout's table: an array, and where a lane's value begins in it
        self.begin = [
            (f"a{i}", f"x{i}") if place is None else ("scratch", str(place.offset))
            for i, place in enumerate(layout.lists)
        ]
        self.begin += [(f"o{o}", f"y{o}") for o in range(len(cell.outputs))]
        self.begin += [("scratch", str(offset)) for _, offset in layout.scratch]
        self.begin += [("constants", str(fixed.offset)) for fixed in layout.fixed]

    def write(self) -> None:
        body, layout = self.body, self.layout
        body.loop("i", "n")
        for i, place in enumerate(layout.lists):
            size = layout.floats(i)
            if place is None:
                body.do(f"x{i} = {size} * np.int64(index[p{i} + i])")
            else:
                body.reduce(place.reduction, f"scratch, {place.offset}, {size}", i)
        for o, (_, value) in enumerate(self.normal.cell.outputs):
            body.do(f"y{o} = {layout.floats(value)} * (b{o} + i)")
        for stage in layout.stages:
            if isinstance(stage, Single):
                self._single(stage)
            else:
                self._stage(stage)

    def _stage(self, laid: StageLayout) -> None:
        body, layout, normal, stage = self.body, self.layout, self.normal, laid.stage
        size = layout.floats(stage.gates[0].value if stage.gates else stage.operations[0])
        if stage.gates:
            (weights,) = laid.weights
            sums, at = _sums_offset(layout), weights.offset
            body.do(f"copy(scratch, {sums}, constants, {at}, {len(stage.gates) * size})")
            at += len(stage.gates) * size
            for part, fed in weights.group.segments:
                x = f"{self._at(layout.place_part(part.value, part.start))}, {part.length}"
                for number, count in consecutive(fed):
                    out = f"scratch, {sums + fed[number] * size}, {count * size}"
                    w = f"constants, {at + number * size}, {len(fed) * size}"
                    body.do(f"accumulate({out}, {x}, {w})")
                at += part.length * len(fed) * size
        known = {
            gate.value: f"scratch[{_sums_offset(layout) + number * size} + j]"
            for number, gate in enumerate(stage.gates)
        }

        def read(a: int) -> str:
            if a in known:
                return known[a]
            place = layout.fixed_place(a, stage.shape) if normal.static[a] else layout.place(a)
            return self._element(place)

        body.loop("j", size)
        for value in stage.operations:
            op = normal.op(value)
            if op.name == "spread":
                known[value] = self._spread(op)
                continue
            arguments = [read(a) for a in op.args]
            known[value] = assign(body.do, f"v{value}", op.name, arguments, "np.float32({})".format)
        for value in stage.stores:
            body.do(f"{self._element(layout.place(value))} = {known[value]}")
        body.depth -= 1

    def _single(self, single: Single) -> None:
        body, layout = self.body, self.layout
        op = self.normal.op(single.value)
        shapes = [layout.shape_of(a) for a in op.args]
        operands = [self._at(place) for place in layout.operands(single)]
        array, begin = self.begin[layout.entries[single.value]]
        out = f"{array}, {begin}"
        rows = op.shape[0] if len(op.shape) == 2 else 1
        match op.name:
            case "softmax":
                body.do(f"softmax({out}, {operands[0]}, {rows}, {columns(op.shape)})")
            case "sum" | "max":
                down = op.attr[0] == -2
                count = columns(shapes[0])
                # results, where each begins; its numbers, how far apart they are
                each = (count, 1, shapes[0][0], count) if down else (size_of(op.shape), count, count, 1)
                body.do(f"{op.name}_along({out}, {operands[0]}, {', '.join(map(str, each))})")
            case "reshape":
                body.do(f"copy({out}, {operands[0]}, {size_of(op.shape)})")
            case "transpose":
                body.do(f"transpose({out}, {operands[0]}, {shapes[0][0]}, {shapes[0][1]})")
            case "concat":
                at = 0
                for operand, shape in zip(operands, shapes, strict=True):
                    body.do(f"copy({out} + {at}, {operand}, {size_of(shape)})")
                    at += size_of(shape)
            case "matmul" if len(op.shape) == 1:
                body.do(f"by_vector({out}, {op.shape[0]}, {operands[0]}, {operands[1]}, {shapes[0][1]})")
            case "matmul":
                body.do(f"{array}[{begin}:{begin} + {size_of(op.shape)}] = 0")
                left, *rights = operands
                at = 0
                for right, length in zip(rights, layout.heights(single), strict=True):
                    x = f"{left} + {at}, {shapes[0][1]}"
                    body.do(f"by_matrix({out}, {rows}, {op.shape[1]}, {x}, {right}, {length})")
                    at += length
            case _:
                raise ValueError(f"no kernel for the operation '{op.name}'")

    def _at(self, place: RowPlace) -> str:
        """An operand as helpers take it: the array, and where it begins."""
        array, begin = self.begin[place.entry]
        return f"{array}, {begin} + {place.column}"

    def _spread(self, op: Op) -> str:
        """Element j of a row that a smaller value is repeated to."""
        array, begin = self.begin[(place := self.layout.place(op.args[0])).entry]
        (*down, across), count = spread_sizes(op), op.shape[-1]
        number = f"j % {count}" if across > 1 else f"j // {count}" if down and down[0] > 1 else "0"
        return f"{array}[{begin} + {place.column} + {number}]"

    def _element(self, place: RowPlace) -> str:
        """Element j of a row."""
        array, begin = self.begin[place.entry]
        return f"{array}[{begin} + {place.column} + j]"
