"""What benches are made of: workloads, systems, limits, processes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import no_type_check

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.bench.executors import cpu
from abw.bench.executors.contenders import refuse_different
from abw.bench.executors.cpu import least_seconds
from abw.bench.graphs.layout import boundary
from abw.bench.systems import STEPS, System, chosen_cases, preset, side_by_side
from abw.bench.whole import cold
from abw.bench.whole.memory import TRAININGS
from abw.bench.workloads import CASES, case, mini_batch
from abw.core.base.errors import AbwError
from abw.core.plan.counts import programs_of
from abw.core.plan.plan import plan
from abw.core.run.footprint import packed_bytes
from abw.core.run.workload import open_model
from abw.core.spec.load import Overrides
from tests.bench.conftest import by_table
from tests.core.exec.builder import random_graph, random_network, random_schedule


class Fixed:
    """A contender with given outputs."""

    def __init__(self, value: float) -> None:
        self.value = value

    def run(self) -> None:
        """Nothing to compute."""

    def outputs(self) -> np.ndarray:
        return np.array([self.value])


def test_other_outputs_are_refused() -> None:
    refuse_different({"a": Fixed(1.0), "b": Fixed(1.00001)}, "a", 64)
    with pytest.raises(AbwError, match=r"outputs of b and a differ by 1\.0e"):
        refuse_different({"a": Fixed(1.0), "b": Fixed(1.001)}, "a", 64)


def test_products_take_no_less_than_reading_weights_for_each_batch(
    data: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, _ = mini_batch("TreeLSTM", root / "specs", data, 4, 16)
    monkeypatch.setattr(cpu, "read_seconds", lambda size: size * 1e-9)
    slow, quick = least_seconds(planned, 1.0), least_seconds(planned, 1e18)
    assert slow == pytest.approx(planned.product_flops)
    packed = packed_bytes(planned.graph.network)
    assert quick == pytest.approx(1e-9 * sum(packed[t] for t in planned.schedule.type.tolist()))


def test_a_system_runs_the_mini_batches_it_is_given(root: Path, data: Path) -> None:
    system = System(case("TreeLSTM"), preset("abw"), root / "specs", data, 8, 3, 4)
    taken = system.run()
    assert taken.instances == 12
    assert taken.seconds.keys() == set(STEPS)
    assert taken.total == pytest.approx(sum(taken.seconds.values()))
    assert taken.instances_per_second * taken.total == pytest.approx(12)
    again = side_by_side({"one": system, "two": system}, 3)
    assert all(t.batches == taken.batches and t.launches == taken.launches for t in again.values())


def test_a_workload_that_is_none() -> None:
    assert chosen_cases(None) == CASES
    with pytest.raises(AbwError, match="no workload is called 'TreeLSTMs'") as raised:
        chosen_cases("MV-RNN,TreeLSTMs")
    assert "TreeLSTM" in (raised.value.hint or "")


def test_specs_of_trainings_are_whole(root: Path, tmp_path: Path) -> None:
    for part in ("cells", "data"):
        shutil.copytree(root / "specs" / part, tmp_path / part)
    found = {t.name: open_model(t.write(root / "specs", tmp_path), Overrides()) for t in TRAININGS}
    optimizers = {name: model.training and model.training.optimizer.name for name, model in found.items()}
    expected = {"sst": "adagrad", "sst-sgd": "sgd", "ner": "adam", "bilstm": "adam", "seq2seq": "adam"}
    assert optimizers == expected
    assert found["seq2seq"].growth is not None


@given(st.integers(0, 2**32 - 1))
def test_boundaries_are_the_plans_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, random_network(rng), int(rng.integers(1, 20)))
    planned = plan(graph, random_schedule(rng, graph))
    copied = boundary(planned, "planned")
    copies = sum(int(programs_of(graph.network).copies[t]) for t in planned.schedule.type.tolist())
    # apart from copies between a cell's own variables, these are all the memory kernels there are
    assert copied.gathers + copied.moved == planned.counts.memory_kernels - copies
    assert copied.inside <= copies


@pytest.mark.parametrize("name", ["TreeLSTM", "TreeGRU", "MV-RNN", "LSTM-NMT", "LatticeLSTM"])
def test_planning_leaves_no_copies_within_cells(name: str, root: Path, data: Path) -> None:
    planned, _ = mini_batch(name, root / "specs", data, 4, 64)
    before, after = boundary(planned, "declared"), boundary(planned, "planned")
    assert before.inside > after.inside == 0
    assert before.moved == 0
    assert after.gathers == before.gathers
    assert after.bytes < before.bytes
    assert after.kernels <= before.kernels


WRITES = """
import os, pathlib, time
folder = pathlib.Path(os.environ["NUMBA_CACHE_DIR"])
assert folder.parent == pathlib.Path(os.environ["ABW_HOME"]).parent
if not folder.exists():
    folder.mkdir()
    time.sleep(0.2)
"""
LISTS = 'print(\'[{"function": "a", "seconds": 1}, {"function": "b", "seconds": 2}]\')'


def test_cold_and_warm_runs_share_caches_and_pairs_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold, "RUN", WRITES)
    monkeypatch.setattr(cold, "_LISTED", LISTS)
    found = by_table(cold.cold(Path("x.yaml"), 2, 1))
    assert [row["caches"] for row in found["abw run"]] == ["nothing compiled", "the second time"] * 2
    assert all(row["taken_seconds"] > 0.2 for row in found["abw run"][::2])
    compiled = [(row["function"], row["taken_seconds"]) for row in found["compiled on one core"]]
    assert compiled == [("b", 2), ("all 2", 3)]


def test_a_run_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold, "RUN", "raise SystemExit('no such thing')")
    monkeypatch.setattr(cold, "_LISTED", LISTS)
    with pytest.raises(AbwError, match="no such thing"):
        list(cold.cold(Path("x.yaml"), 1, 1))


@no_type_check
def test_compiles_are_listed_without_their_callees() -> None:
    @numba.njit
    def called(x: int) -> int:
        return x + 1

    @numba.njit
    def calling(x: int) -> int:
        return called(x) * 2

    with cold.listed_compiles() as rows:
        assert calling(3) == 8
        assert calling(4) == 10
    names = [row["function"].rpartition(".")[2] for row in rows]
    assert (names.count("called"), names.count("calling")) == (1, 1)
    assert names.index("called") < names.index("calling")
    assert all(row["seconds"] > 0 for row in rows)
