"""Writes plans.jsonl to specs/plans/data: `python tests/shipped/plans.py`.

Queries over an imagined library of eight tables, with plans as PostgreSQL's EXPLAIN (FORMAT JSON, ANALYZE)
writes them. What an optimizer estimates is off by an error that grows with each join, and the time follows
from the rows that there are. Nothing was run: the numbers are drawn.
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

# Table, rows, bytes a row, what it refers to.
TABLES: dict[str, tuple[int, int, tuple[str, ...]]] = {
    "branch": (40, 60, ()),
    "author": (9_000, 48, ()),
    "publisher": (700, 52, ()),
    "book": (60_000, 90, ("author", "publisher")),
    "copy": (150_000, 24, ("book", "branch")),
    "reader": (20_000, 70, ("branch",)),
    "loan": (700_000, 32, ("copy", "reader")),
    "review": (80_000, 120, ("book", "reader")),
}
PLANS = 48
Node = dict[str, Any]


def main() -> None:
    """Write the file."""
    drawn = random.Random(7)
    lines = [json.dumps([plan(drawn)], separators=(",", ":")) for _ in range(PLANS)]
    (Path(__file__).parents[2] / "specs/plans/data" / "plans.jsonl").write_text(
        "".join(line + "\n" for line in lines), "utf-8"
    )


def plan(drawn: random.Random) -> Node:
    """The plan of a query over connected tables."""
    tables = [drawn.choice([name for name, (_, _, refers) in TABLES.items() if refers])]
    for _ in range(drawn.randrange(4)):
        near = [b for a in tables for b in TABLES[a][2]] + [b for b in TABLES if {*tables} & {*TABLES[b][2]}]
        tables += [drawn.choice([b for b in near if b not in tables] or tables)]
    tables = list(dict.fromkeys(tables))
    node, rows, time = scan(drawn, tables[0])
    for name in tables[1:]:
        node, rows, time = join(drawn, (node, rows, time), scan(drawn, name))
    if drawn.random() < 0.5:
        node = made(
            "Sort", [node], node["Total Cost"] + 0.02 * rows, node["Plan Rows"], rows, time + 3e-4 * rows
        )
        time = node["Actual Total Time"]
    whole = made("Aggregate", [node], node["Total Cost"] + 0.01 * rows, 1, 1, time + 5e-5 * rows)
    return {"Plan": whole, "Planning Time": number(0.1 * len(tables)), "Execution Time": number(time + 0.05)}


def scan(drawn: random.Random, table: str) -> tuple[Node, float, float]:
    """Read a table, or a part of it: the node, the rows that there are, the time."""
    rows, width, _ = TABLES[table]
    part = 1.0 if drawn.random() < 0.3 else 10 ** drawn.uniform(-4, 0)
    there = max(1.0, round(rows * part))
    estimate = max(1.0, round(there * math.exp(drawn.gauss(0, 0.4))))
    if part < 0.05:
        node = made("Index Scan", [], 8 + 0.9 * estimate, estimate, there, 0.02 + 2e-3 * there)
        node["Index Name"] = f"{table}_pkey"
    else:
        node = made("Seq Scan", [], rows * width / 8192 + 0.01 * rows, estimate, there, 1e-4 * rows)
    node |= {"Relation Name": table, "Plan Width": width}
    return node, there, node["Actual Total Time"]


def join(
    drawn: random.Random, outer: tuple[Node, float, float], inner: tuple[Node, float, float]
) -> tuple[Node, float, float]:
    """Join what two nodes give: the cheapest way by the estimates."""
    (a, rows, time), (b, others, other_time) = outer, inner
    there = max(1.0, round(max(rows, others) * 10 ** drawn.uniform(-1.5, 0.3)))
    estimate = max(1.0, round(there * math.exp(drawn.gauss(0, 0.8))))
    both = a["Total Cost"] + b["Total Cost"]
    if a["Plan Rows"] < 40 and b["Node Type"] == "Index Scan":
        cost, spent = both + a["Plan Rows"] * 9, time + rows * (0.01 + other_time)
        node = made("Nested Loop", [a, b], cost, estimate, there, spent)
    elif a["Plan Rows"] > 100_000 and b["Plan Rows"] > 100_000:
        cost = both + 0.02 * (a["Plan Rows"] + b["Plan Rows"])
        node = made("Merge Join", [a, b], cost, estimate, there, time + other_time + 4e-4 * (rows + others))
    else:
        hashed = made("Hash", [b], b["Total Cost"], b["Plan Rows"], others, other_time + 1e-4 * others)
        cost = both + 0.012 * (a["Plan Rows"] + b["Plan Rows"])
        spent = time + hashed["Actual Total Time"] + 1.5e-4 * rows + 5e-5 * there
        node = made("Hash Join", [a, hashed], cost, estimate, there, spent)
    node["Join Type"] = "Inner"
    return node, there, node["Actual Total Time"]


def made(kind: str, children: list[Node], cost: float, estimate: float, rows: float, time: float) -> Node:
    """A node over others."""
    for child, place in zip(children, ("Outer", "Inner"), strict=False):
        child["Parent Relationship"] = place
    width = sum(child["Plan Width"] for child in children) if children else 8
    node: Node = {
        "Node Type": kind,
        "Total Cost": number(cost),
        "Plan Rows": int(estimate),
        "Plan Width": width,
    }
    node |= {"Actual Total Time": number(time), "Actual Rows": int(rows), "Actual Loops": 1}
    return node | ({"Plans": children} if children else {})


def number(value: float) -> float:
    """A number as EXPLAIN prints it."""
    return round(max(value, 0.001), 3)


if __name__ == "__main__":
    main()
