"""Questions of programs to values, and their answers; questions of one kind are answered together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.exec.interface import Array, Picked
from abw.core.graph.growing.beam import log_shares, log_softmax
from abw.core.graph.growing.decide import GOLDEN, WORD, Bools, among, drawn, sampled, shares

# An int of `argmax` and `sample`, a bool of `above`, an array of `value`, of `best` a list of `Picked`.
Answer = Any


class Ask:
    """A question to values, by their handles: its kind is `how`, its `argument` a limit, the bytes of what is
    allowed, or a `Best`.

    A generator function yields it; it can be used for nothing else.
    """

    __slots__ = ("argument", "chance", "handles", "how")
    how: str
    handles: tuple[int, ...]
    argument: Any
    chance: float

    def _unanswered(self, *_: object) -> NoReturn:
        raise TypeError(f"a generator function yields what it asks: answer = yield value.{self.how}(…)")

    __bool__ = __index__ = __int__ = __float__ = __iter__ = __getitem__ = __eq__ = _unanswered
    __hash__ = object.__hash__


def question(how: str, handles: tuple[int, ...], argument: Any) -> Ask:  # noqa: ANN401
    """Make an `Ask`: a function takes half the time of a constructor."""
    made = Ask()
    made.how = how
    made.handles = handles
    made.argument = argument
    return made


class Best(NamedTuple):
    """The argument of `best`: how many elements, and what each value's scores begin with."""

    k: int
    plus: tuple[float, ...]


def chance(seed: int, instance: int, path: int, count: int) -> float:
    """Return the random number of a draw, from 0 to below 1.

    `path` says which of the instance's programs draws, `count` how many it drew before.
    """
    x = np.array([(instance << 32) ^ count], np.int64).astype(np.uint64)
    return float(drawn(x, (seed * GOLDEN + path) & WORD)[0])


class Asks(NamedTuple):
    """Questions in a tape's layout (see `HEAD`): `rows` (n, ASK_WORDS), and what these name."""

    rows: NDArray[np.int64]
    masks: NDArray[np.uint8]
    handles: NDArray[np.int64]
    plus: NDArray[np.float64]


# What stands for a question that is among `Asks`.
ARGMAX, ABOVE, BEST = (question(how, (), None) for how in ("argmax", "above", "best"))
NOTED = frozenset(map(id, (ARGMAX, ABOVE, BEST)))


def unpacked(asks: Asks) -> list[Ask]:
    """Questions one by one."""
    limits, found = asks.rows.view(np.float64)[:, 2].tolist(), []
    for (way, handle, given, length, k, _), limit in zip(asks.rows.tolist(), limits, strict=True):
        some = slice(given, given + length)
        if way == 2:
            argument = Best(k, tuple(asks.plus[some].tolist()))
            found.append(question("best", tuple(asks.handles[some].tolist()), argument))
        elif way == 1:
            found.append(question("above", (handle,), limit))
        else:
            mask = asks.masks[some].tobytes() if given >= 0 else None
            found.append(question("argmax", (handle,), mask))
    return found


def answer(how: str, rows: Array, asks: Sequence[Ask]) -> list[Answer]:
    """Answer questions of one kind; `rows` holds the values of the first question, then of the second, ….

    An answer that is an AbwError is to be raised by the program that asked. Cost: linear in the values.
    """
    if how == "value":
        return list(rows)
    flat = rows.reshape(len(rows), -1)
    odd: NDArray[np.bool_] = np.asarray(np.isnan(flat).any(axis=1))
    if how == "best":
        return _bests(flat, odd, asks)
    found: list[Answer]
    if how == "above":
        found = (flat[:, 0] > np.array([ask.argument for ask in asks])).tolist()
    else:
        may = allowed(flat, asks)
        scores = masked(flat, may)
        if how == "argmax":
            chosen = scores.argmax(axis=1)
        else:
            chosen = sampled(scores, np.array([ask.chance for ask in asks]))
        if may is not None:
            chosen = among(chosen, scores, may)
        found = chosen.tolist()
    if odd.any():
        both = zip(asks, odd.tolist(), found, strict=True)
        return [_odd(ask) if wrong else got for ask, wrong, got in both]
    return found


