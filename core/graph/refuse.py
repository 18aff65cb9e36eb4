"""What is said of instances that a model cannot be run on."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from abw.core.base.errors import InstanceError, Problem, SpecError
from abw.core.data.derive import field, link
from abw.core.graph.bind import Binding
from abw.core.graph.bounds import waiting
from abw.core.graph.bytecode import Origin
from abw.core.graph.graph import Graph
from abw.core.ir.model import TableSource
from abw.core.ir.schema import Hop


def refuse(binding: Binding, first: int, step: int, candidate: int) -> NoReturn:
    """Say why a step of the program failed for a candidate of its type; the first instance is `first`."""
    origin = binding.program.origins[step]
    begin, count = binding.tables[origin.type].tolist()
    vertices = binding.data[begin : begin + count]
    vertex = int(vertices[np.searchsorted(vertices, binding.instances.start[first]) + candidate])
    if origin.hops:
        _refuse_many(binding, vertex, origin)
    _refuse_missing(binding, vertex, origin)


def _refuse_many(binding: Binding, vertex: int, origin: Origin) -> NoReturn:
    at, name = _lead(binding, vertex, origin.hops[:-1]), origin.hops[-1].link
    place = _place(binding, at)
    message = f"link '{name}' leads to several vertices at {place}, and an input takes one value"
    hint = f"pick one, as in `{name}[0]`, or reduce them in a type of their own (`sum:`)"
    raise InstanceError(Problem(message, origin.wanted.where, hint), _instance(binding, at))


def _refuse_missing(binding: Binding, vertex: int, origin: Origin) -> NoReturn:
    model, wanted = binding.model, origin.wanted
    name = model.types[origin.type].name
    message = f"nothing feeds input '{wanted.name}' of type '{name}' at {_place(binding, vertex)}"
    hint = "give a default, for example `... or zeros`"
    for source in wanted.sources:
        if isinstance(source, TableSource) and (why := _unknown(binding, vertex, source)):
            message += f": {why}"
            if model.tables[source.table].vocab:
                hint = "name a word of it for the others: unknown: <unk>"
    raise InstanceError(Problem(message, wanted.where, hint), _instance(binding, vertex))


def _unknown(binding: Binding, vertex: int, source: TableSource) -> str:
    """Say what a table was asked for and does not have; '' where it has it."""
    instances, table = binding.instances, binding.model.tables[source.table]
    at = _lead(binding, vertex, source.hops)
    number = int(field(instances, source.field, binding.model.data.seed)[at]) if at >= 0 else -1
    if number < 0:
        return ""
    if table.vocab is None:
        return f"{source.field} {number} is no row of table '{table.name}', which has {table.rows}"
    word = instances.vocabulary[source.field][number]
    return "" if word in table.vocab.rows else f"'{word}' is not in the vocabulary {table.vocab.path}"


def _lead(binding: Binding, vertex: int, hops: tuple[Hop, ...]) -> int:
    """Where hops lead from a vertex, the first place of several; -1 for nowhere."""
    for hop in hops:
        way = link(binding.instances, hop.link)
        if vertex >= 0 and way.indptr is None:
            vertex = int(way.target[vertex])
        elif vertex >= 0:
            targets = way.target[way.indptr[vertex] : way.indptr[vertex + 1]].tolist()  # type: ignore[index]
            index = hop.index or 0
            vertex = targets[index] if -len(targets) <= index < len(targets) else -1
    return vertex


def _instance(binding: Binding, vertex: int) -> int:
    """The number of a vertex's instance."""
    return int(np.searchsorted(binding.instances.start, vertex, side="right")) - 1


def _place(binding: Binding, vertex: int) -> str:
    """A vertex in words: its kind, its number there, its instance and line."""
    instances = binding.instances
    number = _instance(binding, vertex)
    kind = int(instances.kind[vertex])
    before = instances.kind[int(instances.start[number]) : vertex]
    name = f" '{instances.names[number]}'" if instances.names else ""
    return (
        f"{instances.schema.kinds[kind]} {int(np.count_nonzero(before == kind))} of instance "
        f"{int(instances.numbers[number])}{name} ({instances.source}:{int(instances.lines[number])})"
    )


def refuse_circle(binding: Binding) -> NoReturn:
    """Say which reductions it must be that stand for each other."""
    reductions = [t for t in binding.model.types if t.reduction]
    message = "reductions refer to each other in a circle: " + ", ".join(t.name for t in reductions)
    raise SpecError([Problem(message, reductions[0].span, "a reduction must lead to a cell's output")])


def refuse_cycle(binding: Binding, first: int, graph: Graph) -> None:
    """Say which nodes wait for each other, if some do; the graph's first instance is `first`."""
    dag = graph.dag
    waits = waiting(dag)
    if not waits.any():
        return
    # every node that waits has a producer that waits: walking back along those must come round
    source = np.repeat(np.arange(len(dag)), np.diff(dag.succ_ptr))
    back = np.zeros(len(dag), np.int64)
    back[dag.succ[waits[source]]] = source[waits[source]]
    node, seen = int(np.flatnonzero(waits)[-1]), dict[int, None]()
    while node not in seen:
        seen[node] = None
        node = int(back[node])
    path = [*seen]
    path = path[path.index(node) :]
    names = " -> ".join(dag.types[dag.type[v]] for v in (*path[::-1], path[-1]))
    vertex = int(binding.instances.start[first]) + int(graph.vertex[path[0]])
    message = f"nodes wait for each other: {names}, at {_place(binding, vertex)}"
    hint = "an instance's nodes must form no cycle: mend the links or the data"
    span = binding.model.types[dag.type[path[0]]].span
    raise InstanceError(Problem(message, span, hint), _instance(binding, vertex))
