"""What is known of a GPU: kept once it was measured, and what schemes are chosen by."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.exec import registry
from abw.core.exec.cuda import available
from abw.core.exec.cuda.driver.device import Device, Traits
from abw.core.exec.cuda.driver.driver import Driver
from abw.core.exec.cuda.measure import probe
from abw.core.exec.cuda.measure.costs import (
    CROWDED,
    PUBLISHED,
    UNMEASURED,
    Costs,
    Limits,
    Times,
    costs_of,
    keep_costs,
)
from tests.core.exec.cuda.fakedriver import FakeLibrary
from tests.core.exec.cuda.test_available import WHOLE
from tests.core.exec.cuda.test_available import given as machine

MEASURED = Limits(flops=5e13, bytes_per_second=4e12, barrier=2e-6, launch=3e-6)


@pytest.fixture
def traits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Traits:
    """A GPU of which nothing is known yet."""
    monkeypatch.setenv("ABW_HOME", str(tmp_path))
    return Device(Driver(FakeLibrary())).traits


def test_what_was_measured_is_kept_for_this_kind_of_gpu(traits: Traits, tmp_path: Path) -> None:
    assert costs_of(traits) == UNMEASURED
    kept = keep_costs(traits, MEASURED)
    assert kept.path is not None
    assert kept.path.parent == tmp_path / "gpus"
    assert costs_of(traits) == kept == Costs(MEASURED, path=kept.path)
    assert costs_of(replace(traits, name="Another GPU")) == UNMEASURED
    assert costs_of(replace(traits, processors=7)) == UNMEASURED


def test_times_fitted_to_runs_are_kept_and_used(traits: Traits) -> None:
    kept = keep_costs(traits, MEASURED, Times(1e-6, 1e-14), Times(5e-6, 3e-14))
    assert costs_of(traits) == kept
    assert kept.choose(items=6, phases=1, product_flops=0) == "plan"
    assert kept.choose(items=4, phases=1, product_flops=0) == "batch"
    assert kept.choose(items=6, phases=1, product_flops=10**9) == "batch"
    keep_costs(traits, PUBLISHED)
    again = costs_of(traits)
    assert (again.limits, again.batch, again.plan) == (PUBLISHED, kept.batch, kept.plan)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"flops": 1}', "null"])
def test_what_is_damaged_is_not_used(traits: Traits, text: str) -> None:
    path = keep_costs(traits, MEASURED).path
    assert path is not None
    path.write_text(text)
    assert costs_of(traits) == UNMEASURED
    keep_costs(traits, replace(MEASURED, launch=0.0))
    assert costs_of(traits) == UNMEASURED


@given(
    items=st.integers(1, 1000),
    phases=st.integers(1, 1000),
    flops=st.integers(0, 10**13),
    launch=st.floats(1e-7, 1e-4),
    barrier=st.floats(1e-7, 1e-4),
)
def test_the_scheme_that_takes_less(
    items: int, phases: int, flops: int, launch: float, barrier: float
) -> None:
    costs = Costs(replace(PUBLISHED, launch=launch, barrier=barrier))
    batch = items * launch + flops / PUBLISHED.flops
    plan = phases * barrier + flops / PUBLISHED.flops * (1 + CROWDED)
    if abs(batch - plan) > 1e-9 * (batch + plan):
        assert costs.choose(items, phases, flops) == ("batch" if batch < plan else "plan")


def test_the_executor_chooses_by_what_is_kept(traits: Traits, monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(Driver(FakeLibrary()))
    monkeypatch.setattr(available, "open_device", lambda: device)
    executor: Any = registry.get_executor("cuda")
    assert executor._costs == UNMEASURED
    kept = keep_costs(traits, MEASURED)
    executor = registry.get_executor("cuda")
    assert executor._costs == kept


def test_doctor_says_which_are_in_use(traits: Traits) -> None:
    with machine(FakeLibrary(), WHOLE):
        *_, need = available.inspect()
        assert need.ok
        assert "not measured" in need.value
        assert "abw calibrate --device cuda" in need.hint
        kept = keep_costs(traits, MEASURED)
        *_, need = available.inspect()
    assert f"measured ({kept.path}): 50.0 TFLOP/s" in need.value
    assert not need.hint


def test_calibrate_measures_and_keeps(traits: Traits, monkeypatch: pytest.MonkeyPatch) -> None:
    from abw.core.tools.calibrate import calibrate_gpu

    device = Device(Driver(FakeLibrary()))
    monkeypatch.setattr(available, "open_device", lambda: device)
    with patch.object(probe, "measure", lambda on: MEASURED if on is device else None):
        report = calibrate_gpu()
    assert {name: report[name] for name in asdict(MEASURED)} == asdict(MEASURED)
    assert costs_of(traits) == Costs(MEASURED, path=Path(report["path"]))
