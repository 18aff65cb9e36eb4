"""What benches are made of: workloads, systems, limits, processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.bench import rates
from abw.bench.graphs.layout import boundary
from abw.bench.pytorch.levels import TorchLevels
from abw.bench.rates import least_seconds, read_seconds
from abw.bench.whole import cold
from abw.bench.whole.growth import GREEDY, Growing
from abw.bench.whole.memory import TRAININGS
from abw.bench.workloads import (
    CASES,
    STEPS,
    Case,
    System,
    case,
    chosen_cases,
    mini_batch,
    model_of,
    refuse_different,
    steps_of,
)
from abw.core.base.errors import AbwError
from abw.core.plan.counts import programs_of
from abw.core.plan.plan import plan
from abw.core.run.observing.footprint import packed_bytes
from abw.core.run.workload import open_model
from abw.core.spec.load import Overrides
from tests.bench.conftest import by_table
from tests.core.exec.builder import random_graph, random_network, random_schedule, reference
from tests.core.exec.corners import once
from tests.core.exec.test_operations import lanes


def test_other_outputs_are_refused() -> None:
    one = np.ones(2, np.float32)
    assert refuse_different(one * 1.00001, one, 1e-4, "b") == pytest.approx(1e-5, rel=0.1)
    for other in (one * 1.001, np.ones(3, np.float32), one * np.nan):
        with pytest.raises(AbwError, match="b: the outputs differ by"):
            refuse_different(other, one, 1e-4, "b")


def test_reading_more_memory_takes_longer() -> None:
    assert 0 < read_seconds(1 << 12) < read_seconds(1 << 24)


def test_products_take_no_less_than_reading_weights_for_each_batch(
    data: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, _ = mini_batch("TreeLSTM", root / "specs", data, 4, 16)
    monkeypatch.setattr(rates, "read_seconds", lambda size: size * 1e-9)
    slow, quick = least_seconds(planned, 1.0), least_seconds(planned, 1e18)
    assert slow == pytest.approx(planned.product_flops)
    packed = packed_bytes(planned.graph.network)
    assert quick == pytest.approx(1e-9 * sum(packed[t] for t in planned.schedule.type.tolist()))


def test_a_system_runs_the_mini_batches_it_is_given(root: Path, data: Path) -> None:
    model = model_of(case("TreeLSTM"), root / "specs", data, 8, 3, 12)
    one, two = System(model, "abw"), System(model, "ed-batch")
    steps = steps_of({"one": one, "two": two}, 2)
    assert one.instances == two.instances == 12
    assert one.product_flops == two.product_flops > 0
    assert all(taken.keys() == set(STEPS) and min(taken.values()) > 0 for taken in steps.values())


def test_a_workload_that_is_none() -> None:
    assert chosen_cases(None) == CASES
    with pytest.raises(AbwError, match="no workload is called 'TreeLSTMs'") as raised:
        chosen_cases("MV-RNN,TreeLSTMs")
    assert "TreeLSTM" in (raised.value.hint or "")


@pytest.mark.parametrize("name", TRAININGS)
def test_trainings_can_be_trained(name: str, root: Path) -> None:
    assert open_model(root / f"specs/{name}.yaml", Overrides()).training is not None


def test_a_sentence_has_as_many_words_as_its_translation(root: Path) -> None:
    growing = Growing(GREEDY, root / "specs", root / "specs/data/pairs.txt", 4, 8, 9)
    made = growing.run()
    kinds = made.instances.schema.kinds
    sizes = np.bincount(made.instances.kind, minlength=len(kinds))
    assert sizes[kinds.index("step")] == sizes[kinds.index("target")] > 20
    assert growing.rounds[0] > 0
    least = [growing.at_least(lengths, peak) for lengths, peak in (([1], 1.0), ([3, 2], 1.0))]
    assert least[1] == pytest.approx(5 * least[0])  # one product a sentence in each round


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


def test_cold_and_warm_runs_share_caches_and_pairs_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def run(words: list[str], environment: dict[str, str]) -> str:
        if words[0] == "run":
            folder = Path(environment["NUMBA_CACHE_DIR"])
            assert folder.parent == Path(environment["ABW_HOME"]).parent
            assert folder.exists() == (len(seen) % 2 == 1)
            folder.mkdir(exist_ok=True)
            seen.append(str(folder))
        return ""

    monkeypatch.setattr(cold, "abw", run)
    rows = by_table(cold.cold(Path("x.yaml"), 2))[""]
    assert [row["caches"] for row in rows] == ["nothing compiled", "the second time"] * 2
    assert seen[0] == seen[1] != seen[2] == seen[3]


def test_a_run_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AbwError, match=r"x\.yaml"):
        list(cold.cold(tmp_path / "x.yaml", 1))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_pytorchs_outputs_are_the_references(case: Case, root: Path, shared_data: Path) -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    planned, params = mini_batch(case.name, root / "specs", shared_data, 3, 8)
    expected = reference(planned.graph, params)
    theirs = TorchLevels(torch, planned, params)
    for _ in range(2):
        theirs.run()
    for refs in planned.graph.results:
        found, right = theirs.values(refs.reference), expected.values(refs.reference)
        assert np.abs(found - right).max() < 1e-5


def test_all_operations_are_pytorchs() -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    graph, params = lanes("cell", 5)
    theirs = TorchLevels(torch, plan(graph, once(graph)), params)
    theirs.run()
    right = reference(graph, params)
    for o in range(len(graph.network.types[0].outputs)):
        refs = np.arange(5) * graph.network.width + o
        np.testing.assert_allclose(theirs.values(refs), right.values(refs), 1e-4, 1e-5)
