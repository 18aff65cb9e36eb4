"""A model brought together with its instances: what gives the graphs of mini-batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from abw.core.cell.hoist import hoist
from abw.core.data.instances import Instances
from abw.core.data.jsonl import schema_of_json
from abw.core.data.read import read
from abw.core.graph.bind import Binding, EdgeSlots, bind, edge_slots
from abw.core.graph.cells import cell_network
from abw.core.graph.construct import construct
from abw.core.graph.graph import Graph
from abw.core.graph.network import Granularity, LayoutName, Network
from abw.core.graph.ops import OpNetwork, expand, op_network
from abw.core.spec.load import Overrides, load_model
from abw.core.spec.model import DataSpec, Model


@dataclass(frozen=True, slots=True)
class Networks:
    """A model's network of cells, where its edges are, and at granularity `op` the network of operations."""

    cells: Network
    edges: EdgeSlots
    ops: OpNetwork | None


@dataclass(frozen=True, slots=True)
class Workload:
    """A model with its instances and its network, at one granularity."""

    model: Model
    binding: Binding
    ops: OpNetwork | None

    @property
    def network(self) -> Network:
        """What the nodes are, at this workload's granularity."""
        return self.ops.network if self.ops else self.binding.network

    @property
    def instances(self) -> Instances:
        """All the instances."""
        return self.binding.instances

    def graph(self, first: int, last: int) -> Graph:
        """The graph of a mini-batch: instances `first` to `last` (exclusive). Errors: SpecError."""
        graph = construct(self.binding, first, last)
        return expand(graph, self.ops) if self.ops else graph

    def windows(self) -> Iterator[tuple[int, int]]:
        """The mini-batches, in order; the last may be smaller."""
        for first in range(0, len(self.instances), self.model.data.batch):
            yield first, min(first + self.model.data.batch, len(self.instances))


def open_model(spec: Path, overrides: Overrides) -> Model:
    """Read and check a spec. Errors: SpecError."""
    model = load_model(spec, overrides, schema_of_json)
    return hoist(model) if overrides.hoist else model


def read_instances(data: DataSpec, limit: int | None, skip: int = 0) -> Instances:
    """Read a model's data, `limit` instances or all behind the first `skip`. Errors: DataError."""
    return read(data.path, data.format, skip=skip, limit=limit, frequency=data.frequency)


def open_networks(model: Model, granularity: Granularity, layout: LayoutName = "planned") -> Networks:
    """What the nodes of a model's graphs are. Cost: some 100 us, whatever the data."""
    cells = cell_network(model, layout)
    return Networks(cells, edge_slots(model, cells), op_network(cells) if granularity == "op" else None)


def open_workload(model: Model, instances: Instances, networks: Networks) -> Workload:
    """Bring a model and its instances together. Errors: DataError (a vocabulary's file)."""
    return Workload(model, bind(model, networks.cells, networks.edges, instances), networks.ops)


def load_workload(model: Model, granularity: Granularity, layout: LayoutName = "planned") -> Workload:
    """A model with the instances that it names, up to its limit. Errors: DataError."""
    instances = read_instances(model.data, model.data.limit)
    return open_workload(model, instances, open_networks(model, granularity, layout))
