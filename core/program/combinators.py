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
    """Run a function for each item, all concurrently as instances are; gives what it returns for each.

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
    """Find the k best elements of several values of scores: (which value, which element, score), best first.

    A score is the log of the softmax of its value there, and `plus`, one number for each value: beam search
    gives what the sentences so far have. Of equals the first; k, or all where there are fewer. Errors:
    AbwError for values of several shapes, or none.
    """
    try:
        ask = values[0]._best
    except (TypeError, LookupError, AttributeError):
        refuse_best(values)
    return ask(values, k, plus)
