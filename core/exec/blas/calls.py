"""A cell program as a list of NumPy calls on preallocated memory: the inside of the executor `blas`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from abw.core.cell.evaluate import NUMPY
from abw.core.cell.layout import BROADCAST, COPIED, PACKED, SCRATCH
from abw.core.cell.normal import size_of
from abw.core.cell.program import CellBatch, CellProgram, Operand
from abw.core.exec.lower.packing import static_values
from abw.core.ir.cell import Shape
from abw.core.ir.operations import OPERATIONS

Floats = NDArray[np.float32]
Name = tuple[str, int]


def _sigmoid(x: Floats, out: Floats) -> None:
    # 1 / (1 + exp(-x)), of which exp(-x) is kept finite: what is left is 6e-39, and nearly 0
    np.negative(x, out=out)
    np.minimum(out, _MOST, out=out)
    np.exp(out, out=out)
    np.add(out, _ONE, out=out)
    np.reciprocal(out, out=out)


def _softmax(x: Floats, out: Floats) -> None:
    np.subtract(x, x.max(axis=-1, keepdims=True), out=out)
    np.exp(out, out=out)
    np.divide(out, out.sum(axis=-1, keepdims=True), out=out)


def _matrix_vector(left: Floats, right: Floats, out: Floats) -> None:
    np.matmul(left, right[..., None], out=out[..., None])


def _weights_vector(transposed: Floats, right: Floats, out: Floats) -> None:
    np.matmul(right, transposed, out=out)


def _concat(*arrays: Floats) -> None:
    out, row = arrays[-1], 0
    for part in arrays[:-1]:
        rows = part.shape[1]
        np.copyto(out[:, row : row + rows], part)
        row += rows


def _collect(*arrays: Floats) -> None:
    for value, place in zip(arrays[:-1], arrays[-1], strict=True):
        np.copyto(place, value)


def _spread(*arrays: Floats) -> None:
    for value, place in zip(arrays[:-1], arrays[-1], strict=True):
        np.copyto(value, place)


_ONE, _MOST = np.float32(1), np.float32(88)
_ZERO = np.float32(0.0)
# What is done better than by the meaning: without memory for results on the way, or in fewer calls.
_CALLS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "relu": lambda x, out: np.maximum(x, _ZERO, out=out),
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "square": np.square,
    "abs": np.abs,
    "maximum": lambda x, y, out: np.maximum(x, y, out=out),
    "minimum": lambda x, y, out: np.minimum(x, y, out=out),
    "softmax": _softmax,
    "concat": _concat,
}


def _by_meaning(name: str, attr: tuple[float, ...]) -> Callable[..., None]:
    meaning = OPERATIONS[name].meaning
    return lambda *arrays: np.copyto(arrays[-1], meaning(NUMPY, *arrays[:-1], *attr))


class CellKernel:
    """A type's cell, ready to run on up to `capacity` lanes.

    An operand of g values is one array (g, n, *shape), without the g where it is 1, or where one value serves
    all (NumPy broadcasts it). A product with a parameter on the left is `x @ W.T`, W stacked and transposed
    once: (n, k) or (g, n, k) by (g, k, m).

    A step is a call with numbers of arrays. The arrays of a run: inputs and outputs; parts of these; views of
    the scratch memory, of single values and of groups; constants.
    """

    def __init__(self, program: CellProgram, params: Sequence[Floats]) -> None:
        """Compute what is static. `params`: the cell's, in its order."""
        self.program = program
        self.capacity = 0
        self._static = static_values(program.normal, params)
        # scratch memory, in floats a lane: the program's, then a block for each input that is not staged
        self._input_offset = []
        self.width = program.width
        for i, port in enumerate(program.cell.inputs):
            self._input_offset.append(program.place[i].offset if program.staged[i] else self.width)
            self.width += 0 if program.staged[i] else size_of(port.shape)

    def bind(self, scratch: Floats, capacity: int) -> None:
        """Take `capacity * width` floats of scratch memory and make all views into it."""
        cell = self.program.cell
        self.capacity = capacity
        self._scratch = scratch
        self._arrays: dict[str, list[Any]] = {k: [] for k in ("part", "single", "group", "constant")}
        self.launches = 0
        self.copies = 0
        self.copied_floats = 0
        self.inputs = [
            self._block(offset, 1, port.shape)[0]
            for offset, port in zip(self._input_offset, cell.inputs, strict=True)
        ]
        drafts = [draft for batch in self.program.batches for draft in self._draft(batch)]
        begin, number = {"port": 0}, len(cell.inputs) + len(cell.outputs)
        for kind, arrays in self._arrays.items():
            begin[kind] = number
            number += len(arrays)
        self._steps = [(call, [begin[kind] + at for kind, at in names]) for call, names in drafts]

    def run(self, lanes: int, inputs: list[Floats], outputs: list[Floats]) -> None:
        """Compute the outputs (arrays to write to) from the inputs, all (lanes, *shape)."""
        arrays = inputs + outputs
        arrays += [_part(arrays[port], *form) for port, *form in self._arrays["part"]]
        arrays += [view[:lanes] for view in self._arrays["single"]]
        arrays += [view[:, :lanes] for view in self._arrays["group"]]
        arrays += self._arrays["constant"]
        for call, names in self._steps:
            call(*[arrays[i] for i in names])

    def _draft(self, batch: CellBatch) -> Iterator[tuple[Callable[..., Any], list[Name]]]:
        """The steps of a batch: copies of operands, the operation, the copies of a result that is spread."""
        names: list[Name] = []
        shape = self.program.cell.shape_of(batch.result.values[0])
        for number, source in enumerate(batch.sources):
            if source.status == PACKED:
                names.append(self._constant(self._packed(batch, number, shape)))
                continue
            names.append(self._view(source))
            if source.status == COPIED:
                yield _collect, [*(self._value(v) for v in source.values), names[-1]]
        self.launches += 1
        result = self._view(batch.result)
        yield self._call(batch), [*names, result]
        if batch.result.status == COPIED:
            yield _spread, [*(self._value(v) for v in batch.result.values), result]

    def _call(self, batch: CellBatch) -> Callable[..., Any]:
        if batch.op != "matmul":
            attr = self.program.normal.op(batch.result.values[0]).attr
            return _CALLS.get(batch.op) or _by_meaning(batch.op, attr)
        if not self._by_vector(batch):
            return np.matmul
        return _weights_vector if _is_weight(batch) else _matrix_vector

    def _by_vector(self, batch: CellBatch) -> bool:
        return len(self.program.cell.shape_of(batch.sources[1].values[0])) == 1

    def _packed(self, batch: CellBatch, number: int, result: Shape) -> Floats:
        """A static operand in the form that the operation wants it."""
        values = [self._static[v] for v in batch.sources[number].values]
        if number == 0 and _is_weight(batch) and self._by_vector(batch):
            stacked = np.stack([value.T for value in values])
            return np.ascontiguousarray(stacked if len(values) > 1 else stacked[0], np.float32)
        if OPERATIONS[batch.op].kind == "element":
            values = [np.broadcast_to(value, result) for value in values]
        # one row for all lanes
        rows = np.stack(values)[:, None]
        return np.ascontiguousarray(rows if len(values) > 1 else rows[0], np.float32)

    def _view(self, operand: Operand) -> Name:
        """An operand as one array."""
        lanes = len(operand.values)
        if lanes == 1 or operand.status == BROADCAST:
            return self._value(operand.values[0])
        shape = self.program.cell.shape_of(operand.values[0])
        place = self.program.place[operand.values[0]]
        if operand.status == COPIED:
            self.copies += 1
            self.copied_floats += lanes * size_of(shape)
            return self._keep("group", self._block(operand.temporary, lanes, shape))
        if place.home != SCRATCH:
            return self._keep(
                "part", (place.home - 1, place.column, place.pitch, lanes, operand.shift, shape)
            )
        begin = self.capacity * place.offset + place.column
        step = self.capacity * operand.step + operand.shift
        return self._keep(
            "group", _strided(self._scratch[begin:], lanes, step, self.capacity, place.pitch, shape)
        )

    def _value(self, value: int) -> Name:
        """One value as an array (n, *shape)."""
        shape = self.program.cell.shape_of(value)
        place = self.program.place[value]
        if place.home == SCRATCH:
            begin = self.capacity * place.offset + place.column
            return self._keep(
                "single", _strided(self._scratch[begin:], 1, 0, self.capacity, place.pitch, shape)[0]
            )
        if size_of(shape) == place.pitch:
            return "port", place.home - 1
        return self._keep("part", (place.home - 1, place.column, place.pitch, 1, 0, shape))

    def _constant(self, array: Floats) -> Name:
        return self._keep("constant", array)

    def _keep(self, kind: str, item: object) -> Name:
        self._arrays[kind].append(item)
        return kind, len(self._arrays[kind]) - 1

    def _block(self, offset: int, lanes: int, shape: Shape) -> Floats:
        size = self.capacity * size_of(shape) * lanes
        begin = self.capacity * offset
        return self._scratch[begin : begin + size].reshape(lanes, self.capacity, *shape)


def _is_weight(batch: CellBatch) -> bool:
    """A product of parameters with something of the lanes."""
    return batch.op == "matmul" and batch.sources[0].status == PACKED


def _part(port: Floats, column: int, pitch: int, lanes: int, step: int, shape: Shape) -> Floats:
    """Columns of an input or output whose rows have `pitch` floats: one value, or `lanes` of them."""
    view = _strided(port.reshape(-1)[column:], lanes, step, len(port), pitch, shape)
    return view if lanes > 1 else view[0]


def _strided(memory: Floats, lanes: int, step: int, rows: int, pitch: int, shape: Shape) -> Floats:
    """`lanes` values, `step` floats apart, of `rows` rows each, `pitch` floats apart."""
    inner = [size_of(shape[axis + 1 :]) for axis in range(len(shape))]
    strides = tuple(4 * s for s in (step, pitch, *inner))
    return as_strided(memory, (lanes, rows, *shape), strides)
