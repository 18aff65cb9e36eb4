"""Checks a program: what differs when instances run together, alone, and in double precision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import number_of
from abw.core.program.running.eager import Weighed
from abw.core.program.running.fibers import Done, Failed, Program
from abw.core.program.running.results import noted
from abw.core.program.running.task import Log
from abw.core.program.session import ProgramGranularity, Session


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of checking a program.

    `unlike_alone`: instances that decide or return otherwise when they run alone, to the bit. `decisions`
    were made; `close` of them come out otherwise in double precision, both choices being as good within the
    tolerance; `wrong` are those that do by more, as (instance, question, margin). `margin` is the least by
    which a decision was right. `difference` is the largest of a returned or asked value to double precision,
    relative to the root mean square of all.
    """

    instances: int
    decisions: int
    close: int
    wrong: tuple[tuple[int, str, float], ...]
    margin: float
    difference: float
    tolerance: float
    unlike_alone: tuple[int, ...]

    @property
    def ok(self) -> bool:
        """Whether all is right."""
        return not self.wrong and not self.unlike_alone and self.difference <= self.tolerance

    def __str__(self) -> str:
        said = [
            f"{number_of(self.instances, 'instance')}, {number_of(self.decisions, 'decision')}: "
            f"{len(self.wrong)} wrong, {self.close} different in double precision but within the tolerance",
            f"smallest margin {self.margin:.3g}; largest difference of a value {self.difference:.3g} "
            f"(tolerance {self.tolerance:g})",
        ]
        said += [f"wrong: instance {i}, {how}, by {by:.3g}" for i, how, by in self.wrong[:10]]
        if self.unlike_alone:
            said.append(f"instances with other results alone: {', '.join(map(str, self.unlike_alone[:10]))}")
        return "\n".join(said)


def verify(
    session: Session,
    function: Program,
    items: Sequence[object],
    numbers: Sequence[int],
    granularity: ProgramGranularity,
    batch: int,
    tolerance: float,
) -> Verified:
    """See `Net.verify`; the instances have these numbers. Raises what a program raises.

    Cost: that of each instance in double precision.
    """

    log: Log = {}
    alone: Log = {}
    results: list[object] = []
    unlike: list[int] = []
    for first in range(0, len(items), batch):
        now = numbers[first : first + batch]
        ends = session.run(function, items[first : first + batch], now, granularity, log).ends
        results += [_plain(end, function, i) for i, end in zip(now, ends, strict=True)]
    for i, item, result in zip(numbers, items, results, strict=True):
        once = _plain(session.run(function, [item], [i], granularity, alone).ends[0], function, i)
        if _bits(result) != _bits(once) or _answers(log, i) != _answers(alone, i):
            unlike.append(i)
    ends, weighed = session.run_eagerly(function, items, numbers, log)
    exact = [_plain(end, function, i) for i, end in zip(numbers, ends, strict=True)]
    decided = [one for one in weighed if one.how != "value"]
    shown = [one for one in weighed if one.how == "value"]
    judged = [(one, _judge(one, tolerance)) for one in decided]
    margins = [one.margin for one, state in judged if state == "right"]
    return Verified(
        len(items),
        len(decided),
        sum(state == "close" for _, state in judged),
        tuple((one.path[0], one.how, one.margin) for one, state in judged if state == "wrong"),
        min(margins, default=float("inf")),
        _difference(
            [*arrays_of(results), *(one.taken for one in shown)],
            [*arrays_of(exact), *(one.right for one in shown)],
        ),
        tolerance,
        tuple(unlike),
    )


def _plain(end: Done | Failed, function: Program, number: int) -> Any:  # noqa: ANN401
    """An instance's result; raises what its program raised."""
    if isinstance(end, Failed):
        raise noted(end.error, function, number)
    return end.result


def _answers(log: Log, instance: int) -> list[Any]:
    """All answers that the programs of an instance got, to be compared."""
    paths = sorted(path for path in log if path[0] == instance)
    return [(path, [_bytes(got) for _, got in log[path]]) for path in paths]


def _bytes(got: Any) -> object:  # noqa: ANN401
    return got.tobytes() if isinstance(got, np.ndarray) else got


def _judge(one: Weighed, tolerance: float) -> str:
    if _picks(one.right) == _picks(one.taken):
        return "right"
    finite = one.rows[np.isfinite(one.rows)]
    scale = float(np.sqrt(np.mean(np.square(finite)))) if finite.size else 1.0
    if one.how in ("sample", "best"):
        scale = max(scale, 1.0)
    return "close" if one.margin <= 2 * tolerance * scale else "wrong"


def _picks(answer: Any) -> object:  # noqa: ANN401
    """A decision without the scores of `best`."""
    return [picked[:2] for picked in answer] if isinstance(answer, list) else answer


def arrays_of(thing: Any) -> Iterator[NDArray[Any]]:  # noqa: ANN401
    """All arrays of results, in order."""
    if isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from arrays_of(value)
    elif isinstance(thing, list | tuple):
        for item in thing:
            yield from arrays_of(item)
    elif hasattr(thing, "__dataclass_fields__"):
        for name in thing.__dataclass_fields__:
            yield from arrays_of(getattr(thing, name))


def _bits(thing: Any) -> list[tuple[tuple[int, ...], bytes]]:  # noqa: ANN401
    """The arrays of results, to be compared to the bit."""
    return [(array.shape, array.tobytes()) for array in arrays_of(thing)]


def _difference(got: Sequence[NDArray[Any]], exact: Sequence[NDArray[Any]]) -> float:
    """The largest difference, relative to the root mean square of what is exact."""
    if [a.shape for a in got] != [b.shape for b in exact]:
        return float("inf")
    if not got:
        return 0.0
    a = np.concatenate([np.asarray(x, np.float64).ravel() for x in got])
    b = np.concatenate([np.asarray(x, np.float64).ravel() for x in exact])
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    rms = float(np.sqrt(np.mean(np.square(b[finite]))))
    largest = float(np.abs(a[finite] - b[finite]).max())
    return largest / rms if rms > 0 else largest
