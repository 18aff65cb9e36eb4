"""Pictures of time: what each batch of a run took, on which thread, and why threads waited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class TimesPicture:
    """What `threads` did in one run of B batches, in microseconds from its first batch on until `end`.

    k parts of batches: `thread`, `batch`, `rows`, `start`, `took`, `share` of a core's peak (NaN without
    products), all (k,). `busy` (B,): the time of all threads together. `waits` (w, 5): thread, start, length,
    reason (into REASONS), and the batch that it was for, -1 for none.
    """

    threads: int
    end: float
    thread: Ints
    batch: Ints
    rows: Ints
    start: Floats
    took: Floats
    share: Floats
    busy: Floats
    waits: Floats


def times_picture(found: Executed, batches: int) -> TimesPicture:
    """The times of one run. Cost: some 5 us a part for each thread."""
    order = np.lexsort((found.start, found.thread))
    thread, batch = (np.asarray(array[order], np.int64) for array in (found.thread, found.batch))
    first = float(found.start.min(initial=np.inf)) if len(order) else 0.0
    start, stop = 1e6 * (found.start[order] - first), 1e6 * (found.end[order] - first)
    threads, end = int(thread.max(initial=-1)) + 1, float(stop.max(initial=0.0))
    waits = np.array(_waits(thread, batch, start, stop, threads, end), np.float64).reshape(-1, 5)
    return TimesPicture(
        threads, end, thread, batch, np.asarray(found.rows[order], np.int64), start, stop - start,
        found.share_of_peak[order], np.bincount(batch, stop - start, batches).astype(np.float64),
        waits,
    )  # fmt: skip


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


def times_document(picture: TimesPicture) -> dict[str, Any]:
    """The times as the page's scripts read them, rounded."""
    start, took, busy = (np.round(array, 2) for array in (picture.start, picture.took, picture.busy))
    thread, why, behind = picture.waits[:, [0, 3, 4]].astype(np.int64).T
    wait_start, wait_took = np.round(picture.waits[:, 1:3], 2).T
    return {
        "threads": picture.threads,
        "end": round(picture.end, 2),
        **listed(thread=picture.thread, batch=picture.batch, rows=picture.rows, start=start, took=took),
        "share": [round(share, 3) if np.isfinite(share) else None for share in picture.share.tolist()],
        "busy": busy.tolist(),
        "reasons": REASONS,
        "waits": {
            **listed(thread=thread, start=wait_start, took=wait_took, why=why, batch=behind),
        },
    }
