"""Training graphs: gradients of whole models beside node-by-node ones, by every executor and policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.exec.cuda.executor import CudaExecutor
from abw.core.exec.gradient import gradients_of
from abw.core.exec.interface import Executor
from abw.core.exec.params import Params, init_params
from abw.core.exec.registry import get_executor
from abw.core.grad.graph import TrainingGraph, training_graph
from abw.core.grad.network import Training, training_network
from abw.core.grad.schedule import training_schedule
from abw.core.graph.graph import Graph, ResultRefs
from abw.core.ir.network import Network
from abw.core.plan.check import check_plan
from abw.core.plan.plan import Plan, plan
from abw.core.policy.check import check_schedule
from abw.core.policy.registry import get_policy
from abw.core.policy.schedule import Schedule
from abw.core.run.workload import (
    Workload,
    open_model,
    open_networks,
    open_workload,
    read_instances,
    whole,
)
from abw.core.spec.load import Overrides
from tests.core.exec.builder import launched, random_graph, random_network, random_schedule
from tests.core.exec.cuda.simulated import SimulatedDevice
from tests.core.grad.nodewise import nodewise_gradients

Floats = NDArray[np.float32]
Array = NDArray[np.float64]


@cache
def workload(root: Path, spec: str, instances: int = 5, hidden: int = 6) -> Workload:
    model = open_model(root / "specs" / f"{spec}.yaml", Overrides(dims={"hidden": hidden}))
    found = open_workload(model, read_instances(model.data, instances), open_networks(model, "cell"))
    return whole(found)


def given_gradients(training: Training, graph: Graph, seed: int = 0) -> dict[str, Floats]:
    """Random ones, as a loss would have them."""
    rng = np.random.default_rng(seed)
    constants = training.network.constants
    return {
        results.name: rng.standard_normal(
            (len(results.reference), *constants[training.losses[results.name]].shape)
        ).astype(np.float32)
        for results in graph.results
        if results.name in training.losses
    }


def planned(made: TrainingGraph, schedule: Schedule) -> Plan:
    """The plan of a training graph, checked, with its schedule."""
    check_schedule(made.graph.dag, schedule)
    found = plan(made.graph, schedule)
    check_plan(made.graph, found)
    return found


def apart(
    found: list[Array], expected: tuple[Sequence[Array | None], Sequence[Array | None]], rows: int = 0
) -> float:
    """The largest difference of any gradient, relative to the largest gradient of all.

    Where all are below 1e-6, relative to that: where every true gradient is 0, the oracle's are rounding.
    """
    largest = max((np.abs(e).max(initial=0) for side in expected for e in side if e is not None), default=0)
    largest = max(float(largest), 1e-6)
    pairs = zip(found, [*expected[0], *expected[1]], strict=True)
    worst = max(float(np.abs(a if b is None else a - b).max(initial=0)) for a, b in pairs)
    return worst / largest


def run(executor: Executor, made: TrainingGraph, plan: Plan, params: Params) -> list[Array]:
    """The gradients of all parameters, then of all tables."""
    vector = gradients_of(made, executor.run(plan).values, params).vector(params)
    arrays = (*params.values, *params.tables)
    parts = np.split(vector, np.cumsum([array.size for array in arrays])[:-1])
    return [np.asarray(part.reshape(a.shape)) for part, a in zip(parts, arrays, strict=True)]


SPECS = (
    "treelstm", "torch-childsum", "torch-bilstm", "torch-gru", "lattice", "mvrnn", "lstm-nmt", "dag", "rings",
    "gat", "treelstm-attend", "attention-nmt", "tree-transformer", "nested",
)  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
def test_shipped_models(spec: str, root: Path) -> None:
    found = workload(root, spec)
    network, graph = found.network, found.graph(0, len(found.instances))
    params = init_params(network, 0)
    training = training_network(network, [name for name, _ in network.outputs])
    gradients = given_gradients(training, graph)
    made = training_graph(training, graph, gradients)
    plan = planned(made, training_schedule(made, get_policy("critical").schedule(graph.dag)))
    expected = nodewise_gradients(network, params, graph, gradients)
    assert any(g is not None for g in expected[0])
    for name, tolerance in (("reference", 1e-12), ("cpu", 1e-5)):
        executor = get_executor(name)
        executor.prepare(training.network, params, 1)
        assert apart(run(executor, made, plan, params), expected) < tolerance


def with_outputs(rng: np.random.Generator, network: Network, graph: Graph) -> tuple[Network, Graph]:
    """The same with some values for results: of nodes, and as of reductions over one link, of constants."""
    outputs, results = [], []
    for number in range(rng.integers(1, 3)):
        t = int(rng.integers(len(network.types)))
        o = int(rng.integers(len(network.types[t].outputs)))
        nodes = np.arange(graph.type_ptr[t], graph.type_ptr[t + 1], dtype=np.int32)
        outputs.append((f"y{number}", ((t, o),)))
        results.append(ResultRefs(f"y{number}", nodes * network.width + o, nodes, nodes))
    network = replace(network, outputs=tuple(outputs))
    return network, replace(graph, network=network, results=tuple(results))


def random_training(seed: int, nodes: int) -> tuple[Graph, TrainingGraph, Plan, dict[str, Floats]] | None:
    """A random graph with its backward pass; None where nothing can be trained."""
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    network, graph = with_outputs(rng, network, random_graph(rng, network, nodes))
    try:
        training = training_network(network, [name for name, _ in network.outputs])
    except AbwError:
        return None
    gradients = given_gradients(training, graph, seed)
    made = training_graph(training, graph, gradients)
    return graph, made, planned(made, training_schedule(made, random_schedule(rng, graph))), gradients


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(0, 25))
def test_random_graphs(seed: int, nodes: int) -> None:
    found = random_training(seed, nodes)
    if found is None:
        return
    graph, made, plan, gradients = found
    params = init_params(graph.network, seed)
    executor = get_executor("reference")
    executor.prepare(made.training.network, params)
    with np.errstate(all="ignore"):
        expected = nodewise_gradients(graph.network, params, graph, gradients)
        if all(np.isfinite(g).all() for side in expected for g in side if g is not None):
            assert apart(run(executor, made, plan, params), expected) < 1e-10


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1))
def test_types_that_share_parameters_and_launches(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph, schedule = launched(rng, 20)
    if any(slot.reduction for t in graph.network.types for slot in t.slots):
        return
    network, graph = with_outputs(rng, graph.network, graph)
    try:
        training = training_network(network, [name for name, _ in network.outputs])
    except AbwError:
        return
    gradients, params = given_gradients(training, graph, seed), init_params(network, seed)
    made = training_graph(training, graph, gradients)
    both = training_schedule(made, schedule)
    assert both.launch_ptr is not None
    plan = planned(made, both)
    executor = get_executor("reference")
    executor.prepare(training.network, params)
    with np.errstate(all="ignore"):
        expected = nodewise_gradients(network, params, graph, gradients)
        if all(np.isfinite(g).all() for side in expected for g in side if g is not None):
            assert apart(run(executor, made, plan, params), expected) < 1e-10


EXECUTORS: dict[str, Callable[[], Executor]] = {
    "blas": lambda: get_executor("blas"),
    "cpu": lambda: get_executor("cpu"),
    "cuda": lambda: CudaExecutor(SimulatedDevice(1, races=False), "plan"),
}


@pytest.mark.parametrize("name", EXECUTORS)
def test_random_graphs_in_every_executor(name: str) -> None:
    for seed in (1, 2, 3)[: 1 if name == "cuda" else 3]:
        found = random_training(seed, 6 if name == "cuda" else 20)
        assert found is not None
        graph, made, plan, gradients = found
        params = init_params(graph.network, seed)
        executor = EXECUTORS[name]()
        expected = nodewise_gradients(graph.network, params, graph, gradients)
        with np.errstate(all="ignore"):
            executor.prepare(made.training.network, params, 1)
            assert apart(run(executor, made, plan, params), expected) < 1e-4


@pytest.mark.parametrize("spec", ["treelstm", "lattice", "attention-nmt"])
def test_the_same_bits_by_every_policy_and_number_of_threads(spec: str, root: Path) -> None:
    found = workload(root, spec, 8)
    network, graph = found.network, found.graph(0, len(found.instances))
    params = init_params(network, 0)
    training = training_network(network, [name for name, _ in network.outputs])
    made = training_graph(training, graph, given_gradients(training, graph))
    seen: list[list[Array]] = []
    schedules = [get_policy(name).schedule(graph.dag) for name in ("critical", "agenda", "depth")]
    assert len({len(schedule) for schedule in schedules}) > 1
    for threads in (1, 2):
        executor = get_executor("cpu")
        executor.prepare(training.network, params, threads)
        for schedule in schedules:
            arranged = executor.arrange(made.graph, training_schedule(made, schedule))
            seen.append(run(executor, made, plan(made.graph, arranged), params))
    for other in seen[1:]:
        assert all(map(np.array_equal, seen[0], other))


def test_the_schedule_is_the_forward_one_reversed(root: Path) -> None:
    found = workload(root, "treelstm")
    graph = found.graph(0, 5)
    training = training_network(found.network, ["classes"])
    made = training_graph(training, graph, given_gradients(training, graph))
    forward = get_policy("critical").schedule(graph.dag)
    both = training_schedule(made, forward)
    assert len(both) == 2 * len(forward)
    names = [training.network.types[t].name for t in both.type]
    assert [f"{name}-backward" for name in names[: len(forward)]] == names[: len(forward) - 1 : -1]
    assert np.diff(both.ptr).tolist()[len(forward) :] == np.diff(forward.ptr).tolist()[::-1]


def test_only_what_can_be_trained_is_computed(root: Path) -> None:
    """Zeros that are read have no gradient; tables have."""
    found = workload(root, "treelstm")
    training = training_network(found.network, ["classes"])
    leaf = training.cells[0]
    assert leaf is not None
    assert list(leaf.inputs) == [0]
    names = [t.name for t in training.network.types]
    assert names[3:] == [f"{name}-backward" for name in names[:3]]


def test_refusals(root: Path) -> None:
    found = workload(root, "treelstm")
    with pytest.raises(AbwError, match="has no output 'klasses'") as caught:
        training_network(found.network, ["klasses"])
    assert "classes" in caught.value.hint
    with pytest.raises(AbwError, match="no output"):
        training_network(found.network, [])
    model = found.model
    with pytest.raises(AbwError, match="granularity op"):
        training_network(open_networks(model, "op").network, ["classes"])
    childsum = workload(root, "torch-childsum").model
    with pytest.raises(AbwError, match="--fuse"):
        training_network(open_networks(childsum, "cell", fuse=True).network, ["classes"])
    graph = found.graph(0, 5)
    training = training_network(found.network, ["classes"])
    with pytest.raises(ValueError, match="not float32"):
        training_graph(training, graph, {"classes": np.zeros((3, 5), np.float32)})
