"""Replaces values by arrays in the results of programs, and adds notes to their errors."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from inspect import isawaitable, iscoroutine
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.exec.interface import Array
from abw.core.program.recording.values import KINDS, Value
from abw.core.program.running.fibers import ASYNC, Done, Failed, Program

# Types of what has no values in it.
PLAIN = frozenset({int, float, bool, str, bytes, type(None)})
# The values of handles of one shape.
Read = Callable[[Sequence[int]], Array]


def in_arrays(outcomes: Sequence[Done | Failed | None], read: Read) -> list[Done | Failed]:
    """Return how programs ended, with arrays for all values in lists, tuples, dicts and dataclasses.

    What has no values is not copied; what cannot be returned has failed.

    All values of one shape are read together. Cost: linear in what is returned.
    """
    found: dict[int, Any] = {}

    def note(value: Value) -> object:
        found[value.ref] = None
        return value

    ends: list[Done | Failed] = [end for end in outcomes if end is not None]
    for i, end in enumerate(ends):
        try:
            if isinstance(end, Done):
                _mapped(end.result, note)
        except AbwError as error:
            ends[i] = Failed(error)
    if not found:
        return ends
    shapes: dict[int, list[int]] = {}
    for handle in found:
        shapes.setdefault(handle & (KINDS - 1), []).append(handle)
    try:
        for handles in shapes.values():
            found.update(zip(handles, read(handles), strict=True))
    except AbwError as error:  # somebody's value is of an earlier run
        if len(ends) == 1:
            return [Failed(error)]
        return [end for one in ends for end in in_arrays([one], read)]

    def change(value: Value) -> object:
        return found[value.ref]

    return [end if isinstance(end, Failed) else Done(_mapped(end.result, change)) for end in ends]


def _mapped(thing: Any, change: Callable[[Value], object]) -> Any:  # noqa: ANN401
    """A thing with its values changed; the same thing where it has none. Errors: AbwError."""
    try:
        return _changed(thing, change, set())
    except RecursionError:
        raise AbwError("the returned value is nested too deeply", hint=_FORMS) from None


_FORMS = "lists, tuples, dicts and dataclasses are looked through for values"


def _changed(thing: Any, change: Callable[[Value], object], within: set[int]) -> Any:  # noqa: ANN401
    """See `_mapped`; `within` are the ids of the things that this one is a part of."""
    if isinstance(thing, Value):
        return change(thing)
    if isinstance(thing, str | bytes | int | float) or thing is None:
        return thing
    if isinstance(thing, list | tuple) and PLAIN.issuperset(map(type, thing)):
        return thing
    if not (isinstance(thing, dict | list | tuple | deque) or _is_record(thing)):
        _refuse(thing)
        return thing
    if id(thing) in within:
        raise AbwError(
            f"the returned value contains itself: a {type(thing).__name__} is a part of its parts",
            hint="leave out references back, such as a node's parent",
        )
    within.add(id(thing))
    made: Any = thing
    if isinstance(thing, dict):
        if any(_holds(key) for key in thing):
            raise AbwError(
                "the function returned a dict with values as keys", hint="arrays have no hash: (key, value)"
            )
        changed = _changes(thing.items(), change, within)
        if changed:
            made = copy.copy(thing)
            made.update(changed)
    elif isinstance(thing, list | tuple | deque):
        items = [_changed(item, change, within) for item in thing]
        if any(new is not old for new, old in zip(items, thing, strict=True)):
            made = _again(thing, items)
    else:
        held = [(f.name, getattr(thing, f.name)) for f in fields(thing) if hasattr(thing, f.name)]
        changed = _changes(held, change, within)
        if changed:
            made = copy.copy(thing)  # whatever it does when it is made, and whether it is frozen
            for name, value in changed.items():
                object.__setattr__(made, name, value)
    within.discard(id(thing))
    return made


def _changes(pairs: Any, change: Callable[[Value], object], within: set[int]) -> dict[Any, Any]:  # noqa: ANN401
    """The named things that are changed."""
    made = ((name, value, _changed(value, change, within)) for name, value in pairs)
    return {name: new for name, old, new in made if new is not old}


def _again(thing: Any, items: list[Any]) -> Any:  # noqa: ANN401
    """Make a list, tuple or deque like this one of other items."""
    if isinstance(thing, list):
        return items
    if isinstance(thing, deque):
        return deque(items, thing.maxlen)
    return type(thing)(*items) if hasattr(thing, "_fields") else tuple(items)


def _is_record(thing: object) -> bool:
    return is_dataclass(thing) and not isinstance(thing, type)


def _holds(thing: object) -> bool:
    """Whether a thing that has a hash is a value, or a tuple with one."""
    return isinstance(thing, Value) or (isinstance(thing, tuple) and any(map(_holds, thing)))


def _refuse(thing: object) -> None:
    """Raise AbwError for what may hold values, and cannot be looked through for them."""
    if isawaitable(thing):
        if iscoroutine(thing):
            thing.close()
        raise AbwError("asynchronous programs cannot be run: the function returned a coroutine", hint=ASYNC)
    if isinstance(thing, Iterator):
        hint = "return list(…) of it; a generator function is given to net.run itself"
        raise AbwError(f"a {type(thing).__name__} is returned, which is not run to its end", hint=hint)
    if isinstance(thing, AbstractSet) and any(map(_holds, thing)):
        raise AbwError("the function returned a set of values", hint="arrays have no hash: return a list")
    if isinstance(thing, dict | AbstractSet) or not hasattr(thing, "__dict__"):
        return
    for name, held in vars(thing).items():
        if isinstance(held, Value):
            what = f"a {type(thing).__name__} is returned, whose '{name}' is a value"
            raise AbwError(what, hint=f"make it a dataclass: {_FORMS}")


def noted(error: BaseException, function: Program, number: int, others: Sequence[int] = ()) -> BaseException:
    """Add a note to an error: in which instance it was raised."""
    name = getattr(function, "__name__", type(function).__name__)
    error.add_note(f"in instance {number} of {name}")
    if others:
        shown = ", ".join(map(str, others[:10])) + (", …" if len(others) > 10 else "")
        error.add_note(f"instances {shown} failed, too; errors='return' gives the results of the rest")
    return error
