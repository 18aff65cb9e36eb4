"""Policies of one's own, by where they are: `module:Class`, `policy.py`, or `policy.py:Class`."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from abw.core.base.errors import AbwError, did_you_mean
from abw.core.base.modules import beside
from abw.core.graph.dag import Dag
from abw.core.policy.foreign import Foreign
from abw.core.policy.schedule import Policy, Schedule

FORMS = "module:Class, policy.py or policy.py:Class"
"""How a policy of one's own is named."""


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
    if where.endswith(".py"):
        path = Path(where).resolve()
        if not path.is_file():
            raise AbwError(f"there is no file {where}", hint=f"a policy of your own is named {FORMS}")
        module = _of_file(path, path.stat().st_mtime_ns)
    else:
        module = _imported(where)
    if not wanted:
        wanted = _only(module, where)
    elif not hasattr(module, wanted):
        hint = did_you_mean(wanted, _classes(module))
        raise AbwError(f"{where} has nothing called '{wanted}'", hint=hint)
    found: Any = getattr(module, wanted)
    with _placed(name):
        made: Any = found() if inspect.isclass(found) else found
    return Foreign(_Placed(Foreign(made, name).policy, name), name)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A policy whose exceptions say where in its file they were raised."""

    policy: Policy
    name: str

    def schedule(self, dag: Dag) -> Schedule:
        with _placed(self.name):
            return self.policy.schedule(dag)


@contextmanager
def _placed(name: str) -> Iterator[None]:
    """Let exceptions of the block be AbwErrors with the line of the policy's file that they came from."""
    try:
        yield
    except AbwError:
        raise
    except SyntaxError as error:
        raise AbwError(f"{_near(error.filename or name)}:{error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        passed = (__file__, importlib.__file__, contextlib.__file__)
        every = traceback.extract_tb(error.__traceback__)
        frames = [f for f in every if f.filename not in passed and not f.filename.startswith("<")]
        lines = [f.lineno for f in frames if f.filename == frames[0].filename]
        place = f"{_near(frames[0].filename)}:{lines[-1]}" if frames else name
        raise AbwError(f"{place}: {type(error).__name__}: {error}") from error


def _near(file: str) -> str:
    """A file's name from the folder at hand, where it is in there."""
    path = Path(file)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


@cache
def _of_file(path: Path, _modified: int) -> ModuleType:
    """The module that a file is, run once as long as it stays the same."""
    spec = spec_from_file_location(f"abw_policy_{path.stem}", path)
    assert spec and spec.loader
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # as dataclasses want it
    with _placed(str(path)), beside(path.parent):
        spec.loader.exec_module(module)
    return module


def _imported(name: str) -> ModuleType:
    with _placed(name), beside(Path.cwd()):
        try:
            return importlib.import_module(name)
        except (ModuleNotFoundError, ValueError) as error:
            if name and not f"{name}.".startswith(f"{getattr(error, 'name', '')}."):
                raise
            hint = f"a policy of your own is named {FORMS}"
            raise AbwError(f"there is no module '{name}'", hint=hint) from None


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
