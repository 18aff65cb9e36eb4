"""Batching by a finite state machine that was learned (paper, 2.2): the policy, how it runs, its file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.errors import AbwError
from abw.core.graph.bounds import path_lengths
from abw.core.graph.dag import Dag
from abw.core.jit import inner, njit
from abw.core.policy.critical import Paths, begin_paths, no_paths, start_paths, step_paths
from abw.core.policy.frontier import (
    Batches,
    Edges,
    Frontier,
    edges,
    enqueue,
    execute,
    record,
    room,
    start,
    to_schedule,
)
from abw.core.policy.schedule import Schedule
from abw.core.policy.states import (
    CRITICAL,
    ENCODINGS,
    Encoding,
    Table,
    add,
    find,
    new_state,
    new_table,
    observe,
    symbol_names,
)

Ints = NDArray[np.int32]
FORMAT, VERSION = "abw-policy", 1


@dataclass(frozen=True, slots=True)
class Training:
    """How a policy was learned. `curve` are pairs (trials so far, batches of the greedy policy then)."""

    nodes: int
    lower_bound: int
    batches: int
    trials: int
    seed: int
    reward: str
    hyper: dict[str, float]
    curve: tuple[tuple[int, int], ...]
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class FsmPolicy:
    """In each state, the type of the next batch: `action` (S,) for the states of `table`.

    In a state that training never met, the type goes next of which the largest part of the remaining nodes
    is ready (the first of equals); `Schedule.unseen` counts these steps.
    """

    types: tuple[str, ...]
    encoding: Encoding
    phases: int
    table: Table
    action: Ints
    training: Training

    def schedule(self, dag: Dag) -> Schedule:
        """O(n + m + batches * types). Raises AbwError where the graph's types are not the policy's."""
        self.require(dag.types)
        return follow(dag, self.table, self.action, self.encoding, self.phases)

    def visited(self, dag: Dag, schedule: Schedule) -> list[tuple[str, ...]]:
        """The state before each batch of a schedule, whoever made it. For pictures: slow."""
        names, flow, frontier = symbol_names(self.types, self.phases), edges(dag), start(dag)
        paths, kind = start_paths(dag, frontier), ENCODINGS.index(self.encoding)
        state = new_state(dag)
        found = []
        for a in schedule.type.tolist():
            length = observe(kind, self.phases, frontier, paths, state)
            found.append(tuple(names[k] for k in state[:length]))
            execute(flow, frontier, a)
            step_paths(frontier, paths, a)
        return found

    def require(self, types: tuple[str, ...]) -> None:
        """Raise AbwError, saying what differs, unless the policy was learned for these types."""
        if types != self.types:
            raise AbwError(
                f"the policy was learned for other types: {_difference(self.types, types)}",
                hint="learn one for this model: `abw learn SPEC`",
            )

    @property
    def states(self) -> list[tuple[str, ...]]:
        """Each state as the names of its symbols (see `symbol_names`), in the encoding's order."""
        names = symbol_names(self.types, self.phases)
        ptr, symbols = self.table.ptr.tolist(), self.table.symbols.tolist()
        size = int(self.table.size[0])
        return [tuple(names[k] for k in symbols[ptr[s] : ptr[s + 1]]) for s in range(size)]

    def to_json(self, origin: Mapping[str, object] | None = None) -> str:
        """A document that a person can read, one state a line; `from_json` gives the same policy back.

        `origin`: what else the document shall say, of where the policy comes from.
        """
        head = {
            "format": FORMAT,
            "version": VERSION,
            "encoding": self.encoding,
            "phases": self.phases,
            "types": self.types,
            **(origin or {}),
            "training": asdict(self.training),
        }
        lines = []
        for s, names in enumerate(self.states):
            tried = [t for t in range(len(self.types)) if self.table.visits[s, t] > 0]
            state = {
                "state": names,
                "action": self.types[self.action[s]],
                "q": {self.types[t]: float(self.table.value[s, t]) for t in tried},
                "visits": {self.types[t]: int(self.table.visits[s, t]) for t in tried},
            }
            lines.append("    " + json.dumps(state, ensure_ascii=False))
        fields = [f'  "{key}": {json.dumps(value, ensure_ascii=False)}' for key, value in head.items()]
        fields.append('  "states": [\n' + ",\n".join(lines) + "\n  ]")
        return "{\n" + ",\n".join(fields) + "\n}\n"

    @staticmethod
    def from_json(text: str) -> FsmPolicy:
        """The policy that `to_json` wrote, whatever its origin.

        Raises AbwError for anything else, saying what is wrong.
        """
        try:
            document = json.loads(text)
        except ValueError as error:
            raise AbwError(f"not a policy: {error}") from None
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise AbwError(f'not a policy: it lacks "format": "{FORMAT}"')
        if document.get("version") != VERSION:
            raise AbwError(
                f"the policy has version {document.get('version')}, this abw reads version {VERSION}",
                hint="learn it anew",
            )
        try:
            return _from_document(document)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise AbwError(f"the policy is damaged: {type(error).__name__}: {error}") from None


