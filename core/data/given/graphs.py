"""Graphs of networkx and PyTorch Geometric as instances. Neither package is imported here."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.data.instances import Instances, column

Array = NDArray[Any]

_EDGES = (
    "links have no fields: edges='bond' makes each edge a vertex of kind 'bond' with them, between a link \
'from' and a link 'to'; or leave them out: ignore=[{names}]"
)


def from_networkx(
    graphs: Any,  # noqa: ANN401 (a graph of networkx, or several)
    *,
    kind: str = "kind",
    link: str = "edge",
    edges: str | None = None,
    ignore: Collection[str] = (),
) -> Instances:
    """Make instances of format json from one or several networkx graphs.

    A node's attribute `kind` names its kind (default 'node'); its other attributes are fields. Edges are the
    link `link`, in both directions if the graph is undirected. With `edges` each edge is instead a vertex of
    that kind, with links 'from' and 'to' and its attributes as fields. `ignore`: attributes to leave out. A
    graph's name (`graph.graph['name']`) is its id. Errors: AbwError. Cost: some microseconds a node.
    """
    given = _several(graphs, "nodes", "a graph of networkx")
    rows: dict[str, dict[str, list[Any]]] = {}
    ends: dict[tuple[str, str, str], list[tuple[int, int]]] = {}

    def add(of: str, instance: int, attributes: Mapping[str, Any], what: str) -> int:
        fields = {n: v for n, v in attributes.items() if n not in (kind, *ignore)}
        columns = rows.setdefault(of, {"instance": [], **{name: [] for name in fields}})
        if fields.keys() != columns.keys() - {"instance"}:
            odd = sorted(fields.keys() ^ (columns.keys() - {"instance"}))
            message = f"graph {instance}, {what}: attribute '{odd[0]}' is not on all of kind '{of}'"
            raise AbwError(message, hint=f"give it to all of them, or ignore=['{odd[0]}']")
        for name, value in (("instance", instance), *fields.items()):
            columns[name].append(value)
        return len(columns["instance"]) - 1

    for i, graph in enumerate(given):
        vertex_of = {}
        for node, attributes in graph.nodes(data=True):
            of = str(attributes.get(kind, "node"))
            vertex_of[node] = of, add(of, i, attributes, f"node {node!r}")
        for a, b, attributes in graph.edges(data=True):
            for source, target in ((a, b),) if graph.is_directed() or a == b else ((a, b), (b, a)):
                (from_kind, v), (to_kind, w) = vertex_of[source], vertex_of[target]
                if edges is None:
                    _refuse_attributes(attributes.keys() - set(ignore))
                    ends.setdefault((link, from_kind, to_kind), []).append((v, w))
                else:
                    e = add(edges, i, attributes, f"edge {source!r} to {target!r}")
                    ends.setdefault(("from", edges, from_kind), []).append((e, v))
                    ends.setdefault(("to", edges, to_kind), []).append((e, w))
    names = [str(graph.graph.get("name", "")) for graph in given]
    return Instances.from_arrays(
        rows,
        _links(ends),
        names=[name or number for number, name in enumerate(names)] if any(names) else None,
    )


def from_pyg(
    data: Any,  # noqa: ANN401 (Data, HeteroData or Batch of PyTorch Geometric, or several)
    *,
    kind: str = "node",
    link: str = "edge",
    edges: str | None = None,
    ignore: Collection[str] = (),
) -> Instances:
    """Make instances of format json from PyTorch Geometric: a Data, HeteroData or Batch, or several.

    Arrays with a row for each node (`x`, `pos`, …) are fields of its kind: the node type, or `kind` if there
    are no types. Edges are a link named after the edge type's relation, or `link`. With `edges` each edge is
    instead a vertex of that kind (followed by the relation if there are edge types), with links 'from' and
    'to', and arrays with a row for each edge as fields. `ignore`: names to leave out. Integers (n,) are
    fields of integers; other shapes (n, size) are floats. Errors: AbwError. Cost: linear in the arrays.
    """
    several = _several(data, "keys", "data of PyTorch Geometric")
    nodes: dict[str, dict[str, list[Array]]] = {}
    ends: dict[tuple[str, str, str], list[Array]] = {}
    counts: dict[str, int] = {}
    first = 0
    for each in several:
        behind = first + 1
        before = dict(counts)
        for of, store in _stores(each, "node_types", kind):
            size = _rows(store, of)
            owner = _array(store["batch"]) if "batch" in store else np.zeros(size, np.int64)
            columns = _columns(of, each, store, size, "is_node_attr", ("batch", "ptr", *ignore))
            _append(nodes, of, {"instance": first + owner, **columns})
            counts[of] = counts.get(of, 0) + size
            behind = max(behind, first + 1 + int(owner.max(initial=0)))
        for key, store in _stores(each, "edge_types", (kind, link, kind)):
            from_kind, name, to_kind = key
            if "edge_index" not in store:
                continue
            index = _array(store["edge_index"]).astype(np.int64)
            shift = np.array([[before.get(from_kind, 0)], [before.get(to_kind, 0)]])
            own = _columns(
                edges or name, each, store, index.shape[1], "is_edge_attr", ("edge_index", *ignore)
            )
            if edges is None:
                _refuse_attributes(own.keys())
                ends.setdefault((name, from_kind, to_kind), []).append(index + shift)
                continue
            of = edges if not hasattr(each, "edge_types") else f"{edges}-{name}"
            owner = nodes[from_kind]["instance"][-1][index[0]]
            order = np.argsort(owner, kind="stable")
            _append(nodes, of, {"instance": owner[order], **{n: v[order] for n, v in own.items()}})
            numbers = counts.get(of, 0) + np.arange(index.shape[1])
            counts[of] = counts.get(of, 0) + index.shape[1]
            for way, to, side in (("from", from_kind, 0), ("to", to_kind, 1)):
                pair = np.stack([numbers, (index + shift)[side][order]])
                ends.setdefault((way, of, to), []).append(pair)
        first = behind
    vertices = {of: {n: np.concatenate(parts) for n, parts in store.items()} for of, store in nodes.items()}
    return Instances.from_arrays(vertices, _links({k: np.concatenate(v, axis=1).T for k, v in ends.items()}))


def _several(given: Any, marker: str, what: str) -> list[Any]:  # noqa: ANN401
    """One graph, or several, as a list; a graph is what has the attribute `marker`. Errors: AbwError."""
    alone = hasattr(given, marker) or isinstance(given, str) or not isinstance(given, Iterable)
    graphs = [given] if alone else list(given)
    for number, graph in enumerate(graphs):
        if not hasattr(graph, marker):
            hint = "give one, or a list of them"
            raise AbwError(f"graph {number} is {reprlib.repr(graph)}, not {what}", hint=hint)
    if not graphs:
        raise AbwError("there are no graphs", hint="give one, or a list of them")
    return graphs


def _refuse_attributes(names: Iterable[str]) -> None:
    if odd := sorted(names):
        shown = ", ".join(f"'{name}'" for name in odd)
        raise AbwError(f"edges have attributes: {', '.join(odd)}", hint=_EDGES.format(names=shown))


def _links(ends: Mapping[tuple[str, str, str], Any]) -> dict[str, Any]:
    """Pairs by link and kinds as `Instances.from_arrays` takes them."""
    links: dict[str, list[tuple[str, str, Array]]] = {}
    for (name, source, target), pairs in ends.items():
        index = np.asarray(pairs, np.int64).reshape(-1, 2).T
        links.setdefault(name, []).append((source, target, index))
    return links


def _stores(data: Any, types: str, alone: Any) -> Iterator[tuple[Any, Mapping[str, Any]]]:  # noqa: ANN401
    """The node or edge types of PyTorch Geometric's data, each with what it holds."""
    for key in getattr(data, types, [alone]):
        store = data[key] if hasattr(data, types) else data
        names = store.keys() if callable(store.keys) else store.keys
        yield key, {name: store[name] for name in names}


