"""Batching by a finite state machine that was learned (paper, 2.2): the policy, how it runs, its file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.graph.bounds import chains, path_lengths
from abw.core.graph.dag import Dag
from abw.core.jit.decorators import njit
from abw.core.policy.learned.states import (
    CRITICAL,
    ENCODINGS,
    Encoding,
    Table,
    find,
    new_state,
    observe,
    symbol_names,
)
from abw.core.policy.rules.critical import Paths, begin_paths, no_paths, start_paths, step_paths
from abw.core.policy.rules.frontier import (
    Batches,
    Edges,
    Frontier,
    arrays,
    edges,
    enqueue,
    execute,
    record,
    room,
    space,
    start,
    to_schedule,
)
from abw.core.policy.rules.remaining import Remaining, start_remaining, step_remaining
from abw.core.policy.rules.weight import (
    WEIGHT,
    Weights,
    freest,
    no_weights,
    note_weights,
    nothing_remains,
    spend,
    weights,
)
from abw.core.policy.schedule import Schedule

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

    In a state that training never met, the rule `Weight` says what goes next; `Schedule.unseen` counts these
    steps.
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
        paths, kind = start_paths(frontier, path_lengths(dag)), ENCODINGS.index(self.encoding)
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
        require_types(self.types, types)

    @property
    def states(self) -> list[tuple[str, ...]]:
        """Each state as the names of its symbols (see `symbol_names`), in the encoding's order."""
        names = symbol_names(self.types, self.phases)
        ptr, symbols = self.table.ptr.tolist(), self.table.symbols.tolist()
        size = int(self.table.size[0])
        return [tuple(names[k] for k in symbols[ptr[s] : ptr[s + 1]]) for s in range(size)]

    def to_json(self, origin: Mapping[str, object] | None = None) -> str:
        """A document that a person can read, one state a line; `policy_of` gives the same policy back.

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


def require_types(ours: tuple[str, ...], theirs: tuple[str, ...]) -> None:
    """Raise AbwError, saying what differs, unless a policy's types are a graph's."""
    if ours != theirs:
        raise AbwError(
            f"the policy was learned for other types: {_difference(ours, theirs)}",
            hint="learn one for this model: `abw learn SPEC`",
        )


def _difference(ours: tuple[str, ...], theirs: tuple[str, ...]) -> str:
    """In words, how the types of a policy and of a graph differ."""
    parts = []
    if lacking := [t for t in ours if t not in theirs]:
        parts.append(f"the model has no {', '.join(lacking)}")
    if new := [t for t in theirs if t not in ours]:
        parts.append(f"the policy does not know {', '.join(new)}")
    return "; ".join(parts) or f"their order was {', '.join(ours)}, it is {', '.join(theirs)}"


def paths_for(encoding: Encoding, dag: Dag, frontier: Frontier) -> Paths:
    """The longest paths, for the encoding that asks for them."""
    return start_paths(frontier, path_lengths(dag)) if encoding == "critical" else no_paths()


def follow(dag: Dag, table: Table, action: Ints, encoding: Encoding, phases: int) -> Schedule:
    """The schedule of a policy (see `FsmPolicy.schedule`) for a dag of its types."""
    length = path_lengths(dag) if encoding == "critical" else np.empty(0, np.int32)
    given = (arrays(dag), (*table,), action, (ENCODINGS.index(encoding), phases), length)
    batches = room(dag)
    unseen = _run(*given, *space(dag), new_state(dag), (*batches,), ((*nothing_remains(),), (*no_weights(),)))
    if unseen < 0:
        # from the beginning once more: only now is it worth to know what the rule asks for
        before, (length, height) = start(dag), chains(dag)
        rule: Rule = (*start_remaining(dag, before, height),), (*weights(dag, before, length),)
        unseen = _run(*given, *space(dag), new_state(dag), (*batches,), rule)
    return to_schedule(batches, int(unseen))


# What the rule for unseen states asks for: the fields of `Remaining` and of `Weights`.
Rule = tuple[tuple[Ints, ...], tuple[Any, ...]]


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
    rule: Rule,
) -> int:
    """Record the schedule of a policy; how many of its steps were in states that are not in the table.

    For room see `space`. -1 at the first unseen state where `rule` is empty.
    """
    type, ptr, succ, indegree = dag
    edges, table, batches = Edges(type, ptr, succ), Table(*given), Batches(*recorded)
    encoding, phases = kind
    frontier = Frontier(of_nodes[0], of_nodes[1], of_types[0], of_types[1], of_types[2])
    paths = Paths(path_length, of_types[3], of_types[4], of_types[5])
    remaining, weights = Remaining(*rule[0]), Weights(*rule[1])
    done, unseen, ruled = 0, 0, len(weights.ready) > 0
    batches.size[0] = 0
    enqueue(type, indegree, frontier)
    if encoding == CRITICAL:
        begin_paths(frontier, paths)
    while done < len(edges.type):
        length = observe(encoding, phases, frontier, paths, state)
        s = find(table, state, length)
        if s < 0 and not ruled:
            return -1
        if ruled:
            note_weights(frontier, weights, WEIGHT)
        if s >= 0:
            a = int(action[s])
        else:
            unseen += 1
            a = freest(frontier, remaining, weights)
        done = record(batches, frontier, a)
        execute(edges, frontier, a)
        if encoding == CRITICAL:
            step_paths(frontier, paths, a)
        if ruled:
            spend(weights, a)
            step_remaining(frontier, remaining, a)
    return unseen
