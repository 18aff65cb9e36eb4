"""The policy that docs/extending.md shows as an example is one."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.policy.check import check_schedule
from abw.core.policy.schedule import Policy
from tests.core.policy import brute, graphs


@pytest.fixture(scope="module")
def largest(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Policy:
    page = (root / "docs" / "extending.md").read_text()
    shown = re.search(r"^<!-- test: policy -->\n```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert shown
    path = tmp_path_factory.mktemp("policy") / "largest.py"
    path.write_text(shown[1])
    spec = importlib.util.spec_from_file_location("largest", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Policy = module.Largest()
    return made


@given(st.integers(0, 10**6), st.integers(0, 24), st.integers(1, 6), st.floats(0, 0.5))
def test_the_largest_batch_goes_first(
    largest: Policy, seed: int, nodes: int, types: int, density: float
) -> None:
    dag = graphs.random_dag(seed, nodes, types, density)
    schedule = largest.schedule(dag)
    check_schedule(dag, schedule)
    expected = brute.greedy(dag, lambda _, front: min(front, key=lambda a: (-len(front[a]), a)))
    pairs = zip(schedule.ptr, schedule.ptr[1:], strict=False)
    found = [frozenset(schedule.nodes[i:j].tolist()) for i, j in pairs]
    assert list(zip(schedule.type.tolist(), found, strict=True)) == list(expected)
