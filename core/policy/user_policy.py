"""Policies of one's own, by where they are: `module:Class`, `policy.py`, or `policy.py:Class`."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from abw.core.base.errors import AbwError, did_you_mean
from abw.core.base.modules import module_at, placed
from abw.core.graph.dag import Dag
from abw.core.policy.foreign import Foreign
from abw.core.policy.schedule import Policy, Schedule

# How a policy of one's own is named.
FORMS = "module:Class, policy.py or policy.py:Class"


def is_own(name: str) -> bool:
    """Whether a name is that of a policy of one's own."""
    return name.endswith(".py") or (":" in name and not name.endswith(".json"))


def own_policy(name: str) -> Foreign:
    """A policy of one's own, made without arguments; each of its schedules is checked (`Foreign`).

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
    return Foreign(_Placed(Foreign(made, name).policy, name), name)


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
