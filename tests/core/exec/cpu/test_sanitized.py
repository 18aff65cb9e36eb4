"""The walker and kernels under ThreadSanitizer and AddressSanitizer: no report, and right results.

And what they must find: claims that are not atomic, launches that do not wait, sections given back too early.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CalledProcessError

import numpy as np
import pytest

from abw.core.exec.params import init_params
from abw.core.graph.graph import Graph
from abw.core.plan.plan import Plan, plan
from tests.core.exec.builder import error, fused_graph, launched, random_schedule, reference
from tests.core.exec.cpu.outside import OutsideExecutor, kept_error, summed, trees
from tests.core.exec.cpu.sanitized import CLANG, FOUND, Sanitized, Sanitizer

pytestmark = pytest.mark.skipif(not CLANG, reason="not installed: clang 19 or later")

SANITIZERS: tuple[Sanitizer, ...] = ("thread", "address")


def clean(graph: Graph, executor: OutsideExecutor, planned: Plan) -> None:
    """Run it, the second half behind the first: a report is an error."""
    params = init_params(graph.network, 0)
    executor.prepare(graph.network, params)
    half = len(planned.launch_ptr) // 2
    executor.begin(planned, half)
    result, expected = executor.resume(planned, half), reference(graph, params)
    again = len(planned.sections) > 2  # memory is given again
    assert (kept_error(planned, result, expected) if again else error(result, expected)) < 1e-4


@pytest.mark.parametrize("sanitizer", SANITIZERS)
@pytest.mark.parametrize("seed", range(4))
def test_launches_together(seed: int, sanitizer: Sanitizer, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    if seed % 2:
        graph, schedule = launched(rng, 30)
    else:
        graph = fused_graph(rng, 30)
        schedule = random_schedule(rng, graph)
    clean(graph, OutsideExecutor(Sanitized(tmp_path, sanitizer), 2 + seed % 3), plan(graph, schedule))


@pytest.mark.parametrize("sanitizer", SANITIZERS)
@pytest.mark.parametrize(("spec", "threads"), [("treelstm", 2), ("treegru", 4)])
def test_parts_apart(spec: str, threads: int, sanitizer: Sanitizer, tmp_path: Path) -> None:
    graph, planned = trees(spec, parts=3)
    clean(graph, OutsideExecutor(Sanitized(tmp_path, sanitizer), threads), planned)


def claimed_in_steps(text: str) -> str:
    """Parts are claimed by a read and a write."""
    claim = r"(?<=\ntake)(.*\n  )(%v\d+) = atomicrmw add ptr (%\w+), i64 1 acq_rel"
    steps = r"\1\2 = load i64, ptr \3\n  \2.more = add i64 \2, 1\n  store i64 \2.more, ptr \3"
    changed, count = re.subn(claim, steps, text)
    assert count == 1
    return changed


def waiting_for_none(text: str) -> str:
    """Whoever waits for others goes on at once."""
    changed, count = re.subn(r"icmp sge i64 (%v\d+), %v\d+\n", r"icmp sge i64 \1, 0\n", text)
    assert count >= 2
    return changed


def relaxed(text: str) -> str:
    """What says that a part is done says nothing of what it wrote."""
    return text.replace(" acq_rel", " monotonic").replace(" acquire,", " monotonic,")


def report(executor: OutsideExecutor, graph: Graph, planned: Plan) -> str:
    """What is reported of a run; of accesses that nothing orders, whenever they happen."""
    executor.prepare(graph.network, init_params(graph.network, 0))
    with pytest.raises(CalledProcessError) as raised:
        executor.run(planned)
    assert raised.value.returncode == FOUND
    return str(raised.value.stderr, "utf-8", "replace")


@pytest.mark.parametrize("change", [waiting_for_none, relaxed])
def test_launches_that_do_not_wait_are_found(change: Callable[[str], str], tmp_path: Path) -> None:
    graph, planned = trees("treelstm")
    assert "data race" in report(OutsideExecutor(Sanitized(tmp_path, "thread", change), 2), graph, planned)


def test_parts_claimed_wrongly_are_found(tmp_path: Path) -> None:
    graph, planned = trees("treelstm", parts=8)
    program = Sanitized(tmp_path, "thread", claimed_in_steps)
    assert "data race" in report(OutsideExecutor(program, 3), graph, planned)


def test_sections_given_back_too_early_are_found(tmp_path: Path) -> None:
    graph, planned = trees("treelstm", parts=3)
    executor = OutsideExecutor(Sanitized(tmp_path, "address"), 2, early=True)
    found = report(executor, graph, planned)
    assert "heap-use-after-free" in found
    assert "READ of size 4 " in found  # by the walker; the driver reads all of them


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_sums_of_gradients(sanitizer: Sanitizer, tmp_path: Path) -> None:
    summed(Sanitized(tmp_path, sanitizer), 3)


def test_sums_claimed_wrongly_are_found(tmp_path: Path) -> None:
    with pytest.raises(CalledProcessError) as raised:
        summed(Sanitized(tmp_path, "thread", claimed_in_steps), 3)
    assert raised.value.returncode == FOUND
    assert b"data race" in raised.value.stderr