def allowed(flat: Array, asks: Sequence[Ask]) -> Bools | None:
    """Return which choices are allowed (n, choices); None if all are."""
    if all(ask.argument is None for ask in asks):
        return None
    everything = b"\1" * flat.shape[1]
    return np.frombuffer(b"".join([ask.argument or everything for ask in asks]), np.bool_).reshape(flat.shape)


def masked(flat: Array, may: Bools | None) -> Array:
    """Return the scores (n, choices), with -inf for choices that are not allowed."""
    return flat if may is None else np.where(may, flat, -np.inf)


def _bests(flat: Array, odd: Bools, asks: Sequence[Ask]) -> list[Answer]:
    """The best of each question's values; with `odd` values a question has no answer."""
    ends = accumulate([len(ask.handles) for ask in asks], initial=0)
    return [
        _odd(ask) if odd[a:b].any() else best(flat[a:b], *ask.argument)
        for (a, b), ask in zip(pairwise(ends), asks, strict=True)
    ]


def best(rows: Array, k: int, plus: Sequence[float]) -> list[Picked]:
    """The k elements with the largest total scores, the largest first; of equals the first."""
    least = np.partition(rows, -min(k, rows.shape[1]))[:, -min(k, rows.shape[1])]
    row, number = np.nonzero(rows >= least[:, None])
    order = np.lexsort((-rows[row, number], row))
    row, number = row[order], number[order]
    total = np.array(plus)[row] + log_shares(rows, row, number)
    order = np.argsort(-total, kind="stable")[:k]
    return [*zip(row[order].tolist(), number[order].tolist(), total[order].tolist(), strict=True)]


def total_scores(flat: Array, plus: Sequence[float]) -> NDArray[np.float64]:
    """Add the log softmax of each row to its initial score, in double precision."""
    return np.asarray(np.array(plus)[:, None] + log_softmax(flat))


def margin(how: str, rows: Array, ask: Ask, taken: Answer) -> tuple[Answer, float]:
    """Return the answer to one question by these values, and its margin.

    Where `taken` is another answer, the second number is what it lacks: the difference of their scores, for
    draws that of the drawn number from the share. Infinite where there is no other choice.
    """
    right = answer(how, rows, [ask])[0]
    flat = rows.reshape(len(rows), -1)
    if how == "value":
        return right, 0.0
    if how == "above":
        return right, abs(float(flat[0, 0]) - ask.argument)
    if how == "best":
        return right, _best_margin(flat, ask.argument, right, taken)
    scores = masked(flat, allowed(flat, [ask]))[0]
    if how == "sample":
        ends = shares(scores[None])[0]
        return right, float(np.abs(ends[:-1] - ask.chance).min(initial=np.inf))
    if taken != right:
        return right, float(scores[right] - scores[taken])
    others = np.delete(scores, right)
    return right, float(scores[right] - others.max(initial=-np.inf))


def _best_margin(flat: Array, argument: Best, right: list[Picked], taken: list[Picked]) -> float:
    """The least gap between scores taken, or to the first left; or what those taken lack."""
    scores = total_scores(flat, argument.plus)
    if [p[:2] for p in taken] != [p[:2] for p in right]:
        lacks = [abs(scores[t[:2]] - scores[r[:2]]) for t, r in zip(taken, right, strict=True)]
        return float(max(lacks))
    left = scores.copy()
    for which, index, _ in right:
        left[which, index] = -np.inf
    kept = [score for _, _, score in right]
    gaps = [a - b for a, b in zip(kept, [*kept[1:], float(left.max(initial=-np.inf))], strict=True)]
    return min(gaps)


def _odd(ask: Ask) -> AbwError:
    hint = "`net.run(…, eager=True)` computes each cell where it is called: print and pdb show its values"
    return AbwError(f"a score is not a number: {ask.how} cannot choose", hint=hint)
