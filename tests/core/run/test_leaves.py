"""Outputs of leaves kept across mini-batches: the same bits, the right nodes left out, and forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.base.progress import Clock
from abw.core.exec.interface import Executor
from abw.core.exec.params import Params, init_params
from abw.core.exec.registry import get_executor
from abw.core.graph.equal.leaves import StaleLeavesError, leaf_slot, with_leaves
from abw.core.plan.check import check_plan
from abw.core.plan.plan import outputs_to_keep
from abw.core.policy.registry import get_policy
from abw.core.run.checks import compare_with_reference
from abw.core.run.minibatches import MiniBatch, planned, run_all
from abw.core.run.options import RunOptions
from abw.core.run.parallel import Done, Part, PartRunner
from abw.core.run.pipeline import run
from abw.core.run.workload import Workload, open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides

Windows = list[tuple[int, int]]
DEPTH = get_policy("depth")


@cache
def opened(spec: str, *, hoist: bool = False, fuse: bool = False, leaves: bool = True) -> Workload:
    model = open_model(Path(f"specs/{spec}.yaml"), Overrides(dims={"hidden": 8}, hoist=hoist))
    networks = open_networks(model, "cell", fuse=fuse, dedup="on", leaves=leaves)
    return open_workload(model, read_instances(model.data, 24), networks)


def prepared(workload: Workload, seed: int = 0, threads: int = 1) -> Executor:
    executor = get_executor("cpu")
    executor.prepare(workload.network, weights(workload, seed), threads)
    return executor


def weights(workload: Workload, seed: int) -> Params:
    return init_params(workload.networks.cells, seed)


def outputs(workload: Workload, executor: Executor, windows: Windows) -> list[NDArray[np.int32]]:
    """The bits of all outputs, mini-batch after mini-batch, whose plans are right."""
    found = []
    for batch, result in run_all(workload, DEPTH, executor, Clock(*PHASES), windows=enumerate(windows)):
        check_plan(batch.graph, batch.plan, outputs_to_keep(batch.graph))
        found += [np.array(result.values(r.reference)).view(np.int32) for r in batch.graph.results]
    return found


@pytest.fixture(scope="module", autouse=True)
def _whatever_is_small() -> Iterator[None]:
    """Keep outputs however little they take to compute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("abw.core.graph.equal.leaves.LEAST_FLOPS", 0)
        yield


PHASES = "construct", "schedule", "plan", "execute"
spans = st.tuples(st.integers(0, 23), st.integers(1, 6)).map(lambda w: (w[0], min(24, w[0] + w[1])))
CASES = [
    ("treelstm", False, False),
    ("treelstm", False, True),
    ("bilstm", True, False),
    ("lattice", True, True),
]


@settings(max_examples=12)
@given(data=st.data(), case=st.sampled_from(CASES), rows=st.integers(0, 60))
def test_bits(data: st.DataObject, case: tuple[str, bool, bool], rows: int) -> None:
    """Whatever comes in whatever order, with room for few leaves, and other weights in between."""
    spec, hoist, fuse = case
    own = opened(spec, hoist=hoist, fuse=fuse, leaves=False)
    kept = opened(spec, hoist=hoist, fuse=fuse)
    assert [c for c in kept.networks.cells.constants if c.kind == "kept"]
    some, plain = prepared(kept), prepared(own)
    assert some.leaves and not plain.leaves
    for t in some.leaves.types.rows:
        some.leaves.types.rows[t] = min(rows, some.leaves.types.rows[t])
    for seed in range(2):
        windows = data.draw(st.lists(spans, min_size=1, max_size=6))
        for a, b in zip(outputs(own, plain, windows), outputs(kept, some, windows), strict=True):
            assert np.array_equal(a, b)
        some.update(weights(kept, seed + 1))
        plain.update(weights(own, seed + 1))


@settings(max_examples=25)
@given(windows=st.lists(spans, min_size=1, max_size=8))
def test_exactly_what_ran_before_is_left_out(windows: Windows) -> None:
    """A set of the words of the mini-batches so far says which leaves are kept."""
    workload = opened("treelstm")
    executor, seen = prepared(workload), set[int]()
    executor.run(planned(workload, DEPTH, executor, 0, 24, apart=1).plan)  # the memory does not move now
    for first, last in windows:
        whole = workload.unfused(first, last)
        words = whole.operand[whole.operand_ptr[: whole.type_ptr[1]]].tolist()
        batch = planned(workload, DEPTH, executor, first, last)
        executor.run(batch.plan)
        assert (distinct := batch.graph.distinct) is not None
        assert [place < 0 for place in distinct.place[: len(words)].tolist()] == [w in seen for w in words]
        assert distinct.kept == sum(w in seen for w in words) == int((distinct.place < 0).sum())
        seen.update(words)


def test_plans_of_forgotten_leaves() -> None:
    """A plan that reads leaves does not run once the weights are others; a run makes it anew."""
    workload = opened("treelstm")
    executor = prepared(workload)
    for _ in range(2):
        executor.run(planned(workload, DEPTH, executor, 0, 6).plan)
    stale = planned(workload, DEPTH, executor, 0, 6)
    assert stale.graph.distinct and stale.graph.distinct.kept
    batches = run_all(workload, DEPTH, executor, Clock(*PHASES), windows=[(0, (0, 6))] * 3)
    next(batches)
    executor.update(weights(workload, 1))
    with pytest.raises(StaleLeavesError):
        executor.run(stale.plan)
    batch, result = next(batches)  # it was planned together with the first one
    assert batch.graph.distinct and not batch.graph.distinct.kept
    fresh = prepared(workload, 1)
    expected = fresh.run(planned(workload, DEPTH, fresh, 0, 6, apart=1).plan)
    assert np.array_equal(
        result.values(batch.graph.results[0].reference), expected.values(expected.nodes.results[0].reference)
    )


