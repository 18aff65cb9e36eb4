"""What programs ask of several values or branches at once: `abw.each`, `abw.best`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan
from typing import Any

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.program.asks import Best, Picked, question
from abw.core.program.fibers import Branches, Program, require_program
from abw.core.program.runner import RUNNING
from abw.core.program.values import KINDS, Value, owner


def each(function: Program, items: Iterable[Any]) -> list[Any]:
    """What a function returns for each item; all go on side by side, as instances do.

    They belong to the instance of the program that asks, which waits for all. In a generator function:
    `results = yield abw.each(function, items)`. What one raises is raised here, when all have ended. Errors:
    AbwError outside of a program.
    """
    runner = RUNNING.runner
    if runner is None:
        raise AbwError("each is called by a program that runs", hint="net.run(function, instances)")
    require_program(function)
    found: list[Any] = runner.ask(Branches(function, tuple(items)))
    return found


def best(k: int, values: Sequence[Value], plus: Sequence[float] | None = None) -> list[Picked]:
    """The k best elements of several values of scores, as (which value, which element, score), best first.

    A score is the log of the softmax of its value there, and `plus`, one number for each value: beam search
    gives what the sentences so far have. Of equals the first; k, or all where there are fewer. Errors:
    AbwError for values of several shapes, or none.
    """
    if isinstance(values, Value) or not all(isinstance(value, Value) for value in values):
        raise TypeError("best picks among several values: abw.best(k, [value, …])")
    if not values:
        raise AbwError("best needs a value")
    if not isinstance(k, int | np.integer) or k < 1:
        raise AbwError(f"best cannot pick {k!r}", hint="a number of elements, 1 or more")
    start = [0.0] * len(values) if plus is None else [float(number) for number in plus]
    if len(start) != len(values):
        raise AbwError(f"plus has {len(start)} numbers, for {len(values)} values")
    if any(map(isnan, start)):
        raise AbwError(f"plus has what is not a number: {start}")
    net = owner(values[0])
    if any(owner(value) is not net for value in values):
        raise AbwError("best of values of several nets")
    if len({value.ref & (KINDS - 1) for value in values}) > 1:
        shapes = ", ".join(sorted({str(list(value.shape)) for value in values}))
        raise AbwError(f"best of values of several shapes: {shapes}")
    handles = tuple(value.ref for value in values)
    found: list[Picked] = net.ask(question("best", handles, Best(k, tuple(start))))
    return found
