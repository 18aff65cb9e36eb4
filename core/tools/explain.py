"""Why a schedule has so many batches: what `abw explain` says.

A type's longest remaining chain needs a batch for each of its nodes, so the lower bound on what remains is
the sum of these lengths (paper, A.3; `abw.core.graph.bounds`). A batch is free if it executes every node at
the head of such a chain of its type, the critical ones: the bound falls by one. Exactly as many batches are
free as the lower bound of the whole graph says. All others are what a schedule costs too much, and each of
them went ahead of critical nodes: the late ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.progress import Progress
from abw.core.exec.interface import Executed
from abw.core.graph.bounds import heights, lower_bound, tallest
from abw.core.graph.dag import Dag
from abw.core.graph.equal.consing import DedupMode
from abw.core.graph.fuse import fuse, fuse_network
from abw.core.graph.graph import Graph
from abw.core.graph.group import group_types
from abw.core.graph.growing.history.history import History, bound_by_rounds, of_distinct
from abw.core.ir.network import Granularity
from abw.core.policy.registry import get_policy
from abw.core.policy.schedule import Schedule
from abw.core.policy.tightbounds import partition_bound
from abw.core.run.hoisting import hoisted_types
from abw.core.run.learning import Choice, named_policy
from abw.core.run.minibatches import history_again
from abw.core.run.observing.trace import load_times
from abw.core.run.workload import grows_at_random
from abw.core.script.run import ProgramOptions, inspect_batch
from abw.core.spec.load import Overrides
from abw.core.store.checked import load_history
from abw.core.store.runs import StoredRun, in_range, load_batch, policy_name
from abw.core.tools.needed import batch_of, bytes_document, bytes_picture
from abw.core.tools.opened import open_batch
from abw.core.tools.rounds import growth_seconds, rounds_of

Ints = NDArray[np.int32]

# The policies whose number of batches is told beside the one explained.
OTHERS = ("agenda", "critical")

# So many batches are told that took longest.
LONGEST = 3

# So many late nodes of a batch are told, at most.
MOST_NODES = 8


@dataclass(frozen=True, slots=True)
class HeldBatch:
    """Batch `step`, which is not free, and what held it back.

    `late` (k,): the critical nodes of its type that are not in it, in the order of their batches.
    `waits_for`: the node behind which the last of them came, ready at `step` and passed over; the late node
    itself where it was ready and left out.
    """

    step: int
    late: Ints
    waits_for: int


@dataclass(frozen=True, slots=True)
class Causes:
    """`bound` (T,) of each type, `batch` (n,) of each node, and the batches that are not free, in order."""

    bound: Ints
    height: Ints
    batch: Ints
    held: tuple[HeldBatch, ...]


def causes(dag: Dag, schedule: Schedule) -> Causes:
    """Find what held back the batches of a schedule. O(n log n + m), and a walk back for each not free."""
    height = heights(dag)
    bound = tallest(dag, height)
    batch = batch_of(schedule, len(dag))
    order = np.lexsort((batch, height, dag.type)).astype(np.int32)
    level = (np.cumsum(bound) - bound)[dag.type] + height - 1  # types' heights one after the other
    begin = np.searchsorted(level[order], np.arange(bound.sum() + 1))
    ptr, producers = _producers(dag)
    held = []
    for a in range(len(dag.types)):
        own = np.flatnonzero(schedule.type == a)
        now = int(bound[: a + 1].sum())
        last = -1  # the batch that ends the highest level that remains
        for step in own.tolist():
            while last < step:
                now -= 1
                last = int(batch[order[begin[now + 1] - 1]])
            if last == step:
                continue
            nodes = order[begin[now] : begin[now + 1]]
            late = nodes[np.searchsorted(batch[nodes], step, side="right") :]
            held.append(HeldBatch(step, late, _waits_for(int(late[-1]), step, batch, ptr, producers)))
    return Causes(bound, height, batch, tuple(sorted(held, key=lambda h: h.step)))


def _producers(dag: Dag) -> tuple[NDArray[np.int64], Ints]:
    """The producers of node v: `producers[ptr[v]:ptr[v + 1]]`."""
    source = np.repeat(np.arange(len(dag), dtype=np.int32), np.diff(dag.succ_ptr))
    ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(dag.indegree, dtype=np.int64)])
    return ptr, source[np.argsort(dag.succ, kind="stable")]


def _waits_for(node: int, step: int, batch: Ints, ptr: NDArray[np.int64], producers: Ints) -> int:
    """From a late node back, each time to the producer executed last, as far as those not executed yet go."""
    while True:
        above = producers[ptr[node] : ptr[node + 1]]
        if not len(above):
            return node
        latest = int(above[np.argmax(batch[above])])
        if batch[latest] < step:
            return node
        node = latest


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A mini-batch with its schedule; `instance` and `vertex` (n,) as in `Graph`.

    `first` is its first instance's number in the data.
    """

    dag: Dag
    schedule: Schedule
    instance: Ints
    vertex: Ints
    first: int


