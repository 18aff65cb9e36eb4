"""`--verify` allows what single precision loses where numbers cancel, and nothing more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.exec.agreement import compare, lost, shaken_runs
from abw.core.exec.blas.executor import BlasExecutor
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.interface import Executor, Result
from abw.core.exec.params import init_params
from abw.core.plan.plan import plan
from abw.core.run import checks
from abw.core.run.checks import TOLERANCE
from abw.core.run.minibatches import Passed
from abw.core.run.onepass.onepass import Pass
from abw.core.run.pipeline import RunOptions, run
from abw.core.spec.load import Overrides
from tests.core.exec.builder import random_graph, random_network, random_schedule, reference

SPREAD = """
model: spread
data: {format: json, path: d.jsonl, batch: 8}
cells:
  moments:
    inputs: {x: 16}
    equations: |
      m = mean(x)
      v = mean(x * x) - m * m
      s = x / (1 + abs(m))
    outputs: {v: v, s: s, m: m}
types:
  moments: {per: point, cell: moments, inputs: {x: x}}
  both: {per: instance, sum: {v: point.moments.v}}
outputs: {v: moments.v, s: moments.s, both: both.v}
"""


def written(folder: Path, scale: float, seed: int) -> Path:
    """Points whose numbers lie around `scale`, a few around 0."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(8):
        points = [rng.normal(scale if rng.random() < 0.8 else 0, 1, 16).astype(np.float32) for _ in range(3)]
        said = ", ".join(f'{{"kind": "point", "x": {[float(n) for n in point]}}}' for point in points)
        lines.append(f'{{"vertices": [{said}], "links": {{}}}}\n')
    (folder / "d.jsonl").write_text("".join(lines))
    (folder / "spread.yaml").write_text(SPREAD)
    return folder / "spread.yaml"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABW_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("executor", ["cpu", "blas"])
@pytest.mark.parametrize("scale", [0, 30, 1e3, 1e5])
def test_a_variance_by_two_means_is_right(tmp_path: Path, executor: str, scale: float) -> None:
    options = RunOptions(policy="depth", executor=executor, verify=True, keep=False)
    for seed in range(4):
        report = run(written(tmp_path, scale, seed), Overrides(), options)
        # what was found is told, also where it is allowed since numbers cancel
        assert (report["max_error"] > TOLERANCE) == (scale > 0)


def variance(x: NDArray[np.float32], order: NDArray[np.intp]) -> NDArray[np.float64]:
    """By two means, in single precision, each number after the other."""
    m = q = np.float32(0)
    for value in x[order]:
        m, q = np.float32(m + value), np.float32(q + value * value)
    count = np.float32(len(x))
    return np.array([(q / count) - (m / count) * (m / count)], np.float64)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 1.0, 50.0, 1e3, 1e4]))
def test_no_order_of_a_sum_is_refused(
    tmp_path_factory: pytest.TempPathFactory, seed: int, scale: float
) -> None:
    from abw.core.run.workload import load_workload, open_model

    spec = written(tmp_path_factory.mktemp("spread"), scale, seed)
    graph = load_workload(open_model(spec, Overrides()), "cell").graph(0, 8)
    params = init_params(graph.network, 0)
    expected, shaken = reference(graph, params), shaken_runs(graph, params)
    assert graph.given is not None
    rows = [np.asarray(rows, np.float32) for rows in graph.given if np.shape(rows)[1:] == (16,)]
    numbers = np.concatenate(rows)
    rng = np.random.default_rng(seed)
    found = np.stack([variance(x, rng.permutation(16)) for x in numbers])
    values = [np.asarray(r.value(0, 0), np.float64) for r in (expected, *shaken)]
    allowed = lost(values[0], values[1:])
    rms = np.sqrt(np.mean(expected.value(0, 0) ** 2))
    assert (np.abs(found - expected.value(0, 0))[:, 0] <= allowed + TOLERANCE * rms).all()


@pytest.mark.parametrize("output", ["v", "s"])
def test_what_is_wrong_there_is_refused(tmp_path: Path, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of a thousandth where nothing cancels, and one of the variance itself where much does."""
    right = Pass.result

    def wrong(self: Pass, passed: Passed) -> Callable[[], Result]:
        found = right(self, passed)()

        def read(references: NDArray[np.integer]) -> NDArray[np.floating]:
            values = np.array(found.read(references), np.float64)
            if values.ndim == 2 and values.shape[1] == (16 if output == "s" else 1) and len(values) > 8:
                values[3] += 1e-3 * np.sqrt(np.mean(values**2)) if output == "s" else 50
            return values

        return lambda: replace(found, read=read)

    monkeypatch.setattr(Pass, "result", wrong)
    monkeypatch.setattr("abw.core.run.pipeline.REPAYS", 0)  # by a pass
    options = RunOptions(policy="depth", verify=True, keep=False, threads=1)
    with pytest.raises(AbwError, match="is wrong: output"):
        run(written(tmp_path, 1e3, 0), Overrides(), options)


def made(seed: int, executor: Executor) -> tuple[Result, Result, tuple[Result, ...]]:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, random_network(rng), 20)
    params = init_params(graph.network, seed)
    executor.prepare(graph.network, params, 1)
    result = executor.run(plan(graph, random_schedule(rng, graph)))
    return result, reference(graph, params), shaken_runs(graph, params)


def test_random_models_are_right_and_planted_errors_are_seen() -> None:
    seen = 0
    for seed in range(12):
        result, expected, shaken = made(seed, (CpuExecutor, BlasExecutor)[seed % 2]())
        assert all(d.error <= TOLERANCE for d in compare(result, expected, None, shaken))
        rng = np.random.default_rng(seed)
        victim = int(rng.integers(len(expected.nodes)))

        def read(references: NDArray[np.integer], victim: int = victim, of: Result = result) -> object:
            values = np.array(of.read(references), np.float64)
            hit = references // of.nodes.network.width == victim
            values[hit] += 1e-3 * max(1.0, float(np.abs(values).max(initial=0)))
            return values

        broken = replace(result, read=read)  # type: ignore[arg-type]
        seen += any(not d.error <= TOLERANCE for d in compare(broken, expected, None, shaken))
    assert seen >= 11


def test_the_shaken_runs_are_asked_only_where_something_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "shaken_runs", lambda *_: pytest.fail("nothing differs"))
    run(written(tmp_path, 0, 0), Overrides(), RunOptions(policy="depth", verify=True, keep=False))
