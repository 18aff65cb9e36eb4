"""Questions to several values or branches at once: `abw.each`, `abw.best`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.exec.interface import Picked
from abw.core.program.recording.values import Value, refuse_best
from abw.core.program.running.fibers import Branches, Program, require_program
from abw.core.program.running.task import RUNNING


def each(function: Program, items: Iterable[Any]) -> list[Any]:
    """Run a function on each item, all concurrently, as instances are; returns the results in order.

    The program that calls it waits for all of them. In a generator function write `results = yield
    abw.each(function, items)`. An exception in one of them is raised here when all have ended.
    Errors: AbwError outside of a program.
    """
    runner = RUNNING.runner
    if runner is None:
        raise AbwError(
            "abw.each can be called only in a running program", hint="net.run(function, instances)"
        )
    require_program(function)
    found: list[Any] = runner.ask(Branches(function, tuple(items)))
    return found


def best(k: int, values: Sequence[Value], plus: Sequence[float] | None = None) -> list[Picked]:
    """Find the k best elements of several values: (value's index, element's index, score), best first.

    An element's score is its log softmax in its value, added to that value's number in `plus`: in beam search
    the score of the sentence so far. Of equals the first wins. Returns all elements if there are fewer than
    k.
    Errors: AbwError for values of several shapes, or none.
    """
    try:
        ask = values[0]._best
    except (TypeError, LookupError, AttributeError):
        refuse_best(values)
    return ask(values, k, [0.0] * len(values) if plus is None else plus)