def explain_spec(
    spec: Path,
    overrides: Overrides,
    policy: str,
    progress: Progress,
    *,
    encoding: Choice = "best",
    granularity: Granularity = "cell",
    number: int = 0,
    dedup: DedupMode = "auto",
) -> dict[str, Any]:
    """Schedule mini-batch `number` of a spec's data and explain it: the document of `abw explain --json`.

    A policy that must be learned is found or learned as `abw run` on the executor `cpu` does. Errors:
    SpecError, DataError, AbwError.
    """
    opened = open_batch(spec, overrides, policy, encoding, granularity, number, dedup, progress)
    model, graph, first, seed = opened.model, opened.graph, opened.first, overrides.seed or 0
    scheduled = Scheduled(graph.dag, opened.schedule, graph.instance, graph.vertex, first)
    growth, found = None, history_again(model, first, opened.last, seed)
    if found:
        found = of_distinct(found, graph) if granularity == "cell" else found
        nodes = found.node_round if granularity == "cell" else None  # operations have no rounds
        growth = _growth(found, graph.dag, nodes, first, growth_seconds(model, first, opened.last, seed))
    # before anything asks for the graph's edges, which take memory, too
    memory = bytes_document(bytes_picture(graph, scheduled.schedule), graph.dag.types)
    return _document(
        {"model": model.name, "policy": policy, "mini_batch": number, "mini_batches": opened.mini_batches},
        scheduled,
        passes=_passes(graph),
        memory=memory,
        growth=growth,
        random_weights=grows_at_random(model),
        hoisted=list(hoisted_types(model)),
    )


def explain_program(
    target: str, options: ProgramOptions, number: int = 0, policy: str | None = None
) -> dict[str, Any]:
    """Run mini-batch `number` of a program's data and explain its schedule, or that of another policy.

    Another policy is given the whole graph, as if nothing in it had waited for decisions; `decides` says that
    something has. Errors: AbwError.
    """
    found = inspect_batch(target, options, number)
    dag, schedule = found.graph.dag, found.schedule
    if policy not in (None, found.policy):
        schedule = named_policy(policy, dag.types).schedule(dag)
    scheduled = Scheduled(dag, schedule, found.graph.instance, found.graph.vertex, found.first)
    name, policy = found.program.name, policy or found.policy
    head = {"model": name, "policy": policy, "mini_batch": number, "mini_batches": found.mini_batches}
    return _document(head, scheduled, decides=found.pieces > 1)


