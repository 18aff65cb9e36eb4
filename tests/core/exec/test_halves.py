"""A plan in two halves: the values are those of a whole run, and what is given between them counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from abw.core.base.errors import AbwError
from abw.core.exec.interface import Executor
from abw.core.exec.params import init_params
from abw.core.exec.registry import get_executor
from abw.core.plan.plan import plan
from tests.core.exec.builder import random_graph, random_network, random_schedule, reference


@pytest.mark.parametrize("name", ["cpu", "reference"])
@pytest.mark.parametrize("seed", range(8))
def test_two_halves_are_a_run(name: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    network = random_network(random)
    graph = random_graph(random, network, 40)
    late = tuple(np.full_like(values, np.nan) for values in graph.given)
    params = init_params(network, seed)
    schedule = random_schedule(random, graph)
    executor = get_executor(name)
    executor.prepare(network, params, 1)
    made = plan(replace(graph, given=late), schedule)
    launches = len(made.launch_ptr) - 1
    for stop in {0, launches // 2, launches}:
        executor.begin(made, stop)
        for there, values in zip(late, graph.given, strict=True):
            there[...] = values  # only now: what the first half read of it is computed from NaN
        if graph.given and stop:
            continue
        result = executor.resume(made, stop)
        everything = reference(graph, params)
        for t, net_type in enumerate(network.types):
            for o in range(len(net_type.outputs)):
                expected = everything.value(t, o)
                np.testing.assert_allclose(result.value(t, o), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_another_plan_is_not_gone_on_with(name: str) -> None:
    random = np.random.default_rng(1)
    network = random_network(random)
    graph = random_graph(random, network, 20)
    executor = get_executor(name)
    executor.prepare(network, init_params(network, 0), 1)
    one, other = (plan(graph, random_schedule(random, graph)) for _ in range(2))
    executor.begin(one, 1)
    with pytest.raises(RuntimeError, match="last run was of another plan"):
        executor.resume(other, 1)


def test_executors_that_run_plans_as_a_whole_say_so() -> None:
    random = np.random.default_rng(0)
    network = random_network(random)
    graph = random_graph(random, network, 5)
    executor: Executor = get_executor("blas")
    made = plan(graph, random_schedule(random, graph))
    for half in (executor.begin, executor.resume):
        with pytest.raises(AbwError, match="runs a plan as a whole"):
            half(made, 1)


def test_weights_changed_in_place_are_the_ones_that_count() -> None:
    random = np.random.default_rng(3)
    network = random_network(random)
    graph = random_graph(random, network, 30)
    params = init_params(network, 0).flattened()
    executor = get_executor("cpu")
    executor.prepare(network, params, 1)
    made = plan(graph, random_schedule(random, graph))
    executor.run(made)
    flat = params.flat
    assert flat is not None
    for _ in range(2):
        flat *= random.standard_normal(flat.size).astype(np.float32) * 0.1 + 1
        rows = {t: np.arange(len(table), dtype=np.int32) for t, table in enumerate(params.tables)}
        executor.update(params, rows)
        result = executor.run(made)
        fresh = get_executor("cpu")
        fresh.prepare(network, params, 1)
        expected = fresh.run(plan(graph, made.schedule))
        for t, net_type in enumerate(network.types):
            for o in range(len(net_type.outputs)):
                assert np.array_equal(result.value(t, o), expected.value(t, o), equal_nan=True)
