"""Exports a model: a spec of its cells, recorded instances as vertices, and its weights.

Decisions are exported as they were taken: what decides stays a program.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.cell.names import equations
from abw.core.data.tensors import write_tensors
from abw.core.ir.cell import Cell, Shape
from abw.core.program.recording.segments import Segment
from abw.core.program.recording.values import BITS
from abw.core.program.running.runner import BatchRunner
from abw.torch.recording.cells import Cells

DECIDES = (
    "Decisions are those taken for these instances: for others the model runs with abw.torch, as a program"
)
VARIABLE = re.compile(r"%(\d+)")


@dataclass
class Exported:
    """Mini-batches as lines of JSON, and what their nodes read.

    `feeds`: of each kind of vertex and input, the sources that were met, as a spec writes them.
    `decides`: whether programs waited for decisions. `sizes`: those of vertices that only pass a value on, by
    what they are for ("item", "result").
    """

    cells: Cells
    lines: list[str] = field(default_factory=list)
    types: set[int] = field(default_factory=set)
    feeds: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)
    decides: bool = False
    sizes: dict[str, set[int]] = field(default_factory=lambda: {"item": set(), "result": set()})

    def add(self, runner: BatchRunner, segment: Segment, results: list[list[tuple[int, int]]]) -> None:
        """Note a mini-batch: everything recorded, and the handles and sizes that each instance returns."""
        self.decides |= runner.rounds > 0
        own: dict[int, list[int]] = {}
        for v, instance in enumerate(segment.instance.tolist()):
            own.setdefault(instance, []).append(v)
        for instance, returned in enumerate(results):
            one = _Instance(self, runner, segment)
            for v in own.get(instance, []):
                one.node(v)
            width = runner.engine.cells.width
            for handle, size in returned:
                reference = handle >> BITS
                one.passed("result", size, reference - runner.base * width if reference >= 0 else reference)
            name = f"i{len(self.lines)}"
            self.lines.append(json.dumps({"id": name, "vertices": one.vertices, "links": one.links}))


class _Instance:
    """The vertices of an instance, and the links between them."""

    def __init__(self, exported: Exported, runner: BatchRunner, segment: Segment) -> None:
        self._exported, self._runner, self._segment = exported, runner, segment
        self._engine = runner.engine
        self.vertices: list[dict[str, Any]] = []
        self.links: dict[str, list[list[int]]] = {}
        self._at: dict[int, int] = {}

    def node(self, v: int) -> None:
        """Add a node that was recorded."""
        t = int(self._segment.type[v])
        begin, end = self._segment.operand_ptr[v : v + 2].tolist()
        operands = self._segment.operand[begin:end].tolist()
        node_type = self._exported.cells.library.types[t]
        self._exported.types.add(t)
        if node_type.reduction is not None:
            (size,) = node_type.outputs[0].shape
            items = [self.passed("item", size, reference) for reference in operands]
            at = self._vertex(f"cell{t}")
            self.links.setdefault(f"cell{t}_list", []).extend([at, item] for item in items)
        else:
            at = self._vertex(f"cell{t}")
            for s, reference in enumerate(operands):
                self._feed(at, f"cell{t}", f"x{s}", reference)
        self._at[v] = at

    def passed(self, what: str, size: int, reference: int) -> int:
        """Add a vertex that copies a value."""
        self._exported.sizes[what].add(size)
        at = self._vertex(f"{what}{size}")
        self._feed(at, f"{what}{size}", "x", reference)
        return at

    def _vertex(self, kind: str) -> int:
        self.vertices.append({"kind": kind})
        return len(self.vertices) - 1

    def _feed(self, at: int, kind: str, name: str, reference: int) -> None:
        """Say where an input comes from."""
        cells, network = self._exported.cells, self._engine.cells
        feeds = self._exported.feeds.setdefault((kind, name), {})
        if reference >= 0:
            node, output = divmod(reference, network.width)
            link = f"{kind}_{name}_y{output}"
            self.links.setdefault(link, []).append([at, self._at[node]])
            feeds[f"{link}.y{output}"] = None
            return
        number, row = network.constant_of(reference)
        constant = network.constants[number]
        if constant.kind == "table":
            self.vertices[at][f"{kind}_{name}_row"] = row
            feeds[f"{_plain(cells.name_of(cells.tables[constant.number]))}[{kind}_{name}_row]"] = None
        elif constant.kind == "param":
            feeds[_plain(cells.name_of(cells.params[constant.number]))] = None
        elif constant.kind == "zeros":
            feeds["zeros"] = None
        else:
            numbers = np.asarray(self._engine.constant(reference), np.float64).ravel().tolist()
            self.vertices[at][f"{kind}_{name}_given"] = numbers
            feeds[f"{kind}_{name}_given"] = None


def write(exported: Exported, folder: Path, name: str) -> Path:
    """Write model.yaml, instances.jsonl and weights.safetensors; the path of the first. Errors: AbwError."""
    if not exported.lines:
        raise AbwError("there are no instances to export")
    folder.mkdir(parents=True, exist_ok=True)
    text, tensors = _spec(exported, name)
    (folder / "instances.jsonl").write_text("\n".join(exported.lines) + "\n", encoding="utf-8")
    (folder / "model.yaml").write_text(text, encoding="utf-8")
    with (folder / "weights.safetensors").open("wb") as file:
        write_tensors(file, tensors)
    return folder / "model.yaml"


def _spec(exported: Exported, name: str) -> tuple[str, dict[str, Any]]:
    cells, library = exported.cells, exported.cells.library
    arrays = cells.arrays()
    tensors: dict[str, Any] = {}
    lines = ["# Made by abw.torch: a type for each cell of a PyTorch model, a vertex for each node."]
    if exported.decides:
        lines.append(f"# {DECIDES}")
        warnings.warn(DECIDES, stacklevel=4)
    lines += [f"model: {name}", "dims: {}", "data: {format: json, path: instances.jsonl, batch: 64}"]
    read = {source.split("[")[0] for feeds in exported.feeds.values() for source in feeds}
    maps = []
    tables = []
    for table, values in zip(cells.tables, arrays.tables, strict=True):
        own = _plain(cells.name_of(table))
        if own in read:
            tables.append(f"{own}: {{dim: {values.shape[1]}, rows: {values.shape[0]}}}")
            tensors[own] = np.ascontiguousarray(values)
            maps.append(f"    {own}: {own}")
    lines += [f"tables: {{{', '.join(tables)}}}"] if tables else []
    given = []
    for number in library.given:
        own = _plain(cells.name_of(cells.params[number]))
        if own in read:
            given.append(f"{own}: {arrays.values[number].size}")
            tensors[own] = np.ascontiguousarray(arrays.values[number].ravel())
            maps.append(f"    {own}: {own}")
    lines += [f"params: {{{', '.join(given)}}}"] if given else []
    written: dict[int, str] = {}
    defined: list[str] = []
    body = []
    for t in sorted(exported.types):
        node_type = library.types[t]
        named = _type_name(t, cells.origins.get(t) or str(node_type.reduction or ""))
        if node_type.reduction is not None:
            body.append(f'  {named}: {{per: cell{t}, {node_type.reduction}: {{y0: "cell{t}_list.y"}}}}')
            continue
        assert node_type.cell is not None
        defined += _cell(f"cell{t}", node_type.cell, cells.origins.get(t, ""))
        own_maps, shared = [], []
        for p, number in zip(node_type.cell.params, node_type.params, strict=True):
            if number in written:
                shared.append(f"{p.name}: {written[number]}")
                continue
            written[number] = f"{named}.{p.name}"
            tensor = f"p{number}_{_plain(cells.name_of(cells.params[number]))}"
            tensors[tensor] = np.ascontiguousarray(arrays.values[number])
            own_maps.append(f"{p.name}: {tensor}")
        inputs = ", ".join(_input(exported, f"cell{t}", port.name) for port in node_type.cell.inputs)
        more = f", params: {{{', '.join(shared)}}}" if shared else ""
        body.append(f"  {named}: {{per: cell{t}, cell: cell{t}, inputs: {{{inputs}}}{more}}}")
        maps += [f"    {named}: {{{', '.join(own_maps)}}}"] if own_maps else []
    for what, sizes in exported.sizes.items():
        for n in sorted(sizes):
            kind = f"{what}{n}"
            defined.append(f"  {kind}: {{inputs: {{x: {n}}}, equations: y = x, outputs: {{y: y}}}}")
            body.append(f"  {kind}: {{per: {kind}, cell: {kind}, inputs: {{{_input(exported, kind, 'x')}}}}}")
    outputs = ", ".join(f"out{n}: result{n}.y" for n in sorted(exported.sizes["result"]))
    lines += ["cells:", *defined, "types:", *body, f"outputs: {{{outputs}}}"]
    lines += ["weights:", "  file: weights.safetensors", *(["  map:", *maps] if maps else [])]
    return "\n".join(lines) + "\n", tensors


def _type_name(t: int, origin: str) -> str:
    """The name of a type, with what its cell is made of: cell3_encode_15 for a stretch of code at line 15."""
    words = re.findall(r"[A-Za-z0-9]+", origin.rpartition(".")[2].replace(", line", ""))
    return "_".join([f"cell{t}", *words])


def _cell(name: str, cell: Cell, where: str) -> Iterator[str]:
    yield f"  {name}:" + (f"  # {where}" if where else "")
    yield f"    inputs: {{{', '.join(f'{p.name}: {_shape(p.shape)}' for p in cell.inputs)}}}"
    if cell.params:
        yield f"    params: {{{', '.join(f'{p.name}: {_shape(p.shape)}' for p in cell.params)}}}"
    yield "    equations: |"
    yield from ("      " + VARIABLE.sub(r"v\1", line) for line in equations(_unspread(cell)))
    yield f"    outputs: {{{', '.join(f'{n}: {n}' for n, _ in cell.outputs)}}}"


def _unspread(cell: Cell) -> Cell:
    """A cell as equations have it, which spread arguments themselves, but for a column's shape."""
    own: dict[int, int] = {}
    ops = []
    for v, op in enumerate(cell.ops, cell.first_op):
        if op.name == "spread" and len(op.shape) == 2 and op.attr[0] > 1:
            op = replace(op, name="reshape", shape=(op.shape[0], 1))
        elif op.name == "spread":
            own[v] = op.args[0]
        ops.append(replace(op, args=tuple(own.get(a, a) for a in op.args)))
    return replace(cell, ops=tuple(ops))


def _shape(shape: Shape) -> str:
    return str(shape[0]) if len(shape) == 1 else str(list(shape))


def _input(exported: Exported, kind: str, name: str) -> str:
    """An input with its sources: those that every vertex has come last."""
    found = exported.feeds[kind, name]
    fixed = [source for source in found if source.isidentifier() and not source.endswith("_given")]
    if len(fixed) > 1:
        raise AbwError(
            f"{name} of {kind} is sometimes one parameter, sometimes another: a spec cannot express that"
        )
    others = sorted(source for source in found if source not in fixed)
    return f'{name}: "{" or ".join([*others, *fixed])}"'


def _plain(name: str) -> str:
    """A name as a spec may have it."""
    return re.sub(r"\W", "_", name)
