"""Instances that benches make: plans join each table once, syntax trees have their vocabulary."""

from __future__ import annotations

import ast
import json
import random
from pathlib import Path

import pytest

from abw.bench.sets.plans import CANDIDATES, KINDS, TABLES, Query, instances, write_plans
from abw.bench.sets.syntax import functions, write_syntax


@pytest.mark.parametrize("kind", KINDS)
def test_plans(kind: str) -> None:
    """Each candidate joins sets of tables that have none in common; a query has no more than its share."""
    candidates = KINDS[kind](Query(random.Random(1)))
    assert 0 < len(candidates) <= CANDIDATES
    for candidate in candidates:
        assert sum(plan.tables.bit_count() for plan in candidate) <= TABLES
        plans = list(candidate)
        for plan in plans:
            plans += plan.inputs
            if plan.inputs:
                left, right = plan.inputs
                assert left.tables & right.tables == 0 and left.tables | right.tables == plan.tables
                assert plan.cost > left.cost + right.cost
            else:
                assert plan.tables.bit_count() == 1
    some = list(instances(kind, CANDIDATES + 1))
    assert some == list(instances(kind, CANDIDATES + 1)) and len(some) == CANDIDATES + 1


def test_files(tmp_path: Path) -> None:
    """As many instances as asked for, in which every link leads to a vertex."""
    specs = [write_plans(tmp_path, "plans, random", 3), write_syntax(tmp_path, 3)]
    for spec in specs:
        lines = [json.loads(line) for line in spec.with_suffix(".jsonl").read_text().splitlines()]
        assert len(lines) == 3
        for each in lines:
            ends = [end for pairs in each["links"].values() for pair in pairs for end in pair]
            assert max(ends) < len(each["vertices"])
    words = specs[1].with_suffix(".txt").read_text().splitlines()
    used = {vertex["word"] for each in lines for vertex in each["vertices"]}
    assert used == set(words[1:])
    assert isinstance(next(functions()), ast.FunctionDef | ast.AsyncFunctionDef)