def _difference(ours: tuple[str, ...], theirs: tuple[str, ...]) -> str:
    """In words, how the types of a policy and of a graph differ."""
    parts = []
    if lacking := [t for t in ours if t not in theirs]:
        parts.append(f"the model has no {', '.join(lacking)}")
    if new := [t for t in theirs if t not in ours]:
        parts.append(f"the policy does not know {', '.join(new)}")
    return "; ".join(parts) or f"their order was {', '.join(ours)}, it is {', '.join(theirs)}"


def _from_document(document: dict[str, Any]) -> FsmPolicy:
    types = tuple(document["types"])
    phases = int(document["phases"])
    code = {name: k for k, name in enumerate(symbol_names(types, phases))}
    if document["encoding"] not in ENCODINGS:
        raise ValueError(f"no encoding is called {document['encoding']!r}")
    states = document["states"]
    table = new_table(len(types), len(states), sum(len(entry["state"]) for entry in states))
    action = np.empty(len(states), np.int32)
    for s, entry in enumerate(states):
        symbols = np.array([code[name] for name in entry["state"]], np.int32)
        found = find(table, symbols, len(symbols))
        if found >= 0:
            raise ValueError(f"the state {entry['state']} occurs twice")
        add(table, symbols, len(symbols), -1 - found)
        action[s] = types.index(entry["action"])
        if entry["action"] not in entry["state"]:
            raise ValueError(f"the action {entry['action']} is not on the frontier {entry['state']}")
        for name, q in entry["q"].items():
            table.value[s, code[name]] = q
            table.visits[s, code[name]] = entry["visits"][name]
    training = dict(document["training"])
    training["curve"] = tuple((int(trial), int(batches)) for trial, batches in training["curve"])
    return FsmPolicy(types, document["encoding"], phases, table, action, Training(**training))


def paths_for(encoding: Encoding, dag: Dag, frontier: Frontier) -> Paths:
    """The longest paths, for the encoding that asks for them."""
    return start_paths(dag, frontier) if encoding == "critical" else no_paths()


def follow(dag: Dag, table: Table, action: Ints, encoding: Encoding, phases: int) -> Schedule:
    """The schedule of a policy (see `FsmPolicy.schedule`) for a dag of its types."""
    n, types, batches = len(dag), len(dag.types), room(dag)
    paths = path_lengths(dag) if encoding == "critical" else np.empty(0, np.int32)
    # plain tuples: numba takes a microsecond for each named one
    unseen = _run(
        (dag.type, dag.succ_ptr, dag.succ, dag.indegree),
        (*table,),
        action,
        (ENCODINGS.index(encoding), phases),
        paths,
        np.empty((2, n), np.int32),
        np.zeros((6, types), np.int32),
        new_state(dag),
        (*batches,),
    )
    return to_schedule(batches, unseen)


@njit
def _run(
    dag: tuple[Ints, Ints, Ints, Ints],
    given: tuple[Ints, Ints, Ints, NDArray[np.float64], Ints, Ints],
    action: Ints,
    kind: tuple[int, int],
    path_length: Ints,
    of_nodes: Ints,
    of_types: Ints,
    state: Ints,
    recorded: tuple[Ints, Ints, Ints, Ints],
) -> int:
    """Record the schedule of a policy; the number of its steps in states that are not in the table.

    `of_nodes` (2, n), `of_types` (6, T), of zeros, are room for the frontier and the paths from it.
    """
    type, ptr, succ, indegree = dag
    edges, table, batches = Edges(type, ptr, succ), Table(*given), Batches(*recorded)
    encoding, phases = kind
    frontier = Frontier(of_nodes[0], of_nodes[1], of_types[0], of_types[1], of_types[2])
    enqueue(type, indegree, frontier)
    paths = Paths(path_length, of_types[3], of_types[4], of_types[5])
    if encoding == CRITICAL:
        begin_paths(frontier, paths)
    done, unseen = 0, 0
    while done < len(edges.type):
        length = observe(encoding, phases, frontier, paths, state)
        s = find(table, state, length)
        if s < 0:
            unseen += 1
        a = int(action[s]) if s >= 0 else _readiest(frontier)
        done = record(batches, frontier, a)
        execute(edges, frontier, a)
        if encoding == CRITICAL:
            step_paths(frontier, paths, a)
    return unseen


@inner
def _readiest(frontier: Frontier) -> int:
    """The type of which the largest part of the remaining nodes is ready."""
    best, largest = -1, 0.0
    for t in range(len(frontier.head)):
        ready = frontier.tail[t] - frontier.head[t]
        if ready > 0:
            remaining = frontier.end[t] - frontier.head[t]
            if ready / remaining > largest:
                best, largest = t, ready / remaining
    return best
