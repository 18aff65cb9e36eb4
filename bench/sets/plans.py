"""Query plans as a learned optimiser scores them: trees of scans and joins with features at each node.

A query joins `TABLES` tables along a random tree of join conditions and two more of them. Candidates are
enumerated bottom-up (Selinger et al., 1979), met by a best-first search as Neo's (Marcus et al., 2019), or
drawn at random. Costs are made up: rows read, sorted and hashed.
"""

from __future__ import annotations

import heapq
import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

TABLES, OPERATORS, SCANS = 8, 3, 2
# Candidates of one query.
CANDIDATES = 500
# The numbers at each node: operator, tables, logarithms of rows and cost, join conditions.
FEATURES = 24

SPEC = """\
model: plans
dims: {hidden: 64, features: 24, shown: 32}
data: {format: json, path: DATA, batch: 64}
cells:
  show:
    {dims: [features, shown], inputs: {f: features}, params: {W: [shown, features], b: shown},
     equations: "y = relu(W @ f + b)", outputs: {y: y}}
  scan:
    dims: [shown, hidden]
    inputs: {x: shown}
    params:
      {Wi: [hidden, shown], Wo: [hidden, shown], Wu: [hidden, shown], bi: hidden, bo: hidden, bu: hidden}
    equations: |
      c = sigmoid(Wi @ x + bi) * tanh(Wu @ x + bu)
      h = sigmoid(Wo @ x + bo) * tanh(c)
    outputs: {h: h, c: c}
  join:
    dims: [shown, hidden]
    inputs: {x: shown, hl: hidden, cl: hidden, hr: hidden, cr: hidden}
    params:
      W: [5 * hidden, shown]
      L: [5 * hidden, hidden]
      R: [5 * hidden, hidden]
      b: 5 * hidden
    equations: |
      g = W @ x + L @ hl + R @ hr + b
      i = sigmoid(g[0:hidden])
      l = sigmoid(g[hidden:2 * hidden])
      r = sigmoid(g[2 * hidden:3 * hidden])
      c = i * tanh(g[4 * hidden:5 * hidden]) + l * cl + r * cr
      h = sigmoid(g[3 * hidden:4 * hidden]) * tanh(c)
    outputs: {h: h, c: c}
  price:
    {dims: [hidden], inputs: {h: hidden}, params: {W: [hidden, hidden], b: hidden, w: [1, hidden]},
     equations: "y = w @ relu(W @ h + b)", outputs: {y: y}}
types:
  show-scan: {per: scan, cell: show, params: show-join, inputs: {f: f}}
  show-join: {per: join, cell: show, inputs: {f: f}}
  scan: {per: scan, cell: scan, inputs: {x: show-scan.y}}
  join: {per: join, cell: join, inputs: {x: show-join.y, hl: left.h, cl: left.c, hr: right.h, cr: right.c}}
  price: {per: join, where: top == 1, cell: price, inputs: {h: join.h}}
outputs: {cost: price.y}
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """A scan or join of the tables in the bit mask `tables`, by an operator, with its estimated `cost`."""

    tables: int
    operator: int
    cost: float
    inputs: tuple[Plan, ...] = ()


# What is built of a query so far: one plan, or several that are still to be joined.
Candidate = tuple[Plan, ...]


class Query:
    """A random query: rows of tables, shares of them that conditions keep, and join conditions."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.rows = [10 ** draw.uniform(2, 7) for _ in range(TABLES)]
        self.kept = [10 ** draw.uniform(-4, 0) for _ in range(TABLES)]
        self.joins = {(draw.randrange(t), t): 10 ** draw.uniform(-6, -2) for t in range(1, TABLES)}
        for _ in range(2):
            a, b = sorted(draw.sample(range(TABLES), 2))
            self.joins.setdefault((a, b), 10 ** draw.uniform(-6, -2))

    def size(self, tables: int) -> float:
        """The estimated rows of a join of these tables."""
        found = math.prod(self.rows[t] * self.kept[t] for t in range(TABLES) if tables >> t & 1)
        found *= math.prod(f for (a, b), f in self.joins.items() if tables >> a & 1 and tables >> b & 1)
        return max(found, 1.0)

    def joinable(self, left: int, right: int) -> bool:
        """Whether some condition joins two sets of tables."""
        ends = ((1 << a, 1 << b) for a, b in self.joins)
        return any((left & a and right & b) or (left & b and right & a) for a, b in ends)

    def scan(self, table: int, operator: int) -> Plan:
        """Read a table as a whole (operator 0), or by an index."""
        taken = 1.0 if operator == 0 else 0.05 + 2 * self.kept[table]
        return Plan(1 << table, operator, self.rows[table] * taken)

    def best_scans(self) -> Candidate:
        """The cheapest scan of each table."""
        scans = ([self.scan(t, operator) for operator in range(SCANS)] for t in range(TABLES))
        return tuple(min(some, key=lambda plan: plan.cost) for some in scans)

    def join(self, left: Plan, right: Plan, operator: int) -> Plan:
        """Join two plans by hashing, sorting, or looking up each row."""
        a, b = self.size(left.tables), self.size(right.tables)
        sort = a * math.log2(a + 2) + b * math.log2(b + 2)
        own = (a + b, sort, a * math.log2(b + 2))[operator] + self.size(left.tables | right.tables)
        return Plan(left.tables | right.tables, operator, left.cost + right.cost + own, (left, right))

    def features(self, plan: Plan) -> list[float]:
        """The `FEATURES` numbers of a node."""
        found, tables = [0.0] * FEATURES, plan.tables
        found[plan.operator + (SCANS if plan.inputs else 0)] = 1.0
        for t in range(TABLES):
            found[5 + t] = float(tables >> t & 1)
        found[13], found[14] = math.log10(self.size(tables)), math.log10(plan.cost)
        if not plan.inputs:
            found[15] = math.log10(self.kept[tables.bit_length() - 1])
        for place, (a, b) in enumerate(list(self.joins)[: FEATURES - 16], 16):
            found[place] = float(tables >> a & 1 and tables >> b & 1)
        return [round(number, 4) for number in found]