def _rows(store: Mapping[str, Any], of: str) -> int:
    """How many nodes a store has: what it says, else the rows of the first of its usual names."""
    if isinstance(count := store.get("num_nodes"), int):
        return count
    for name in ("x", "pos", "batch", "z"):
        if name in store:
            return len(_array(store[name]))
    raise AbwError(f"how many vertices of kind '{of}' there are is not said", hint="set num_nodes, or x")


def _columns(
    of: str,
    data: Any,  # noqa: ANN401
    store: Mapping[str, Any],
    rows: int,
    marker: str,
    ignore: Collection[str],
) -> dict[str, Array]:
    """What has a row a node or edge, as `marker` says (`is_node_attr`, `is_edge_attr`).

    What does not say so itself (data of edge types, other objects) has as many rows.
    """
    found = {}
    for name, value in store.items():
        if name in ignore or not (hasattr(value, "shape") or isinstance(value, list)):
            continue
        if hasattr(data, "node_types"):
            belongs = True
        elif hasattr(data, marker):
            belongs = getattr(data, marker)(name)
        else:
            belongs = name.startswith("edge_") == (marker == "is_edge_attr")
        size = (
            value.shape[0] if getattr(value, "shape", ()) else len(value) if isinstance(value, list) else -1
        )
        if belongs and size == rows:
            array = column(of, name, _here(value))
            if array.ndim in (1, 2):
                found[name] = array
    return found


def _array(value: Any) -> Array:  # noqa: ANN401 (a tensor, an array, a list)
    return np.asarray(_here(value))


def _here(value: Any) -> Any:  # noqa: ANN401
    """A tensor in the machine's memory, without what it was computed from; else the value itself."""
    return value.detach().cpu() if hasattr(value, "detach") else value


def _append(nodes: dict[str, dict[str, list[Array]]], of: str, columns: Mapping[str, Array]) -> None:
    known = nodes.setdefault(of, {name: [] for name in columns})
    if known.keys() != columns.keys():
        odd = sorted(known.keys() ^ columns.keys())
        message = f"'{odd[0]}' is not on all vertices of kind '{of}'"
        raise AbwError(message, hint=f"give it to all, or ignore=['{odd[0]}']")
    for name, array in columns.items():
        first = known[name][0] if known[name] else array
        if (first.dtype.kind == "U", first.shape[1:]) != (array.dtype.kind == "U", array.shape[1:]):
            shown = f"{first.dtype} {list(first.shape)}, and then {array.dtype} {list(array.shape)}"
            raise AbwError(f"field '{name}' of kind '{of}' is {shown}", hint="one field, one type and size")
        known[name].append(array)
