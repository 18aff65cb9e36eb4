"""A model's names found in the instances, once for all mini-batches."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from abw.core.data.derive import field, floats, link
from abw.core.data.instances import Instances, Link, Values
from abw.core.data.intern import trained_ids, word_rows
from abw.core.data.links import along
from abw.core.graph.bytecode import Bytecode
from abw.core.ir.model import Model
from abw.core.ir.network import Network
from abw.core.ir.schema import Comparison
from abw.core.jit.decorators import njit

Ints = NDArray[np.int32]
Outputs = tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
_COMPARE: dict[str, np.ufunc] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def passes(comparison: Comparison, values: Ints, against: int) -> NDArray[np.bool_]:
    """Which numbers pass a comparison; one that is absent (-1) passes none, also no `!=`."""
    found: NDArray[np.bool_] = (values >= 0) & _COMPARE[comparison](values, against)
    return found


@dataclass(frozen=True, slots=True)
class Binding:
    """A model's names, found in the instances: what all their mini-batches share.

    `data` holds, one array behind the other, what the program names, and `tables[number]` says where: of a
    type the vertices (of all instances) that it is for, in order, and how many they are; of a link or a list
    its `indptr` (-1: a single link) and `target`; of a lookup each vertex's id, and the row of each id (-1:
    that is the id modulo the table's rows). `given` are the fields that flow in as they are: of these the ids
    number the rows. `outputs` is what graphs give back.
    """

    model: Model
    network: Network
    instances: Instances
    program: Bytecode
    data: Ints
    tables: NDArray[np.int64]
    given: Mapping[str, Values]
    outputs: Outputs


def bind(model: Model, network: Network, program: Bytecode, instances: Instances) -> Binding:
    """Look up a model's kinds, links, fields and table rows. Cost: linear in the vertices.

    `network` is the model's at granularity `cell`, `program` its `program_of`. Errors: DataError where a
    vocabulary is for numbers, or a table with weights has none for words.
    """
    found = _Found()
    for vertices in _vertices(model, instances):
        found.tables.append((found.place(vertices), len(vertices)))
    names = {*program.links, *(hop.link for hops in program.lists for hop in hops)}
    links = {name: link(instances, name) for name in sorted(names)}
    for name in program.links:
        found.add(links[name])
    for hops in program.lists:
        found.add(along([(links[hop.link], hop.index) for hop in hops], len(instances.kind)))
    given = {name: floats(instances, name, model.data.seed) for name in network.fields}
    for table, name in program.lookups:
        if table < 0:
            rows = np.full(len(instances.kind), -1, np.int32)
            rows[given[name].vertex] = np.arange(len(given[name].vertex))
            found.tables.append((found.place(rows), -1))
            continue
        ids = field(instances, name, model.data.seed)
        if model.weights.file:
            ids = trained_ids(instances, name, ids, model.tables[table])
        rows = word_rows(instances, name, model.tables[table])
        found.tables.append((found.place(ids), found.place(rows) if len(rows) else -1))
    data = np.concatenate(found.arrays, dtype=np.int32)
    tables = np.array(found.tables, np.int64)
    return Binding(model, network, instances, program, data, tables, given, network.outputs)


class _Found:
    """Arrays one behind the other, each once, and the tables that say where."""

    def __init__(self) -> None:
        self.arrays: list[Ints] = []
        self.tables: list[tuple[int, int]] = []
        self.begin: dict[int, int] = {}
        self.size = 0

    def place(self, array: Ints) -> int:
        if id(array) not in self.begin:
            self.begin[id(array)] = self.size
            self.arrays.append(array)
            self.size += len(array)
        return self.begin[id(array)]

    def add(self, way: Link) -> None:
        self.tables.append((-1 if way.indptr is None else self.place(way.indptr), self.place(way.target)))


def _vertices(model: Model, instances: Instances) -> tuple[Ints, ...]:
    """For each type the vertices that it is for, in order."""
    of_kinds: dict[frozenset[str], Ints] = {}
    every = []
    for t in model.types:
        if t.kinds not in of_kinds:
            wanted = _wanted(instances.schema.kinds, t.kinds)
            out = np.empty(len(instances.kind) + 1, np.int32)
            of_kinds[t.kinds] = out[: _select(instances.kind, wanted, out)]
        vertices = of_kinds[t.kinds]
        for condition in t.where:
            values = field(instances, condition.field, model.data.seed)[vertices]
            vertices = vertices[passes(condition.comparison, values, condition.value)]
        every.append(vertices)
    return tuple(every)


@cache
def _wanted(kinds: tuple[str, ...], some: frozenset[str]) -> NDArray[np.bool_]:
    """Which of the kinds are among some (kinds,)."""
    return np.array([kind in some for kind in kinds])


@njit
def _select(kind: NDArray[np.uint8], wanted: NDArray[np.bool_], out: Ints) -> int:
    """The vertices (V,) whose kind is wanted, in order, and how many; `wanted` (kinds,), `out` (V + 1,)."""
    n = 0
    for v in range(len(kind)):
        out[n] = v  # written over unless it is wanted: kinds follow no pattern that a branch could learn
        n += wanted[kind[v]]
    return n


def only(binding: Binding, types: Collection[int], outputs: Outputs) -> Binding:
    """The binding of a model of which some types alone have nodes, and that gives this back."""
    tables = binding.tables.copy()
    for t in range(len(binding.model.types)):
        if t not in types:
            tables[t, 1] = 0
    return replace(binding, tables=tables, outputs=outputs)
