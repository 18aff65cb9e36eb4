"""What is hoisted where the user does not say: by size and repetition; what the user says counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import abw
from abw.core.base.progress import Quiet
from abw.core.cell.hoist import hoist
from abw.core.data.instances import Instances
from abw.core.graph.equal.consing import DedupMode
from abw.core.ir.model import Model
from abw.core.run.hoisting import hoist_where_it_pays, hoisted_types, may_hoist
from abw.core.run.options import RunOptions
from abw.core.run.pipeline import run
from abw.core.run.workload import open_model, read_instances
from abw.core.spec.load import Overrides
from abw.core.store.runs import find_run, load_batch
from abw.core.tools.explain import explain_spec
from abw.core.tools.inspect import inspect
from abw.viz.data.reopened import reopen

SPECS = Path(__file__).parents[3] / "specs"


def opened(spec: str, hidden: int, rows: int = 0) -> Model:
    model = open_model(SPECS / f"{spec}.yaml", Overrides(dims={"hidden": hidden}))
    return replace(model, tables=tuple(replace(t, rows=rows or t.rows) for t in model.tables))


def sampled(model: Model, limit: int = 64) -> Callable[[], tuple[Instances, int]]:
    found = read_instances(model.data, limit)
    return lambda: (found, len(found))


def chosen(spec: str, hidden: int, limit: int = 64) -> tuple[str, ...]:
    model = opened(spec, hidden)
    return hoisted_types(hoist_where_it_pays(model, sampled(model, limit)))


def test_by_size_and_repetition() -> None:
    """Large products of rows that repeat; not small ones, few nodes, nor products of what no table has."""
    assert chosen("lstm-nmt", 256) == ("encoder", "decoder")
    assert chosen("bilstm", 256) == ("fwd1", "bwd1")  # the second layer reads the first
    assert chosen("lstm-nmt", 32) == chosen("lstm-nmt", 256, limit=4) == ()
    assert chosen("treelstm", 512) == ()


def test_nothing_is_read_where_nothing_could_be_hoisted() -> None:
    """Instances are not asked for."""

    def never() -> tuple[Instances, int]:
        raise AssertionError

    for spec in ("treelstm", "greedy"):
        model = open_model(SPECS / f"{spec}.yaml", Overrides())
        assert hoist_where_it_pays(model, never) is model


def test_types_by_name() -> None:
    """Those named are hoisted, and the model is the same where none is."""
    model = opened("bilstm", 8)
    assert hoisted_types(hoist(model, ["bwd1"])) == ("bwd1",)
    assert hoist(model, []) is model


def test_where_it_may_choose() -> None:
    """Not for a policy that knows the types, other executors, operations, or where equal nodes stay."""
    assert may_hoist("auto", "cell", "cpu", "auto")
    refused = [("p.json", "cell", "cpu", "auto"), ("m:C", "cell", "cpu", "auto"), ("fsm", "op", "cpu", "on")]
    refused += [("fsm", "cell", "blas", "auto"), ("fsm", "cell", "cpu", "off")]
    assert not any(may_hoist(*each) for each in refused)  # type: ignore[arg-type]
    assert not may_hoist("auto", "cell", "cpu", "auto", "int8")


@pytest.fixture
def _eager(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Products take so long that all are worth hoisting."""
    monkeypatch.setattr("abw.core.run.hoisting.RATE", 1e6)
    monkeypatch.setattr("abw.core.run.hoisting.LEAST_NODES", 1)
    monkeypatch.chdir(tmp_path)


def ran(hoist: bool | None, *, verify: bool = False, dedup: DedupMode = "auto") -> dict[str, Any]:
    overrides = Overrides(dims={"hidden": 8}, batch=8, limit=16, hoist=hoist)
    options = RunOptions(policy="depth", keep=False, verify=verify, dedup=dedup)
    return run(SPECS / "bilstm.yaml", overrides, options)


@pytest.mark.usefixtures("_eager")
def test_what_the_user_says_counts() -> None:
    """By itself where nothing is said; all types or none where that is said; the report tells."""
    assert ran(None, verify=True)["hoisted"] == ["fwd1", "bwd1"]
    assert ran(False)["hoisted"] == [] and ran(None, dedup="off")["hoisted"] == []
    every = ran(True)
    assert every["hoist"] and every["hoisted"] == ["fwd1", "bwd1", "fwd2", "bwd2"]
    told = inspect(SPECS / "bilstm.yaml", Overrides(dims={"hidden": 8}), "cell")
    assert told["hoisted"] == ["fwd1", "bwd1"]
    told = explain_spec(SPECS / "bilstm.yaml", Overrides(dims={"hidden": 8}), "depth", Quiet())
    assert told["hoisted"] == ["fwd1", "bwd1"]


@pytest.mark.usefixtures("_eager")
def test_a_stored_run_is_opened_with_what_was_hoisted() -> None:
    """Its model has the hoisted types again, though nothing would be chosen now."""
    overrides = Overrides(dims={"hidden": 8}, batch=8, limit=16)
    report = run(SPECS / "bilstm.yaml", overrides, RunOptions(policy="depth", dedup="on"))
    stored = find_run(Path(report["path"]).name.split("-")[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("abw.core.run.hoisting.RATE", 1e15)
        found = reopen(stored, 0, load_batch(stored, 0)[0], allow_outside=True)
    assert found.graph is not None and hoisted_types(found.model or opened("bilstm", 8)) == ("fwd1", "bwd1")


@pytest.mark.usefixtures("_eager")
def test_models_from_python() -> None:
    """`abw.load` chooses as `abw run`, by the data or the sample given; outputs differ by rounding alone."""
    sizes = {"hidden": 8}
    own, never = (abw.load(SPECS / "bilstm.yaml", dims=sizes, policy="depth", hoist=h) for h in (None, False))
    assert hoisted_types(own.spec) == ("fwd1", "bwd1") and not hoisted_types(never.spec)
    some = own.read(SPECS / "data/tags.txt")
    sample = abw.load(SPECS / "bilstm.yaml", dims=sizes, policy="depth", data=some)
    assert hoisted_types(sample.spec) == ("fwd1", "bwd1")
    for a, b in zip(own(some)["tags"], never(some)["tags"], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
