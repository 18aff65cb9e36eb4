"""What programs return, with arrays in the place of values; and what they raise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from abw.core.exec.interface import Array
from abw.core.program.fibers import Program
from abw.core.program.values import KINDS, Value

PLAIN = frozenset({int, float, bool, str, bytes, type(None)})
"""Types of what has no values in it."""
Read = Callable[[Sequence[int]], Array]
"""The values of handles of one shape."""


def with_arrays(results: Sequence[object], read: Read) -> list[Any]:
    """The same with arrays for all values in lists, tuples, dicts and dataclasses; what has none is itself.

    All values of one shape are read together. Cost: linear in what is returned.
    """
    found: dict[int, Any] = {}

    def note(value: Value) -> object:
        found[value.ref] = None
        return value

    for result in results:
        _mapped(result, note)
    shapes: dict[int, list[int]] = {}
    for handle in found:
        shapes.setdefault(handle & (KINDS - 1), []).append(handle)
    for handles in shapes.values():
        found.update(zip(handles, read(handles), strict=True))
    return [_mapped(result, lambda value: found[value.ref]) for result in results] if found else [*results]


def _mapped(thing: Any, change: Callable[[Value], object]) -> Any:  # noqa: ANN401
    """A thing with its values changed; the same thing where it has none."""
    if type(thing) in PLAIN:
        return thing
    if isinstance(thing, Value):
        return change(thing)
    if isinstance(thing, dict):
        made = {key: _mapped(value, change) for key, value in thing.items()}
        return made if any(made[key] is not thing[key] for key in thing) else thing
    if isinstance(thing, list | tuple):
        if PLAIN.issuperset(map(type, thing)):
            return thing
        items = [_mapped(item, change) for item in thing]
        if all(new is old for new, old in zip(items, thing, strict=True)):
            return thing
        if isinstance(thing, list):
            return items
        return type(thing)(*items) if hasattr(thing, "_fields") else tuple(items)
    if is_dataclass(thing) and not isinstance(thing, type):
        held = {f.name: getattr(thing, f.name) for f in fields(thing) if f.init}
        made = {name: _mapped(value, change) for name, value in held.items()}
        changed = {name: value for name, value in made.items() if value is not held[name]}
        return replace(thing, **changed) if changed else thing
    return thing


def noted(error: Exception, function: Program, number: int, others: Sequence[int] = ()) -> Exception:
    """An error with a note in which instance it was raised."""
    name = getattr(function, "__name__", type(function).__name__)
    error.add_note(f"in instance {number} of {name}")
    if others:
        shown = ", ".join(map(str, others[:10])) + (", …" if len(others) > 10 else "")
        error.add_note(f"instances {shown} failed, too; errors='return' gives the results of the rest")
    return error
