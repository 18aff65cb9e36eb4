"""Pictures of time: what each batch of a run took, on which thread, and why threads waited."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.interface import Executed
from abw.viz.data.pictures import listed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

REASONS = (
    "between batches",
    "others' parts of the batch take longer",
    "the batch is one thread's alone",
    "wakes up",
    "has nothing left to do",
)
# Why a thread stood still. Between batches no thread computes: they look up the next one, or meet.
BETWEEN, UNEVEN, ALONE, WAKES, ENDS = range(len(REASONS))


Wait = tuple[int, float, float, int, int]


def _waits(thread: Ints, batch: Ints, start: Floats, stop: Floats, threads: int, end: float) -> list[Wait]:
    """The gaps of every thread, in pieces: thread, start, length, reason, batch that it was for."""
    ptr = np.searchsorted(thread, np.arange(threads + 1))
    mine = [slice(int(ptr[t]), int(ptr[t + 1])) for t in range(threads)]
    found: list[Wait] = []
    for t in range(threads):
        begins, ends, own = start[mine[t]], stop[mine[t]], set(batch[mine[t]].tolist())
        edges = zip(np.append(0.0, ends).tolist(), np.append(begins, end).tolist(), strict=True)
        for number, (low, high) in enumerate(edges):
            for begin, until, b in _behind(low, high, mine[:t] + mine[t + 1 :], batch, start, stop):
                why = BETWEEN if b < 0 else UNEVEN if b in own else ALONE
                if number == 0 or (number == len(ends) and why != UNEVEN):
                    why = ENDS if number else WAKES
                found.append((t, begin, until - begin, why, b))
    return found


def _behind(
    low: float, high: float, others: Sequence[slice], batch: Ints, start: Floats, stop: Floats
) -> list[tuple[float, float, int]]:
    """Find the batch that other threads run in each piece between two moments: the last to end, or -1."""
    parts: list[tuple[float, float, int]] = []
    for part in others:
        first, last = np.searchsorted(stop[part], low, "right"), np.searchsorted(start[part], high)
        rows = slice(part.start + int(first), part.start + int(last))
        parts += zip(stop[rows].tolist(), start[rows].tolist(), batch[rows].tolist(), strict=True)
    inside = {at for ends, begins, _ in parts for at in (ends, begins) if low < at < high}
    found: list[tuple[float, float, int]] = []
    for begin, until in pairwise(sorted({low, high, *inside})):
        *_, b = max((p for p in parts if p[1] <= begin and p[0] >= until), default=(0.0, 0.0, -1))
        if found and found[-1][2] == b:
            begin = found.pop()[0]
        found.append((begin, until, int(b)))
    return found


def times_document(found: Executed, batches: int) -> dict[str, Any]:
    """What threads did in one run of B batches, in microseconds from its first batch on until `end`.

    k parts of batches: `thread`, `batch`, `rows`, `start`, `took`, `share` of a core's peak (None without
    products), all (k,). `busy` (B,): the time of all threads together. `waits` (w,) each: thread, start,
    length, why (into `reasons`), and the batch that it was for, -1 for none. Cost: some 5 us a part for each
    thread.
    """
    order = np.lexsort((found.start, found.thread))
    thread, batch = (np.asarray(array[order], np.int64) for array in (found.thread, found.batch))
    first = float(found.start.min(initial=np.inf)) if len(order) else 0.0
    start, stop = 1e6 * (found.start[order] - first), 1e6 * (found.end[order] - first)
    threads, end, took = int(thread.max(initial=-1)) + 1, float(stop.max(initial=0.0)), stop - start
    waits = _waits(thread, batch, start, stop, threads, end)
    shares = found.share_of_peak[order].tolist()
    return {
        "threads": threads,
        "end": round(end, 2),
        **listed(thread=thread, batch=batch, rows=found.rows[order]),
        **listed(start=start.round(2), took=took.round(2), busy=np.bincount(batch, took, batches).round(2)),
        "share": [round(share, 3) if np.isfinite(share) else None for share in shares],
        "reasons": REASONS,
        "waits": {
            name: [round(wait[i], 2) for wait in waits]
            for i, name in enumerate(("thread", "start", "took", "why", "batch"))
        },
    }