def drawn(query: Query) -> list[Candidate]:
    """Bushy plans drawn at random, operators too: the least that candidates can share."""
    found: list[Candidate] = []
    while len(found) < CANDIDATES:
        parts = [query.scan(t, query.draw.randrange(SCANS)) for t in range(TABLES)]
        while len(parts) > 1:
            a, b = query.draw.sample(parts, 2)
            if query.joinable(a.tables, b.tables):
                joined = query.join(a, b, query.draw.randrange(OPERATORS))
                parts = [part for part in parts if part is not a and part is not b] + [joined]
        found.append(tuple(parts))
    return found


def searched(query: Query) -> list[Candidate]:
    """The states that a best-first search scores: each joins two plans of the one that it came from.

    The score is the true cost, off by up to a fifth.
    """
    heap = [(0.0, 0, query.best_scans())]
    seen, found = set[Candidate](), list[Candidate]()
    while heap and len(found) < CANDIDATES:
        _, _, state = heapq.heappop(heap)
        for a, b in product(state, repeat=2):
            if a is b or not query.joinable(a.tables, b.tables):
                continue
            rest = [plan for plan in state if plan is not a and plan is not b]
            for operator in range(OPERATORS):
                made = tuple(sorted([*rest, query.join(a, b, operator)], key=lambda plan: plan.tables))
                if made not in seen:
                    seen.add(made)
                    found.append(made)
                    cost = math.log(sum(plan.cost for plan in made)) * query.draw.uniform(0.8, 1.2)
                    heapq.heappush(heap, (cost + 4 * len(made), len(found), made))
    return found[:CANDIDATES]


def enumerated(query: Query) -> list[Candidate]:
    """What dynamic programming compares: the best plans of two sets of tables, joined by each operator."""
    best = {plan.tables: plan for plan in query.best_scans()}
    found: list[Candidate] = []
    for size in range(2, TABLES + 1):
        made: dict[int, Plan] = {}
        for a, b in product(list(best.values()), repeat=2):
            both = a.tables | b.tables
            if a.tables & b.tables or both.bit_count() != size or not query.joinable(a.tables, b.tables):
                continue
            for operator in range(OPERATORS):
                plan = query.join(a, b, operator)
                found.append((plan,))
                if both not in made or plan.cost * query.draw.uniform(0.8, 1.2) < made[both].cost:
                    made[both] = plan
        best |= made
    if len(found) <= CANDIDATES:
        return found
    return [found[i] for i in sorted(query.draw.sample(range(len(found)), CANDIDATES))]


KINDS: dict[str, Callable[[Query], list[Candidate]]] = {
    "plans, random": drawn,
    "plans, best-first search": searched,
    "plans, dynamic programming": enumerated,
}


def instance(query: Query, name: str, candidate: Candidate) -> dict[str, Any]:
    """A candidate in abw's format json: a vertex for each scan and join, `top` 1 at the roots."""
    vertices: list[dict[str, Any]] = []
    left: list[list[int]] = []
    right: list[list[int]] = []

    def add(plan: Plan) -> int:
        below = [add(each) for each in plan.inputs]
        kind = "join" if below else "scan"
        vertices.append({"kind": kind, "f": query.features(plan), "top": 0})
        own = len(vertices) - 1
        if below:
            left.append([own, below[0]])
            right.append([own, below[1]])
        return own

    for plan in candidate:
        vertices[add(plan)]["top"] = 1
    return {"id": name, "vertices": vertices, "links": {"left": left, "right": right}}


def instances(kind: str, count: int, seed: int = 7) -> Iterator[dict[str, Any]]:
    """So many candidates of a kind, query after query."""
    draw, made = random.Random(seed), 0
    while made < count:
        query = Query(draw)
        for candidate in KINDS[kind](query)[: count - made]:
            yield instance(query, f"plan-{made}", candidate)
            made += 1


def write_plans(folder: Path, kind: str, count: int) -> Path:
    """Write so many plans of a kind, and a spec that prices them; returns the spec."""
    name = kind.replace(", ", "-").replace(" ", "-")
    lines = (json.dumps(each) + "\n" for each in instances(kind, count))
    (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    spec = folder / f"{name}.yaml"
    spec.write_text(SPEC.replace("DATA", f"{name}.jsonl"), encoding="utf-8")
    return spec
