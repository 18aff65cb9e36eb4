"""Schedules from outside: the compiled check agrees with the plain one, whatever is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import AbwError, CheckError
from abw.core.graph.dag import Dag
from abw.core.policy.check import check_schedule
from abw.core.policy.registry import PLAIN, get_policy
from abw.core.policy.rules.depth import Depth
from abw.core.policy.schedule import Schedule
from abw.core.policy.user_policy import Validated, checked
from tests.core.policy import graphs
from tests.core.policy.test_policies import RANDOM

ARRAYS = ("type", "ptr", "nodes", "launch_ptr")


@given(RANDOM, st.sampled_from(PLAIN))
def test_schedules_of_every_policy_pass(dag: Dag, name: str) -> None:
    schedule = get_policy(name).schedule(dag)
    found = checked(schedule, dag, name)
    for array in ARRAYS[:3]:
        np.testing.assert_array_equal(getattr(found, array), getattr(schedule, array))


@given(RANDOM, st.data())
def test_finds_what_the_plain_checker_finds(dag: Dag, data: st.DataObject) -> None:
    right = Depth().schedule(dag)
    if data.draw(st.booleans()):
        right = replace(right, launch_ptr=right.launches)
    name = data.draw(st.sampled_from(ARRAYS))
    array = getattr(right, name)
    values = [] if array is None else array.tolist()
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, max(0, len(values) - 1)))
        number = st.integers(-2, len(dag) + 2) | st.sampled_from([-(2**31), 2**31 - 1])
        change = data.draw(st.sampled_from(["set", "drop", "repeat", "swap"]))
        if change == "set":
            values[at : at + 1] = [data.draw(number)]
        elif change == "drop":
            del values[at : at + 1]
        elif change == "repeat":
            values[at:at] = values[at : at + 1]
        else:
            values[at : at + 2] = values[at : at + 2][::-1]
    new: dict[str, Any] = {name: np.array(values, np.int32)}
    changed = replace(right, **new)
    try:
        check_schedule(dag, changed)
    except CheckError as error:
        with pytest.raises(AbwError) as raised:
            checked(changed, dag, "policy Mine")
        assert raised.value.message == f"policy Mine: {error}"
    else:
        checked(changed, dag, "policy Mine")


class Given:
    """A policy that gives what it was given."""

    def __init__(self, schedule: Any) -> None:  # noqa: ANN401
        self.given = schedule

    def schedule(self, dag: Dag) -> Any:  # noqa: ANN401
        return self.given


DAG = graphs.dag("ab", [0, 0, 0, 1], [(0, 2), (2, 3)])
TYPE, PTR, NODES = [0, 0, 1], [0, 2, 3, 4], [0, 1, 2, 3]


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int16, np.int32])
def test_whole_numbers_of_all_sizes_are_taken(kind: type[Any]) -> None:
    wide: Any = [np.repeat(np.array(values, kind), 2)[::2] for values in (TYPE, PTR, NODES)]
    found = Validated(Given(Schedule(*wide))).schedule(DAG)
    for name, values in zip(ARRAYS, (TYPE, PTR, NODES), strict=False):
        array = getattr(found, name)
        assert (array.dtype, array.tolist()) == (np.int32, values)
        assert array.flags.c_contiguous


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "this is no Schedule but of type NoneType"),
        ([[0, 1], [2], [3]], "this is no Schedule but of type list"),
        (Schedule(TYPE, PTR, [0, 1, 2, 2]), "node 2 of type a is in batch 2|node 2 is executed 2 times"),  # type: ignore[arg-type]
        (Schedule(TYPE[:2], PTR[:3], NODES[:3]), "node 3 is never executed"),  # type: ignore[arg-type]
        (Schedule(TYPE, PTR, np.array(NODES, np.float64)), "'nodes' must be a row of integers"),  # type: ignore[arg-type]
        (Schedule(TYPE, PTR, np.array([NODES])), "'nodes' must be a row of integers"),  # type: ignore[arg-type]
        (Schedule(TYPE, PTR, [[0, 1], [2], [3]]), "'nodes' must be a row of integers"),  # type: ignore[arg-type]
        (Schedule(TYPE, PTR, None), "'nodes' must be a row of integers"),  # type: ignore[arg-type]
        (Schedule(TYPE, PTR, [0, 1, 2, 2**40]), "'nodes' holds numbers of more than 32 bits"),  # type: ignore[arg-type]
        (Schedule(TYPE, PTR, NODES, "none"), "'unseen' must be a number"),  # type: ignore[arg-type]
        (Schedule(TYPE, PTR, NODES, split=np.zeros((3, 2), np.int32)), "split"),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_is_said(given: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(AbwError, match=f"policy Given: .*({message})"):
        Validated(Given(given)).schedule(DAG)


def test_what_is_no_policy() -> None:
    with pytest.raises(AbwError, match="a list is no policy"):
        Validated([])  # type: ignore[arg-type]