def explain_run(run: StoredRun, number: int = 0, policy: str | None = None) -> dict[str, Any]:
    """Explain mini-batch `number` of a run on disk, as it was or scheduled anew by another policy.

    Errors: AbwError where it is not there or damaged, and for a policy that would have to be learned.
    """
    report = run.report
    dag, schedule, instance, vertex = load_batch(run, in_range(number, run.kept))
    own, size = policy_name(report), report["batch"]
    policy, times = policy or own, None
    if policy == own:
        times = load_times(run.path, number, schedule)
    else:
        schedule = named_policy(policy, dag.types).schedule(dag)
    scheduled = Scheduled(dag, schedule, instance, vertex, number * size)
    mini_batches, found = report["mini_batches"], load_history(run.path, number, len(dag), size)
    return _document(
        {"model": report["model"], "policy": policy, "mini_batch": number, "mini_batches": mini_batches},
        scheduled,
        time=times and batch_times(times, schedule, dag.types),
        growth=found and _growth(found, dag, found.node_round, scheduled.first, None),
        random_weights=found is not None and found.by_scores and not report.get("weights"),
        decides=bool((report.get("program") or {}).get("rounds")),
        hoisted=report.get("hoisted") or [],
    )


def _document(head: dict[str, Any], found: Scheduled, **known: object) -> dict[str, Any]:
    """The document of `abw explain --json`, with what is `known` beside the schedule."""
    rest = dict.fromkeys(("passes", "memory", "time", "growth"))
    flags = {"random_weights": False, "decides": False, "hoisted": []}
    return {"schema_version": 1, **head, **explanation(found), **rest, **flags, **known}


def _growth(
    found: History, dag: Dag, nodes: Ints | None, first: int, seconds: dict[str, Any] | None
) -> dict[str, Any]:
    """How a mini-batch grew; `nodes` (n,) is the round of each node, None where they have none."""
    bound = None if nodes is None else int(bound_by_rounds(dag, nodes).sum())
    return {**rounds_of(found, first), "bound_by_rounds": bound, "time": seconds}


def batch_times(found: Executed, schedule: Schedule, types: tuple[str, ...]) -> dict[str, Any]:
    """Sum up the seconds of a run's batches over all threads: by type, and of the longest ones."""
    taken = np.bincount(found.batch, found.end - found.start, len(schedule))
    by_type = np.bincount(schedule.type, taken, len(types))
    return {
        "seconds": float(found.end.max() - found.start.min()) if len(found.end) else 0.0,
        "threads": int(found.thread.max(initial=-1)) + 1,
        "types": [
            {"type": types[t], "seconds": float(by_type[t])} for t in np.argsort(-by_type, kind="stable")
        ],
        "longest": [
            {"step": int(b) + 1, "type": types[schedule.type[b]], "seconds": float(taken[b])}
            for b in np.argsort(-taken, kind="stable")[:LONGEST]
        ],
    }


def _passes(graph: Graph) -> dict[str, dict[str, int]]:
    """Count nodes and lower bound after each pass that would lower the bound."""
    changed = {
        "fuse": fuse(graph, fuse_network(graph.network)).dag,
        "group": group_types(graph.network).apply(graph.dag),
    }
    bound = int(lower_bound(graph.dag).sum())
    passes = {n: {"nodes": len(d), "lower_bound": int(lower_bound(d).sum())} for n, d in changed.items()}
    return {name: row for name, row in passes.items() if row["lower_bound"] < bound}


