"""A model's names found in the instances, once for all mini-batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.data.derive import field, link
from abw.core.data.instances import Instances, Link
from abw.core.data.vocab import trained_ids, word_rows
from abw.core.graph import kernels
from abw.core.graph.network import Network, loops_of
from abw.core.spec.model import Input, Model, NodeSource, TableSource

Ints = NDArray[np.int32]
_COMPARE = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


@dataclass(frozen=True, slots=True)
class EdgeSlots:
    """Where edges are looked for (see `kernels.consumers`), for each of T types with up to S slots.

    `slots` (T,) how many it has; `lists` (T,) whether it is a reduction; `distinct` (T, S) is -1 for slots
    that read no node, or everywhere the same as an earlier one; `loop` (T,) see `loops_of`.
    """

    slots: Ints
    lists: NDArray[np.bool_]
    distinct: Ints
    loop: Ints


def edge_slots(model: Model, network: Network) -> EdgeSlots:
    """What the model alone says of its graphs' edges.

    Two slots read the same node everywhere if their sources differ in nothing but the outputs they take, and
    these are outputs of a cell, or of a reduction whose two inputs are again such slots: what it passes on
    over one link is theirs.
    """
    slots = np.array([len(t.inputs) for t in model.types], np.int32)
    like = [[0] * len(t.outputs if t.reduction else ()) for t in model.types]
    while True:  # from all outputs of a reduction alike, as long as one proves to differ
        first = [_first_alike([_way(i, like) for i in t.inputs]) for t in model.types]
        found = [first[t] if node_type.reduction else [] for t, node_type in enumerate(model.types)]
        if found == like:
            break
        like = found
    distinct = np.full((len(slots), max(slots, default=0)), -1, np.int32)
    for t, node_type in enumerate(model.types):
        for s, wanted in enumerate(node_type.inputs):
            if first[t][s] == s and any(isinstance(source, NodeSource) for source in wanted.sources):
                distinct[t, s] = s
    lists = np.array([t.reduction is not None for t in model.types])
    return EdgeSlots(slots, lists, distinct, loops_of(network))


def _way(wanted: Input, like: Sequence[Sequence[int]]) -> tuple[object, ...]:
    """What decides which node an input reads; outputs of reduction t are the same where `like[t]` is."""
    return tuple(
        (source.hops, tuple((t, like[t][o] if like[t] else 0) for t, o in source.producers))
        if isinstance(source, NodeSource)
        else (source if isinstance(source, TableSource) else None)
        for source in wanted.sources
    )


def _first_alike(keys: Sequence[object]) -> list[int]:
    """For each key the place of the first that is equal."""
    return [keys.index(key) for key in keys]


@dataclass(frozen=True, slots=True)
class Lookup:
    """A field through which a table is read: `ids` (V,), and a row for each id (`rows`, see `word_rows`)."""

    ids: Ints
    rows: Ints


@dataclass(frozen=True, slots=True)
class Binding:
    """A model's names, found in the instances: what all their mini-batches share.

    `vertices[t]` are the vertices (of all instances) that type t is for, in order; `links` and `lookups`
    (by table and field) are those that the model mentions.
    """

    model: Model
    network: Network
    instances: Instances
    vertices: tuple[Ints, ...]
    links: dict[str, Link]
    lookups: dict[tuple[int, str], Lookup]
    edges: EdgeSlots


def bind(model: Model, network: Network, edges: EdgeSlots, instances: Instances) -> Binding:
    """Look up a model's kinds, links, fields and table rows. Cost: linear in the vertices.

    `network` is the model's at granularity `cell`, `edges` its `edge_slots`. Errors: DataError where a
    vocabulary is for numbers, or a table with weights has none for words.
    """
    sources = [s for t in model.types for i in t.inputs for s in i.sources]
    hops = {h.link for s in sources if isinstance(s, NodeSource | TableSource) for h in s.hops}
    wanted = {(s.table, s.field) for s in sources if isinstance(s, TableSource)}
    lookups = {}
    for table, name in sorted(wanted):
        ids = field(instances, name, model.data.seed)
        if model.weights.file:
            ids = trained_ids(instances, name, ids, model.tables[table])
        lookups[table, name] = Lookup(ids, word_rows(instances, name, model.tables[table]))
    return Binding(
        model,
        network,
        instances,
        _vertices(model, instances),
        {name: link(instances, name) for name in sorted(hops)},
        lookups,
        edges,
    )


def _vertices(model: Model, instances: Instances) -> tuple[Ints, ...]:
    """For each type the vertices that it is for, in order."""
    of_kinds: dict[frozenset[str], Ints] = {}
    found = []
    for t in model.types:
        if t.kinds not in of_kinds:
            wanted = np.array([kind in t.kinds for kind in instances.schema.kinds])
            out = np.empty(len(instances.kind) + 1, np.int32)
            of_kinds[t.kinds] = out[: kernels.select(instances.kind, wanted, out)]
        vertices = of_kinds[t.kinds]
        for condition in t.where:
            values = field(instances, condition.field, model.data.seed)[vertices]
            vertices = vertices[_COMPARE[condition.comparison](values, condition.value)]
        found.append(vertices)
    return tuple(found)
