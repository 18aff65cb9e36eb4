"""The cost models that ship: what PyTorch computes of them, plans alone and in company, and training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.api import LoadedModel, load
from abw.core.base.errors import SpecError

ROOT = Path(__file__).parents[3]
DATA = ROOT / "specs/plans/data/plans.jsonl"
MODELS = ("bao", "treelstm-cost", "qppnet", "zero-shot")
# So many plans are together at most.
MOST = 64


@cache
def loaded(name: str) -> LoadedModel:
    return load(name, threads=1)


@cache
def texts() -> tuple[str, ...]:
    return tuple(DATA.read_text().splitlines())


@pytest.mark.parametrize("name", MODELS)
def test_costs_and_gradients_are_pytorch_s(name: str) -> None:
    model = loaded(name)
    with np.load(ROOT / "tests/golden/torch/plans.npz") as golden:
        expected = {key: golden[key] for key in golden if key.startswith(f"{name}.")}
    costs = np.concatenate([np.ravel(one) for one in model(DATA)["cost"]])
    wanted = expected.pop(f"{name}.cost")
    np.testing.assert_allclose(costs, wanted, rtol=0, atol=1e-5 * np.sqrt(np.mean(wanted**2)))
    _, gradients = model.gradients(DATA)
    for parameter, gradient in gradients.items():
        probe = np.random.default_rng(len(parameter)).standard_normal(gradient.shape)
        product, size = expected.pop(f"{name}.gradients.{parameter}")
        assert float((gradient * probe).sum()) == pytest.approx(product, abs=1e-4 * size)
    assert not expected


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_a_plan_has_the_same_bits_alone_and_in_company(name: str, data: st.DataObject) -> None:
    model = loaded(name)
    company = data.draw(st.lists(st.sampled_from(texts()), min_size=1, max_size=MOST - 1))
    plan = data.draw(st.sampled_from(texts()))
    place = data.draw(st.integers(0, len(company)))
    together = model([*company[:place], plan, *company[place:]])
    alone = model([plan])
    for output in ("cost", "time"):
        assert np.array_equal(together[output][place], alone[output][0])


@pytest.mark.parametrize("name", MODELS)
def test_abw_train_learns_them(name: str) -> None:
    model = load(name, threads=1)
    row: dict[str, Any] = {}
    before: dict[str, Any] = {}

    def epoch(found: Mapping[str, Any]) -> None:
        row.update(found)
        if not before:
            before.update(found)

    model.trainer(seed=1).fit(DATA, DATA, epochs=8, on_epoch=epoch)
    assert row["loss"] < before["loss"]
    assert row["median-q-error"] < before["median-q-error"]
    assert 1 <= row["median-q-error"] <= row["p90-q-error"] <= row["p99-q-error"]


def test_a_target_without_a_logarithm_is_told_with_its_line(tmp_path: Path) -> None:
    plan = json.loads(texts()[0])
    plan[0]["Execution Time"] = 0
    file = tmp_path / "plans.jsonl"
    file.write_text(texts()[1] + "\n" + json.dumps(plan) + "\n")
    model = load("bao", threads=1)
    with pytest.raises(SpecError, match=r"plans.jsonl:2.* is 0, which has no logarithm"):
        model.gradients(file)
