"""Policies from outside, by where they are: `module:Class`, `policy.py`, or `policy.py:Class`.

What they give back is checked before compiled code follows it.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, CheckError, did_you_mean
from abw.core.base.modules import module_at, placed
from abw.core.graph.dag import Dag
from abw.core.jit.decorators import njit
from abw.core.policy.check import check_schedule
from abw.core.policy.schedule import Policy, Schedule

Ints = NDArray[np.int32]
# How a policy of one's own is named.
FORMS = "module:Class, policy.py or policy.py:Class"


@dataclass(frozen=True, slots=True)
class Validated:
    """A policy that abw does not know, each of whose schedules is checked.

    `name` is what errors call it, that of its class if there is none. Raises AbwError where it has no method
    `schedule`.
    """

    policy: Policy
    name: str = ""

    def __post_init__(self) -> None:
        if not callable(getattr(self.policy, "schedule", None)):
            kind = type(self.policy).__name__
            raise AbwError(f"a {kind} is no policy", hint="a policy has a method schedule(dag)")

    def schedule(self, dag: Dag) -> Schedule:
        """Its schedule of the dag. Errors: see `checked`."""
        return checked(self.policy.schedule(dag), dag, f"policy {self.name or type(self.policy).__name__}")


def checked(schedule: object, dag: Dag, name: str) -> Schedule:
    """A schedule of the dag, with arrays of 32-bit integers, made of what `name` gave.

    Every node must be executed once, after its producers, in batches of one type; arrays may be of any whole
    numbers, as lists too. Errors: AbwError that says which node or batch is wrong. Cost: some 3 ns a node.
    """
    if not isinstance(schedule, Schedule):
        raise AbwError(
            f"{name}: this is no Schedule but of type {type(schedule).__name__}",
            hint="from abw.core.policy.schedule import Schedule",
        )
    if not isinstance(schedule.unseen, int):
        raise AbwError(f"{name}: 'unseen' must be a number of steps")
    if schedule.split is not None:
        raise AbwError(f"{name}: a schedule's split is for executors to make")
    launch_ptr = None if schedule.launch_ptr is None else _ints(schedule.launch_ptr, "launch_ptr", name)
    found = replace(
        schedule,
        type=_ints(schedule.type, "type", name),
        ptr=_ints(schedule.ptr, "ptr", name),
        nodes=_ints(schedule.nodes, "nodes", name),
        launch_ptr=launch_ptr,
    )
    launch_of = np.full(len(dag), -1, np.int32)
    arrays = (found.type, found.ptr, found.nodes, found.launches)
    if not _follows(*arrays, dag.type, dag.succ_ptr, dag.succ, launch_of):
        try:
            check_schedule(dag, found)
        except CheckError as error:
            raise AbwError(f"{name}: {error}") from None
    return found


def _ints(given: object, what: str, name: str) -> Ints:
    """Whole numbers as a contiguous array of 32-bit ones. Errors: AbwError."""
    try:
        array = np.asarray(given)
    except ValueError:  # lists of lists of several lengths
        array = np.empty((0, 0))
    if array.ndim != 1 or not (array.dtype.kind in "iu" or not len(array)):
        shape = f"{array.ndim} dimensions of {array.dtype}"
        raise AbwError(f"{name}: '{what}' must be a row of integers, not {shape}")
    if array.dtype != np.int32 and len(array) and not -(2**31) <= array.min() <= array.max() < 2**31:
        raise AbwError(f"{name}: '{what}' holds numbers of more than 32 bits")
    return np.require(array, np.int32, ["C", "W"])


@njit
def _follows(
    type: Ints,
    ptr: Ints,
    nodes: Ints,
    launches: Ints,
    node_type: Ints,
    succ_ptr: Ints,
    succ: Ints,
    launch_of: Ints,
) -> bool:
    """Whether `check_schedule` would find nothing. `launch_of` (n,) is -1."""
    n, batches = len(node_type), len(type)
    if len(ptr) != batches + 1 or len(nodes) != n or ptr[0] != 0 or ptr[batches] != n:
        return False
    if len(launches) < 1 or launches[0] != 0 or launches[-1] != batches:
        return False
    for launch in range(len(launches) - 1):
        # `<= batches` and `<= n`: what comes after may go down again
        if not launches[launch] < launches[launch + 1] <= batches:
            return False
        for b in range(launches[launch], launches[launch + 1]):
            if not ptr[b] < ptr[b + 1] <= n:
                return False
            for i in range(ptr[b], ptr[b + 1]):
                v = nodes[i]
                if not 0 <= v < n or node_type[v] != type[b] or launch_of[v] >= 0:
                    return False
                launch_of[v] = launch
    for v in range(n):
        for e in range(succ_ptr[v], succ_ptr[v + 1]):
            if launch_of[succ[e]] <= launch_of[v]:
                return False
    return True


def is_user_policy(name: str) -> bool:
    """Whether a name is that of a policy of one's own."""
    return name.endswith(".py") or (":" in name and not name.endswith(".json"))


def load_user_policy(name: str) -> Validated:
    """Load your own policy, made without arguments; each of its schedules is checked (`Validated`).

    A file's class need not be named where it has but one with a method `schedule`; modules are looked for
    where Python does, and in the folder at hand. Its code is run. What it raises becomes an AbwError with the
    place in its file. Errors: AbwError where there is no such file, module, or class.
    """
    where, _, wanted = (name, "", "") if name.endswith(".py") else name.rpartition(":")
    module = module_at(where, f"a policy of your own is named {FORMS}")
    if not wanted:
        wanted = _only(module, where)
    elif not hasattr(module, wanted):
        hint = did_you_mean(wanted, _classes(module))
        raise AbwError(f"{where} has nothing called '{wanted}'", hint=hint)
    found: Any = getattr(module, wanted)
    with placed(name, __file__):
        made: Any = found() if inspect.isclass(found) else found
    return Validated(_Placed(Validated(made, name).policy, name), name)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A policy whose exceptions say where in its file they were raised."""

    policy: Policy
    name: str

    def schedule(self, dag: Dag) -> Schedule:
        with placed(self.name, __file__):
            return self.policy.schedule(dag)


def _classes(module: ModuleType) -> list[str]:
    """The names of a module's own classes with a method `schedule`."""
    found = inspect.getmembers(module, inspect.isclass)
    return [n for n, c in found if c.__module__ == module.__name__ and callable(getattr(c, "schedule", None))]


def _only(module: ModuleType, where: str) -> str:
    """The name of a file's one policy. Errors: AbwError where there are none or several."""
    names = _classes(module)
    if not names:
        raise AbwError(
            f"{where} has no class with a method schedule(dag)", hint="docs/extending.md shows one"
        )
    if len(names) > 1:
        said = ", ".join(f"{where}:{name}" for name in names)
        raise AbwError(f"{where} has {len(names)} policies", hint=f"name one: {said}")
    return names[0]
