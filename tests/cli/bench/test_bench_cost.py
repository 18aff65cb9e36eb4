"""`abw bench cost`: predicted and measured costs, where the fewest batches are not the cheapest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.cli.bench.app import SPECS, Shown, SpecsDir, bench
from abw.core.policy.cost import Cost, cost_of
from abw.core.policy.registry import get_policy
from abw.core.policy.schedule import Schedule
from abw.core.run.workload import load_workload, open_model
from abw.core.spec.load import Overrides
from tests.cli.conftest import Abw


@pytest.mark.parametrize(
    ("dear", "cheapest"), [(1.0, "abbac"), (1.9, "abbac"), (2.1, "bbabbc"), (8.0, "bbabbc")]
)
def test_the_cheapest_schedule_depends_on_the_launches(root: Path, dear: float, cheapest: str) -> None:
    workload = load_workload(open_model(root / "specs/uneven.yaml", Overrides(dims={"hidden": 8})), "cell")
    dag = workload.graph(0, 2).dag
    cost = Cost(np.array([dear, 1.0, 1.0]), np.array([3.0, 0.5, 0.25]), np.ones(3, np.int32))

    def types(schedule: Schedule) -> str:
        return "".join(dag.types[t] for t in schedule.type)

    assert types(get_policy("search").schedule(dag)) == "abbac"
    found = get_policy("search", cost=cost).schedule(dag)
    assert types(found) == cheapest
    # two nodes of a, four of b, two of c
    launches = cheapest.count("a") * dear + cheapest.count("b") + cheapest.count("c")
    assert cost_of(found, cost) == pytest.approx(launches + 2 * 3 + 4 * 0.5 + 2 * 0.25)


def test_the_specs_that_ship_are_found_where_the_folder_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[Path] = []

    def probe(specs: SpecsDir = SPECS) -> Shown:
        seen.append(specs)
        yield {}

    command = bench(probe)
    command(specs=SPECS, as_json=True)
    assert (seen[0] / "uneven.yaml").is_file()
    (tmp_path / "specs").mkdir()
    command(specs=SPECS, as_json=True)
    assert seen[1] == SPECS


@pytest.mark.parametrize("executor", ["cpu", "blas"])
def test_the_report_has_both(abw: Abw, executor: str) -> None:
    report = abw("bench", "cost", "--hidden", "256", "--runs", "3", "--executor", executor, "--json").json()
    assert [t["type"] for t in report["types"]] == ["a", "b", "c"]
    rows = {(r["policy"], r["cost"]): r for r in report["rows"]}
    assert rows["search", False]["batches"] == 5
    assert rows["search", True]["predicted"] <= rows["search", False]["predicted"]
    assert all(r["measured"] > 0 for r in report["rows"])
    assert "search, by cost" in abw("bench", "cost", "--hidden", "16", "--runs", "1").out