def _second(workload: Workload, executor: Executor) -> MiniBatch:
    for _ in range(2):
        executor.run(planned(workload, DEPTH, executor, 0, 6, keep_all=True).plan)
    return planned(workload, DEPTH, executor, 0, 6, keep_all=True)


@pytest.mark.parametrize("fuse", [False, True])
def test_verification_reads_kept_leaves(fuse: bool) -> None:
    """Every node is compared with the reference, also those that an earlier mini-batch has computed."""
    workload = opened("treelstm", fuse=fuse)
    executor = prepared(workload)
    batch = _second(workload, executor)
    params, fusion = weights(workload, 0), workload.networks.fusion
    whole, distinct = workload.unfused(0, 6), batch.graph.distinct
    assert distinct and distinct.kept
    result = executor.run(batch.plan)
    compare_with_reference(whole, result, executor, params, fusion, distinct)
    wrong = distinct.place.copy()
    first = np.flatnonzero(wrong < 0)[0]
    wrong[first] = -1 if wrong[first] != -1 else -2
    with pytest.raises(AbwError, match="type 'leaf'"):
        compare_with_reference(whole, result, executor, params, fusion, replace(distinct, place=wrong))


def test_which_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells with a product that read one table's row; not what the model gives back, nor what reads nodes."""
    network = opened("treelstm", leaves=False).network
    assert [leaf_slot(network, t) for t in range(len(network.types))] == [0, None, None]
    given = replace(network, outputs=(*network.outputs, ("leaves", ((0, 0),))))
    assert leaf_slot(given, 0) is None and with_leaves(given) is given
    monkeypatch.setattr("abw.core.graph.equal.leaves.MOST_BYTES", 0)
    assert with_leaves(network) is network


def test_runs_that_keep_their_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mini-batches that are on disk compute all their leaves; later ones do not, and are verified, too."""
    monkeypatch.chdir(tmp_path)
    spec = Path(__file__).parents[3] / "specs/treelstm.yaml"
    changes = Overrides(dims={"hidden": 8}, batch=4)
    chosen = RunOptions(policy="depth", dedup="on", threads=1, verify=True)
    kept = run(spec, changes, chosen)
    monkeypatch.setattr("abw.core.run.streaming.KEPT", 2)
    later = run(spec, changes, chosen)
    passing = run(spec, changes, replace(chosen, keep=False))
    counts = [report["equal_nodes"] for report in (kept, later, passing)]
    assert counts[0] < counts[1] < counts[2]
    assert len({report["nodes"] + report["equal_nodes"] for report in (kept, later, passing)}) == 1
    finite = run(spec, changes, replace(chosen, keep=False, verify=False, check_finite=True))
    assert finite["equal_nodes"] == counts[0]


def test_threads() -> None:
    """Threads that share a mini-batch read what is kept, and each may compute the same leaf."""
    workload = opened("treelstm")
    one, two = prepared(workload), prepared(workload, threads=2)
    windows = [(0, 24), (0, 12), (3, 24)]
    for a, b in zip(outputs(workload, one, windows), outputs(workload, two, windows), strict=True):
        assert np.array_equal(a, b)
    for twin in two.twins():
        assert twin.leaves and two.leaves and twin.leaves is not two.leaves


def beside(
    workload: Workload, executor: Executor, windows: Windows, *, reuse: bool
) -> tuple[int, list[bytes]]:
    """How many nodes were kept leaves, and the bits of each mini-batch, of two threads side by side."""

    def read(done: Done) -> tuple[int, bytes]:
        assert done.batch.graph.distinct
        return done.batch.graph.distinct.kept, done.columns()[0].values.tobytes()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("abw.core.run.parallel.LEAST", 0)
        patch.setattr("abw.core.run.parallel.FEWEST", 1)
        runner = PartRunner(DEPTH, executor, Clock(*PHASES), reuse=reuse)
        found = [read(done) for _, _, each in runner.run([Part(workload, windows)]) for done in each]
    return sum(kept for kept, _ in found), [bits for _, bits in found]


@given(windows=st.lists(spans, min_size=2, max_size=12))
@settings(max_examples=10)
def test_side_by_side(windows: Windows) -> None:
    """Threads with mini-batches of their own keep leaves of their own; the bits are the same."""
    workload = opened("treelstm")
    executor = prepared(workload, threads=2)
    kept, expected = beside(workload, executor, windows, reuse=False)
    assert kept == 0
    for _ in range(2):
        assert beside(workload, executor, windows, reuse=True)[1] == expected


def test_threads_keep_leaves() -> None:
    """Of eight equal mini-batches some thread runs two with the same memory."""
    workload = opened("treelstm")
    executor = prepared(workload, threads=2)
    assert beside(workload, executor, [(0, 6)] * 8, reuse=True)[0] > 0
