"""Policies from files: whatever is changed in one, it is refused with the place, or can be followed."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import AbwError
from abw.core.policy.check import check_schedule
from abw.core.policy.learned.fsm import FsmPolicy
from abw.core.policy.learned.learner import learn
from abw.core.policy.learned.policyfile import any_policy_of, policy_of, read_any
from abw.core.policy.learned.trying import choose
from tests.core.policy import graphs

DAG = graphs.fig1()
RIGHT: dict[str, Any] = json.loads(learn(DAG, encoding="sort", phases=2, trials=30).to_json())
CHOSEN: dict[str, Any] = json.loads(choose([DAG], [DAG], launch=0.0).to_json())
BASE: dict[str, Any] = json.loads(learn(DAG, encoding="base", trials=30).to_json())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="other"), "policy is not a policy"),
        (lambda d: d.update(version=2), "version 2.*reads version 1"),
        (lambda d: d.update(version=[]), r"version \[\].*reads version 1"),
        (lambda d: d.update(encoding="hash"), "encoding: no encoding is called 'hash'"),
        (lambda d: d.update(encoding=[]), "encoding must be a text"),
        (lambda d: d.update(phases=2_000_000_000), "phases must be a whole number from 0 to 1,000, not 2000"),
        (lambda d: d.update(phases=math.inf), "phases must be a whole number .* not inf"),
        (lambda d: d.update(phases=True), "phases must be a whole number"),
        (lambda d: d.update(types=["x", "x"]), "types: a name is there twice"),
        (lambda d: d.update(types=["1/2", "y"]), "types: a name is there twice"),
        (lambda d: d.update(types=[1]), r"types\[0\] must be a text, not 1"),
        (lambda d: d["states"].append(d["states"][0]), "the state .* occurs twice"),
        (lambda d: d["states"].append(None), r"states\[\d+\].state is missing"),
        (lambda d: d["states"][0].update(action="readout"), r"states\[0\].action: 'readout' is not on"),
        (lambda d: d["states"][0].update(action="1/2"), r"states\[0\].action: '1/2' is not on"),
        (lambda d: d["states"][0].update(state=["seed"]), r"states\[0\].state: 'seed' is neither"),
        (lambda d: d["states"][1].pop("q"), r"states\[1\].q is missing"),
        (lambda d: d["states"][0]["q"].update({"1/2": 0}), r"states\[0\].q: '1/2' is no type"),
        (
            lambda d: d["states"][0]["q"].update(leaf=math.nan),
            r"q.leaf must be a finite number, not nan",
        ),
        (
            lambda d: d["states"][0]["q"].update(leaf=10**400),
            r"q.leaf must be a finite number, not inf",
        ),
        (lambda d: d["states"][0]["visits"].update(leaf=2**31), r"visits.leaf must be a whole number"),
        (lambda d: d["states"][0].update(visits={}), r"states\[0\].visits.leaf must be .* not None"),
        (lambda d: d.pop("training"), "training is missing"),
        (lambda d: d["training"].update(seed=-1), "training.seed must be a whole number"),
        (lambda d: d["training"].update(more=1), "training: 'more' has no meaning"),
        (lambda d: d["training"].update(curve=[[1, 2, 3]]), r"training.curve\[0\]: .* is no pair"),
        (lambda d: d["training"].update(hyper={"rate": "x"}), r"training.hyper.rate must be a finite number"),
        (lambda d: d.update(data={"path": "x", "sha256": "y"}), "data.instances must be a whole number"),
        (lambda d: d.update(data=7), "data must be an object, not 7"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(change: Callable[[dict[str, Any]], None], message: str) -> None:
    changed = copy.deepcopy(RIGHT)
    assert "leaf" in changed["states"][0]["q"]
    change(changed)
    with pytest.raises(AbwError, match=message):
        policy_of(changed)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged"),
        (b"[]", "holds no JSON object"),
        (b"\xff", "utf-8"),
        (b'{"a":' * 100_000, "nested too deep"),
        (json.dumps({**RIGHT, "phases": 10**300}).encode(), "phases must be"),
        (json.dumps({**RIGHT, "version": 3}).encode(), "has version 3, this abw reads versions 1 and 2"),
    ],
    ids=["empty", "list", "bytes", "deep", "phases", "version"],
)
def test_errors_name_the_file(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "policy.json"
    path.write_bytes(content)
    with pytest.raises(AbwError, match=rf"policy .*policy\.json.*{message}"):
        read_any(path)


def _learned() -> dict[str, Any]:
    """A chosen policy with an FSM and a linear rule with learned weights among the candidates."""
    fsm = json.loads(learn(DAG, encoding="sort", trials=30).to_json())
    entry = {"scheduling": 0.0, "learning": 0.1, "states": 3, "batches": 1, "cost": 1.0}
    first = {"policies": ["fsm-sort"], **entry, "refused": None}
    second = {**first, "policies": ["linear-learned-reversed"], "states": None}
    linear = {"linear-learned-reversed": {"mass": 0.5, "next_share": 2.0}}
    tried = [first, second, *CHOSEN["tried"]]
    return {**copy.deepcopy(CHOSEN), "tried": tried, "fsm": fsm, "linear": linear}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="other"), "policy is not a policy"),
        (lambda d: d.update(version=3), "version 3.*reads versions 1 and 2"),
        (lambda d: d.update(version=1), "phases must be"),
        (lambda d: d.update(policy="fsm"), "policy must be 'auto', not 'fsm'"),
        (lambda d: d.pop("policy"), "policy must be 'auto', not None"),
        (lambda d: d.update(types=["1/2"]), "fsm.types: they are not the policy's"),
        (lambda d: d.update(types=3), "types must be a list, not 3"),
        (lambda d: d.update(seed=-1), "seed must be a whole number"),
        (lambda d: d.update(seconds=math.nan), "seconds must be a finite number"),
        (lambda d: d.update(data=7), "data must be an object, not 7"),
        (lambda d: d.update(fsm=3), "fsm must be an object, not 3"),
        (lambda d: d["fsm"].update(version=2), "fsm has version 2, this abw reads version 1"),
        (lambda d: d["fsm"]["states"][0].pop("q"), r"fsm is damaged: states\[0\].q is missing"),
        (lambda d: d.pop("held_out"), "held_out is missing"),
        (lambda d: d["held_out"].update(nodes=0), "held_out.nodes must be a whole number from 1"),
        (lambda d: d["held_out"].update(nodes="n"), "held_out.nodes must be a whole number from 1"),
        (lambda d: d["held_out"].update(least=-1.0), "held_out.least must be 0 at least, not -1.0"),
        (lambda d: d["held_out"].update(apart=1), "held_out.apart must be true or false, not 1"),
        (lambda d: d["held_out"].update(more=1), "held_out: 'more' has no meaning"),
        (lambda d: d.update(tried=3), "tried must be a list, not 3"),
        (lambda d: d.update(tried=[]), "tried: there is neither a rule among them nor"),
        (lambda d: d.update(tried=d["tried"][:1], fsm=None), "tried: there is neither a rule among them nor"),
        (lambda d: d["tried"].insert(0, None), r"tried\[0\].policies is missing"),
        (lambda d: d["tried"][0].update(policies=[]), r"tried\[0\].policies: there is none"),
        (
            lambda d: d["tried"][0].update(policies=["x"]),
            r"tried\[0\].policies\[0\]: no candidate is called 'x'",
        ),
        (lambda d: d["tried"][0].update(policies=["auto"]), r"policies\[0\]: no candidate is called 'auto'"),
        (lambda d: d["tried"][0]["policies"].append("depth"), r"policies\[0\]: fsm-sort goes with no other"),
        (lambda d: d["tried"][0].update(batches="x"), r"tried\[0\].batches must be a whole number"),
        (lambda d: d["tried"][0].update(batches=None), r"tried\[0\].batches is missing"),
        (lambda d: d["tried"][0].pop("cost"), r"tried\[0\].cost is missing"),
        (lambda d: d["tried"][0].update(cost=-1), r"tried\[0\].cost must be 0 at least, not -1"),
        (lambda d: d["tried"][0].update(states=[]), r"tried\[0\].states must be a whole number"),
        (lambda d: d["tried"][0].update(phases=-1), r"tried\[0\].phases must be a whole number"),
        (lambda d: d["tried"][0].update(refused=3), r"tried\[0\].refused must be a text, not 3"),
        (
            lambda d: d["tried"][0].pop("scheduling"),
            r"tried\[0\].scheduling must be a finite number, not None",
        ),
        (lambda d: d.update(linear=3), "linear must be an object, not 3"),
        (lambda d: d.update(linear={"x": {}}), "linear: no rule with learned weights is called 'x'"),
        (
            lambda d: d["linear"].update({"linear-learned": 3}),
            "linear.linear-learned must be an object, not 3",
        ),
        (
            lambda d: d["linear"].update({"linear-learned": {"weight": 1}}),
            "linear.linear-learned: 'weight' is no feature",
        ),
        (
            lambda d: d["linear"].update({"linear-learned": {"mass": math.inf}}),
            "linear.linear-learned.mass must be a finite number, not inf",
        ),
        (lambda d: d["tried"][0].update(more=1), r"tried\[0\]: 'more' has no meaning"),
    ],
)
def test_what_is_wrong_in_a_chosen_one_is_said_too(
    change: Callable[[dict[str, Any]], None], message: str
) -> None:
    changed = _learned()
    assert any_policy_of(copy.deepcopy(changed))[0].schedule(DAG)
    change(changed)
    with pytest.raises(AbwError, match=message):
        any_policy_of(changed)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2**70)
    | st.floats()
    | st.sampled_from(["L", "I", "O", "1/2", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("LIOx"), inner, max_size=3),
    max_leaves=4,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:  # noqa: ANN401
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, one in inner for place in ((*path, key), *_places(one, (*path, key)))]


@given(st.data(), st.sampled_from([RIGHT, BASE, CHOSEN, _learned()]))
def test_what_is_read_can_be_followed(data: st.DataObject, right: dict[str, Any]) -> None:
    changed = copy.deepcopy(right)
    for _ in range(data.draw(st.integers(1, 2))):
        *above, last = data.draw(st.sampled_from(_places(changed)))
        holder = changed
        for key in above:
            holder = holder[key]
        holder[last] = data.draw(JSON)
    try:
        policy, _ = any_policy_of(changed)
    except AbwError:
        return
    if policy.types == DAG.types:
        schedule = policy.schedule(DAG)
        check_schedule(DAG, schedule)
        if isinstance(policy, FsmPolicy):
            policy.visited(DAG, schedule)
        else:
            assert policy.reason
    assert any_policy_of(json.loads(policy.to_json()))[0].to_json() == policy.to_json()
