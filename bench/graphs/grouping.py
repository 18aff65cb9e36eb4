"""Types that differ in their weights alone: batches of each, or launches of groups of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from abw.bench.graphs.families import Family, families
from abw.bench.options import Batch, Families, Hidden, Runs
from abw.bench.rows import Row, Rows
from abw.bench.timing import interleaved
from abw.core.exec.registry import get_executor
from abw.core.exec.trained import make_params
from abw.core.policy.launches import phases_of
from abw.core.policy.registry import get_policy
from abw.core.run.minibatches import planned
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides

FAMILIES = ("netlists, 60", "dependency trees, 40", "parse forests, 200")
POLICIES = ("depth", "critical", "linear")
EXECUTORS = ("cpu", "blas")


def grouping(hidden: Hidden = 64, batch: Batch = 64, runs: Runs = 9, named: Families = None) -> Rows:
    """Execute graphs of many types that differ only in their weights, with types grouped and not.

    Each type is a layer with its own weights over a node's number and the sum of its inputs (`--fuse`). For
    each policy: batches, launches, phases (steps between the barriers of executor cuda's kernel), and seconds
    to execute on one thread.
    """
    for family in families(batch, 0):
        if family.name in FAMILIES and (named is None or named in family.name):
            with TemporaryDirectory() as folder:
                spec = write_spec(family, Path(folder), hidden, batch)
                for grouped in (False, True):
                    yield from _rows(family.name, spec, grouped, batch, runs)


def write_spec(family: Family, folder: Path, hidden: int, batch: int) -> Path:
    """A spec of a family, and its data beside it."""
    number = {name: t for t, name in enumerate(family.types)}
    with (folder / "graphs.jsonl").open("w", encoding="utf-8") as file:
        for k, instance in enumerate(family.instances):
            vertices = [{"kind": "node", "of": number[t]} for t in instance.type]
            links = {"reads": [[v, u] for u, v in instance.edges]}
            file.write(json.dumps({"id": str(k), "vertices": vertices, "links": links}) + "\n")
    layer = {
        "dims": ["hidden"],
        "inputs": {"x": "hidden", "s": "hidden"},
        "params": {"W": ["hidden", "hidden"], "U": ["hidden", "hidden"], "b": "hidden"},
        "equations": "y = tanh(W @ x + U @ s + b)",
        "outputs": {"y": "y"},
    }
    inputs = {"x": "numbers[of]", "s": "pooled.s"}
    types = {
        f"t{t}": {"per": "node", "where": f"of == {t}", "cell": "layer", "inputs": inputs}
        for t in number.values()
    }
    model = {
        "model": "grouping",
        "dims": {"hidden": hidden},
        "data": {"format": "json", "path": "graphs.jsonl", "batch": batch},
        "tables": {"numbers": {"dim": "hidden", "rows": len(number)}},
        "cells": {"layer": layer},
        "types": {**types, "pooled": {"per": "node", "sum": {"s": "reads.y or zeros"}}},
        "outputs": {"y": "t0.y"},
    }
    path = folder / "grouping.yaml"
    path.write_text(json.dumps(model), encoding="utf-8")  # JSON is YAML
    return path


def _rows(name: str, spec: Path, grouped: bool, batch: int, runs: int) -> Rows:
    model = open_model(spec, Overrides())
    networks = open_networks(model, "cell", fuse=True, group=grouped)
    workload = open_workload(model, read_instances(model.data, None), networks)
    seconds: dict[str, dict[str, float]] = {}
    counts: dict[str, Sequence[int]] = {}
    for which in EXECUTORS:
        executor = get_executor(which)
        executor.prepare(networks.network, make_params(networks.cells, None, 0), 1)
        made = {p: planned(workload, get_policy(p), executor, 0, batch) for p in POLICIES}
        seconds[which] = interleaved({p: partial(executor.run, m.plan) for p, m in made.items()}, runs)
        for policy, one in made.items():
            schedule = one.plan.schedule
            counts[policy] = len(schedule), len(schedule.launches) - 1, phases_of(one.graph.dag, schedule)
    for policy in POLICIES:
        batches, launches, phases = counts[policy]
        yield Row(
            "",
            family=name,
            grouped="yes" if grouped else "no",
            policy=policy,
            batches=batches,
            launches=launches,
            phases=phases,
            **{f"{which}_seconds": seconds[which][policy] for which in EXECUTORS},
        )
