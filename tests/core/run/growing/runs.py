"""Models that grow, run and compared: what the tests of growing have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from abw.core.data.instances import Instances
from abw.core.data.intern import word_rows
from abw.core.exec.blas.executor import BlasExecutor
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cuda.executor import CudaExecutor
from abw.core.exec.interface import Executor
from abw.core.exec.params import Params, init_params
from abw.core.exec.reference import ReferenceExecutor
from abw.core.graph.equal.numbering import keys_of
from abw.core.policy.check import check_schedule
from abw.core.policy.registry import get_policy
from abw.core.run.dedup import Deduplicator
from abw.core.run.growing.grow import grow
from abw.core.run.growing.grown import Grown
from abw.core.run.workload import (
    Workload,
    open_model,
    open_networks,
    open_workload,
    read_instances,
)
from abw.core.spec.load import Overrides
from tests.core.exec.cuda.simulated import SimulatedDevice
from tests.core.graph.test_dedup import by_dictionary
from tests.core.run.growing.history_check import check_history
from tests.core.run.growing.oracle import Oracle

SPECS = Path(__file__).resolve().parents[4] / "specs"
GROWING = (
    "greedy",
    "greedy-attention",
    "stackrnn",
    "drnn",
    "nested",
    "early-exit",
    "experts",
    "beam",
    "berxit",
)
EXECUTORS: dict[str, Callable[[], Executor]] = {
    "reference": ReferenceExecutor,
    "blas": BlasExecutor,
    "cpu": CpuExecutor,
    "cuda": lambda: CudaExecutor(SimulatedDevice()),
}


def opened(spec: Path, **changes: int) -> Workload:
    hidden = {"hidden": changes.pop("hidden")} if "hidden" in changes else {}
    model = open_model(spec, Overrides(dims=hidden, **changes))  # type: ignore[arg-type]
    return open_workload(model, read_instances(model.data, model.data.limit), open_networks(model, "cell"))


def ready(workload: Workload, name: str, params: Params, threads: int | None = None) -> Executor:
    executor = EXECUTORS[name]()
    executor.prepare(workload.network, params, threads)
    return executor


def grown(
    workload: Workload,
    executor: Executor,
    first: int = 0,
    last: int | None = None,
    equal: Deduplicator | None = None,
) -> Grown:
    assert workload.growing is not None
    last = len(workload.instances) if last is None else last
    policy = get_policy("critical")
    of = workload.binding, workload.growing, executor, lambda g: policy.schedule(g.dag), first, last
    return grow(*of, equal=equal)


def looking(workload: Workload) -> Deduplicator:
    """What looks for equal nodes in all mini-batches."""
    return Deduplicator("on", keys=keys_of(workload.network, workload.networks.program.edges))


def check_equal_nodes(workload: Workload, executor: Executor) -> Grown:
    """Without equal nodes, which a dictionary finds, everything has the same bits; returns that."""
    count = range(len(workload.network.types))
    outputs = [(t, o) for t in count for o in range(len(workload.network.types[t].outputs))]
    every = grown(workload, executor)
    expected = [np.asarray(every.result.value(t, o)).copy() for t, o in outputs]
    made = grown(workload, executor, equal=looking(workload))
    for (t, o), value in zip(outputs, expected, strict=True):
        assert np.asarray(made.result.value(t, o)).tobytes() == value.tobytes()
    same_instances(made.instances, every.instances)
    assert (made.vertices, made.cut, made.rounds) == (every.vertices, every.cut, every.rounds)
    check_schedule(made.graph.dag, made.schedule)
    assert len(made.schedule) == made.batches
    assert len(made.graph) + made.equal_nodes == len(made.result.nodes) == len(every.graph)
    distinct = made.graph.distinct
    assert distinct is not None
    stands = distinct.nodes(made.graph.type_ptr).tolist()
    if executor.threads == 1:  # several share within their parts alone
        known = by_dictionary(made.constructed, set(), np.zeros(len(made.instances), np.int32))
        pairs = set(zip(stands, known, strict=True))
        assert len(pairs) == len(set(stands)) == len(set(known)) == len(made.graph)
    # every node reads what stands for what it read, with its values
    constructed, width = made.constructed, workload.network.width
    for v, now in enumerate(stands):
        before = constructed.operand[constructed.operand_ptr[v] : constructed.operand_ptr[v + 1]].tolist()
        behind = made.graph.operand[made.graph.operand_ptr[now] : made.graph.operand_ptr[now + 1]].tolist()
        renamed = [stands[r // width] * width + r % width for r in before if r >= 0]
        assert sorted(renamed) == sorted(r for r in behind if r >= 0)
    return made


def same_nodes(made: Grown) -> None:
    """Nodes and results as outputs read them are those of the finished instances' graph."""
    nodes, graph = made.result.nodes, made.graph
    for name in ("type_ptr", "vertex", "instance"):
        np.testing.assert_array_equal(getattr(nodes, name), getattr(graph, name))
    assert (nodes.network, nodes.instances) == (graph.network, graph.instances)
    for ours, theirs in zip(nodes.results, graph.results, strict=True):
        assert ours.name == theirs.name
        for name in ("reference", "vertex", "instance"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


def check_as_the_oracle(workload: Workload, made: Grown, params: Params) -> None:
    """The same vertices, links, fields and decisions as the slow grower, and the same values."""
    same_nodes(made)
    model = workload.model
    assert model.growth is not None
    given = read_instances(model.data, model.data.limit)
    schema = made.instances.schema
    cut: dict[str, int] = {}
    oracles = []
    nodes = {
        (int(t), int(v)): n
        for n, (t, v) in enumerate(zip(made.graph.dag.type, made.graph.vertex, strict=True))
    }
    for i in range(len(given)):
        oracle = Oracle(model, given, i, params)
        vertices = oracle.grow()
        oracles.append(oracle)
        begin, end = made.instances.start[i : i + 2].tolist()
        assert [schema.kinds[k] for k in made.instances.kind[begin:end]] == [v.kind for v in vertices]
        number = {vertex: begin + n for n, vertex in enumerate(vertices)}
        for kind in model.growth.kinds:
            own = [v for v in vertices if v.kind in kind.kinds]
            for name in kind.links:
                target = made.instances.links[name].target
                links = [v.links.get(name) for v in own]
                assert [target[number[v]] for v in own] == [number[to] if to else -1 for to in links]
            for name in (*kind.fields, *(d.name for d in kind.decisions)):
                values = made.instances.fields[name]
                assert [values[number[v]] for v in own] == [v.fields[name] for v in own], name
        for kind_name in oracle.cut:
            cut[kind_name] = cut.get(kind_name, 0) + 1
        for vertex in vertices:
            for t, node_type in enumerate(model.types):
                if not oracle.has(t, vertex):
                    continue
                if node_type.reduction is None:
                    node = nodes[t, number[vertex]]
                    for o, expected in enumerate(oracle.value(t, vertex)):
                        reference = np.array([node * made.graph.network.width + o])
                        np.testing.assert_allclose(made.result.values(reference)[0], expected, 1e-9, 1e-12)
    assert made.cut == cut
    check_history(workload, made, oracles)


def same_instances(made: Instances, expected: Instances) -> None:
    np.testing.assert_array_equal(made.kind, expected.kind)
    np.testing.assert_array_equal(made.start, expected.start)
    for name in expected.fields:
        np.testing.assert_array_equal(made.fields[name], expected.fields[name])
    for name in expected.links:
        np.testing.assert_array_equal(made.links[name].target, expected.links[name].target)


def values_by_instance(made: Grown) -> list[bytes]:
    """All that each instance gave: values and decisions, bit for bit."""
    found = [b""] * len(made.instances)
    for refs in made.graph.results:
        values = made.result.values(refs.reference)
        for i in range(len(found)):
            found[i] += values[refs.instance == i].tobytes()
    starts = made.instances.start.tolist()
    for name in sorted(made.instances.fields):
        if name not in made.instances.vocabulary:
            numbers = made.instances.fields[name]
            for i in range(len(found)):
                found[i] += numbers[starts[i] : starts[i + 1]].tobytes()
    return found


def broken(workload: Workload, word: str) -> Params:
    """Parameters in which the vector of one word of the data is not a number."""
    params = init_params(workload.network, 0)
    numbers = [t.name for t in workload.model.tables]
    row = word_rows(workload.instances, "word", workload.model.tables[numbers.index("sources")])
    at = list(workload.instances.vocabulary["word"]).index(word)
    params.tables[numbers.index("sources")][row[at]] = np.nan
    return params
