"""What a query waits for: Bao's network asked for the costs of plans, from EXPLAIN's text, beside PyTorch."""

from __future__ import annotations

import json
import random
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from abw.bench.options import SPECS, Runs, SpecsDir, numeric
from abw.bench.pytorch.install import torch_or_none
from abw.bench.pytorch.plans import Bao, nodes_of
from abw.bench.rows import Row, Rows
from abw.bench.timing import Work, interleaved, pooled
from abw.core.api import load
from abw.core.data.instances import Instances
from abw.core.data.read import read


def plans(
    specs: SpecsDir = SPECS,
    plans: Annotated[list[int], numeric("Plans in a call; repeatable.")] = [1, 5, 49],
    nodes: Annotated[int, numeric("Nodes of a plan.")] = 17,
    runs: Runs = 300,
) -> Rows:
    """Time warm calls from Python with plans as EXPLAIN (FORMAT JSON) writes them, on one thread.

    Plans are random left-deep joins of scans. `seconds` and `torch_seconds` are medians of wall time in
    turns, from texts to costs, the others of CPU time; `network_seconds` is PyTorch's network alone, on
    existing tensors. Both normalise each plan by itself. `node_ns` is the time to read a node from a file,
    with the fields that such a model reads.
    """
    yield from _reading(nodes, runs)
    model = load(specs / "plans" / "bao.yaml", threads=1)
    torch = torch_or_none()
    if torch is None:
        yield "PyTorch is not installed: abw alone is measured"
    network = Bao(torch, model.params) if torch else None
    for count in plans:
        drawn = random.Random(count)
        calls = [[json.dumps([{"Plan": plan(drawn, nodes)}]) for _ in range(count)] for _ in range(8)]
        work: dict[str, list[Work]] = {"": [partial(model, texts) for texts in calls]}
        if network:
            work["torch_"] = [partial(_without_gradient, torch, network, texts) for texts in calls]
            padded = (network.padded([nodes_of(json.loads(text)) for text in texts]) for texts in calls)
            work["network_"] = [partial(_tensors, torch, network, tensors) for tensors in padded]
        times = max(runs // len(calls), 2)
        wall = pooled(work, times, time.perf_counter, warming=1)
        cpu = pooled(work, times, time.process_time, warming=1)
        taken = {f"{name}seconds": median(found) for name, found in wall.items()}
        taken |= {f"{name}cpu_seconds": median(cpu[name]) for name in ("", "torch_") if name in cpu}
        yield Row("", plans=count, nodes=nodes, **taken)


def _reading(nodes: int, runs: int) -> Rows:
    """Time the reader on 20,000 nodes, with the fields and links that a cost model reads."""
    counts = ("Actual Rows", "Actual Loops", "Shared Hit Blocks", "Shared Read Blocks", "Temp Read Blocks")
    with tempfile.TemporaryDirectory() as folder:
        work: dict[str, partial[Instances]] = {}
        sizes = {}
        drawn = random.Random(1)
        for name, more, indent in (
            ("EXPLAIN", {}, None),
            ("EXPLAIN, indented", {}, 2),
            ("ANALYZE, BUFFERS", dict.fromkeys(counts, 1234), None),
            ("DuckDB", {}, None),
        ):
            made = ([{"Plan": plan(drawn, nodes, more)}] for _ in range(20_000 // nodes))
            given = ([_duckdb(each[0]["Plan"])] if name == "DuckDB" else each for each in made)
            texts = [json.dumps(each, indent=indent) for each in given]
            file = Path(folder) / f"{len(work)}.jsonl"
            file.write_text("".join(f"{text}\n" for text in texts))
            work[name], sizes[name] = partial(_read, file), file.stat().st_size
        count = nodes_in(work["EXPLAIN"]())
        for name, taken in interleaved(work, max(runs // 20, 2), warming=1).items():
            yield Row("reading", data=name, bytes_a_node=sizes[name] // count, node_ns=1e9 * taken / count)


def _read(file: Path) -> Instances:
    found = read(file, "plans")
    for name in ("total-cost", "plan-rows", "plan-width"):
        found.values[name]
    for name in ("left", "right"):
        found.links[name]
    found.fields["kind"]
    return found


def nodes_in(instances: Instances) -> int:
    """How many nodes plans have."""
    return len(instances.kind) - len(instances)


def _without_gradient(torch: Any, network: Bao, texts: list[str]) -> Any:  # noqa: ANN401
    with torch.inference_mode():
        return network(texts).numpy()


def _tensors(torch: Any, network: Bao, tensors: Any) -> Any:  # noqa: ANN401
    with torch.inference_mode():
        return network.costs(*tensors).numpy()


def plan(drawn: random.Random, nodes: int, more: dict[str, Any] | None = None) -> dict[str, Any]:
    """A left-deep plan of so many nodes (made odd): joins whose right sides are scans; `more`: other keys."""
    more = more or {}
    found = _scan(drawn) | more
    for _ in range((nodes - 1) // 2):
        kind = drawn.choice(["Hash Join", "Merge Join", "Nested Loop"])
        below = [
            found | {"Parent Relationship": "Outer"},
            _scan(drawn) | more | {"Parent Relationship": "Inner"},
        ]
        found = {"Node Type": kind, "Parallel Aware": False, "Async Capable": False, "Join Type": "Inner"}
        found |= _estimates(drawn) | more | {"Hash Cond": "(a.id = b.a_id)", "Plans": below}
    return found


def _duckdb(given: dict[str, Any]) -> dict[str, Any]:
    """A plan as DuckDB explains such a one."""
    more = {"Table": given["Relation Name"]} if "Relation Name" in given else {"Join Type": "INNER"}
    more |= {"Estimated Cardinality": str(given["Plan Rows"]), "Conditions": "id = b_id"}
    below = [_duckdb(each) for each in given.get("Plans", ())]
    name = "HASH_JOIN" if below else "SEQ_SCAN "
    return {"name": name, "children": below, "extra_info": more}


def _scan(drawn: random.Random) -> dict[str, Any]:
    kind = drawn.choice(["Seq Scan", "Index Scan"])
    table = drawn.choice(["book", "copy", "loan", "reader"])
    found = {"Node Type": kind, "Parallel Aware": False, "Async Capable": False, "Relation Name": table}
    return found | {"Alias": table} | _estimates(drawn) | {"Filter": "((year > 2000) AND (kind = 1))"}


def _estimates(drawn: random.Random) -> dict[str, Any]:
    cost = round(10 ** drawn.uniform(0, 6), 2)
    rows = int(10 ** drawn.uniform(0, 6))
    return {
        "Startup Cost": 0.43,
        "Total Cost": cost,
        "Plan Rows": rows,
        "Plan Width": drawn.randrange(4, 300),
    }
