"""Query plans by one pass: the bits of the ordinary way, or left to that."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.api import LoadedModel, load
from abw.core.base.errors import AbwError
from abw.core.run.onepass.onepass import Pass
from tests.conftest import ROOT
from tests.core.run.onepass.generated import ordinary, same

MODELS = ("bao", "treelstm-cost", "qppnet", "zero-shot")


@cache
def model(name: str) -> LoadedModel:
    """A shipped model of plans, small, with its passes."""
    path = ROOT / f"specs/plans/{name}.yaml"
    dims = {"hidden": 8} if "hidden" in path.read_text() else {}
    made = load(path, dims=dims, threads=1, policy="critical")
    made._passes.make(made._ready())
    return made


def the_pass(made: LoadedModel) -> Pass:
    found = made._passes.made
    assert found is not None
    return found


@pytest.mark.parametrize("name", MODELS)
def test_shipped_models_have_the_same_bits(name: str) -> None:
    made = model(name)
    assert made.spec.data.path
    lines = made.spec.data.path.read_text().splitlines()[:12]
    for some in (lines, lines[:1], lines[5:6]):
        found = the_pass(made).objects(list(some))
        assert found is not None
        same(found, ordinary(made, some))


NAMES = st.sampled_from(
    ["Seq Scan", "Hash Join", "Nested Loop", "Sort", "Some Later Scan", "Append", "HASH_JOIN"]
)
COSTS = st.sampled_from([0, 1, 12.5, 0.01, 431.07, 1e6, -0.0, 123456789, 0.123456789012])
OTHERS = st.sampled_from([None, True, "x", 3, [1, {"Node Type": "no node"}], {"Plans": 3}])


@st.composite
def nodes(draw: st.DrawFn, depth: int = 3) -> dict[str, Any]:
    """A node with keys in any order."""
    keys: dict[str, Any] = {"Node Type": draw(NAMES)}
    for key in ("Total Cost", "Plan Rows", "Plan Width", "Startup Cost"):
        if draw(st.booleans()):
            keys[key] = draw(COSTS)
    if draw(st.booleans()):
        keys["Relation Name"] = draw(st.sampled_from(["orders", "été", "a b"]))
    if draw(st.integers(0, 3)) == 0:
        keys["Parent Relationship"] = draw(st.sampled_from(["Outer", "InitPlan", "SubPlan"]))
    if draw(st.integers(0, 3)) == 0:
        keys["Something Else"] = draw(OTHERS)
    if depth and draw(st.booleans()):
        keys["Plans"] = draw(st.lists(nodes(depth - 1), max_size=3))
    order = draw(st.permutations(sorted(keys))) if draw(st.integers(0, 3)) == 0 else list(keys)
    return {key: keys[key] for key in order}


@given(st.lists(nodes(), min_size=1, max_size=4), st.sampled_from(MODELS))
@settings(max_examples=40)
def test_drawn_plans_have_the_same_bits(plans: list[dict[str, Any]], name: str) -> None:
    made = model(name)
    given = [json.dumps([{"Plan": plan, "Execution Time": 1.5}], ensure_ascii=False) for plan in plans]
    try:
        expected = ordinary(made, given)
    except AbwError:
        assert the_pass(made).objects(list(given)) is None
        return
    found = the_pass(made).objects(list(given))
    if found is not None:
        same(found, expected)
    assert found is not None or any(_unusual(plan) for plan in plans)


def _unusual(plan: dict[str, Any]) -> bool:
    """Whether fields stand behind the children, or numbers have more digits than are certain."""
    keys, children = list(plan), plan.get("Plans", [])
    late = bool(children) and keys[-1] != "Plans"
    digits = any(len(repr(x)) > 14 for x in plan.values() if isinstance(x, float))
    return late or digits or any(map(_unusual, children))


LEAF = '{"Plan": {"Node Type": "Seq Scan", "Total Cost": 3}}'


@pytest.mark.parametrize(
    "given",
    [
        ["{}"],
        [""],
        ["[]"],
        [LEAF[:-1]],
        [f"{LEAF}{LEAF}"],
        [f"{LEAF}{LEAF}", ""],
        [LEAF, ""],
        ['{"Plan": {"Total Cost": 3}}'],
        ['{"Plan": {"Node Type": "Seq Scan", "Total Cost": 1e39}}'],
        ['{"Plan": {"Node Type": "Seq Scan", "Total Cost": 16777217}}'],
        ['{"Plan": {"Node Type": "Seq Scan", "Total Cost": 1, "Total Cost": 2}}'],
        ['{"Plan": {"Node Type": "Seq Scan", "Total Cost": "much"}}'],
    ],
)
def test_what_is_not_plain_is_left_to_the_ordinary_way(given: list[str]) -> None:
    assert the_pass(model("bao")).objects(list(given)) is None


WORDS = """
model: relations
dims: {n: 4}
data: {format: plans, path: data.jsonl, batch: 8}
tables: {relations: {dim: n, rows: 16}}
cells:
  c: {dims: [n], inputs: {u: n, l: n, r: n}, equations: "y = tanh(u + l - 0.5 * r)", outputs: {y: y}}
types:
  x:
    per: node
    cell: c
    inputs: {u: "relations[relation-name] or zeros", l: left.x.y or zeros, r: right.x.y or zeros}
outputs: {y: x.y}
"""


@given(st.lists(nodes(), min_size=1, max_size=3))
@settings(max_examples=15)
def test_words_of_plans_have_the_same_bits(words: LoadedModel, plans: list[dict[str, Any]]) -> None:
    given = [json.dumps({"Plan": plan}, ensure_ascii=False) for plan in plans]
    try:
        expected = ordinary(words, given)
    except AbwError:
        return
    found = the_pass(words).objects(list(given))
    if found is not None:
        same(found, expected)
    assert found is not None or any(map(_unusual, plans))


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """A model that reads a plan's words."""
    folder = tmp_path_factory.mktemp("words")
    (folder / "words.yaml").write_text(WORDS)
    (folder / "data.jsonl").write_text(LEAF)
    made = load(folder / "words.yaml", threads=1, policy="critical")
    made._passes.make(made._ready())
    return made


def test_words_with_escapes_are_left_to_the_ordinary_way(words: LoadedModel) -> None:
    text = '{"Plan": {"Node Type": "Seq Scan", "Relation Name": "a\\u0062"}}'
    assert the_pass(words).objects([text]) is None
    assert the_pass(words).objects([text.replace("\\u0062", "b")]) is not None
    assert the_pass(model("bao")).objects([text]) is not None  # which does not read it