def explanation(found: Scheduled) -> dict[str, Any]:
    """Describe what a schedule costs and why, as one JSON document.

    Instances are counted from the data's first, vertices from the mini-batch's first; a node's `number` is
    its place among the nodes of its type in its instance, from 0.
    """
    dag, schedule = found.dag, found.schedule
    known = causes(dag, schedule)
    rows = np.diff(schedule.ptr)
    name_of = _names(found)
    alone = np.flatnonzero(rows == 1)
    held = [_held(found, known, h, name_of) for h in known.held]
    # the instances whose late nodes held back most batches first
    delayed = sorted(Counter(h["late"][-1]["instance"] for h in held).items(), key=lambda i: (-i[1], i[0]))
    types = []
    for t, name in enumerate(dag.types):
        mine = schedule.type == t
        batches, nodes = int(mine.sum()), int((dag.type == t).sum())
        longest = np.flatnonzero((dag.type == t) & (known.height == known.bound[t]))
        types.append(
            {
                "type": name,
                "nodes": nodes,
                "lower_bound": int(known.bound[t]),
                "batches": batches,
                "not_free": batches - int(known.bound[t]),
                "mean_rows": nodes / batches if batches else None,
                "alone": int(mine[alone].sum()),
                "longest_in": sorted({int(i) for i in found.instance[longest] + found.first})[:MOST_NODES],
            }
        )
    return {
        "nodes": len(dag),
        "batches": len(schedule),
        "lower_bound": int(known.bound.sum()),
        "tight_bound": _tight(dag, known.bound) if len(schedule) > known.bound.sum() else None,
        "types": types,
        "reasons": _reasons(held),
        "instances": [{"instance": i, "batches": count} for i, count in delayed],
        "held": held,
        "alone": [{"step": int(b), **name_of(int(schedule.nodes[schedule.ptr[b]]))} for b in alone],
        "others": {name: len(get_policy(name).schedule(dag)) for name in OTHERS},
    }


def _tight(dag: Dag, bound: Ints) -> dict[str, Any]:
    """Describe the bound by groups of types, with the most delayed group first."""
    found = partition_bound(dag)
    groups: list[dict[str, Any]] = [
        {
            "types": [dag.types[t] for t in group.types],
            "lower_bound": int(bound[list(group.types)].sum()),
            "at_least": group.at_least,
        }
        for group in found.groups
    ]
    groups.sort(key=lambda g: g["lower_bound"] - g["at_least"])
    return {"at_least": found.at_least, "groups": groups}


# A node's type, instance, number and vertex.
Names = Callable[[int], dict[str, Any]]


def _names(found: Scheduled) -> Names:
    """Name nodes as a person may look for them."""
    dag, instance = found.dag, found.instance
    order = np.lexsort((np.arange(len(dag)), dag.type, instance))
    change = (np.diff(instance[order], prepend=-1) != 0) | (np.diff(dag.type[order], prepend=-1) != 0)
    start = np.flatnonzero(change)
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order)) - np.repeat(start, np.diff(np.append(start, len(order))))

    def name(node: int) -> dict[str, Any]:
        return {
            "type": dag.types[dag.type[node]],
            "instance": int(instance[node]) + found.first,
            "number": int(number[node]),
            "vertex": int(found.vertex[node]),
        }

    return name


def _held(found: Scheduled, known: Causes, held: HeldBatch, name_of: Names) -> dict[str, Any]:
    schedule, step = found.schedule, held.step
    nodes = schedule.nodes[schedule.ptr[step] : schedule.ptr[step + 1]]
    level = known.height[held.late[0]]
    late = held.late[-MOST_NODES:].tolist()
    return {
        "step": step,
        "type": found.dag.types[schedule.type[step]],
        "rows": len(nodes),
        "critical": int((known.height[nodes] == level).sum()) + len(held.late),
        "late_nodes": len(held.late),
        "late": [{**name_of(v), "step": int(known.batch[v])} for v in late],
        "waits_for": {**name_of(held.waits_for), "step": int(known.batch[held.waits_for])},
        "was_ready": held.waits_for == late[-1],
    }


def _reasons(held: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The batches that are not free, by their type and what the last late node waited for; most first.

    `waits_for` is None where that node was ready and left out. `example` is a number into `held`.
    """
    groups: dict[tuple[str, str | None], list[int]] = {}
    for number, h in enumerate(held):
        key = h["type"], None if h["was_ready"] else h["waits_for"]["type"]
        groups.setdefault(key, []).append(number)
    ranked = sorted(groups.items(), key=lambda item: -len(item[1]))
    return [
        {"type": type, "waits_for": waits_for, "batches": len(numbers), "example": numbers[0]}
        for (type, waits_for), numbers in ranked
    ]
