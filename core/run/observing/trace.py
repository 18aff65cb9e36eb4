"""A run's timeline as Chrome's trace format, which Perfetto and chrome://tracing open.

The format: "Trace Event Format" (Chromium project), its JSON object form. Complete events (`X`) of the phases
lie on one track for each thread that had some, executed batches on a track for each thread of the executor;
times are microseconds from the first event on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from abw.core.base.files import write_text
from abw.core.exec.interface import Executed
from abw.core.ir.network import Network
from abw.core.policy.schedule import Schedule
from abw.core.store.checked import arrays_file, damaged, read_arrays, write_arrays

# Runs of plans whose batches are recorded: one for a mini-batch, or one for each round of growth.
TRACED = 64
# The two groups of tracks.
PHASES, THREADS = 1, 2

Span = tuple[str, float, float, int]


def write_trace(
    path: Path, report: dict[str, Any], spans: Sequence[Span], runs: Sequence[Executed], network: Network
) -> None:
    """Write the trace of a run: `spans` of its phases, and what threads executed. Errors: AbwError."""
    write_text(path, json.dumps(trace(report, spans, runs, network), separators=(",", ":")) + "\n")


def trace(
    report: dict[str, Any], spans: Sequence[Span], runs: Sequence[Executed], network: Network
) -> dict[str, Any]:
    """Make the trace as one JSON document. Cost: some 3 µs an event."""
    begin = min((start for _, start, *_ in spans), default=0.0)
    threads = list(dict.fromkeys(thread for *_, thread in spans))
    width = max((int(run.thread.max(initial=-1)) + 1 for run in runs), default=0)
    head = [
        *_named(
            PHASES, f"abw run: {report['model']}", [f"phases of thread {n}" for n in range(len(threads))]
        ),
        *_named(THREADS, f"executor {report['executor']}", [f"thread {n}" for n in range(width)]),
    ]
    phases = (
        _complete(name, "phase", PHASES, threads.index(thread), start - begin, end - begin, {})
        for name, start, end, thread in spans
    )
    batches = (
        event
        for number, run in enumerate(runs)
        for event in _batches(number, run, begin, [t.name for t in network.types])
    )
    told = ("model", "data", "policy", "executor", "threads", "batch", "mini_batches", "nodes", "batches")
    return {
        "traceEvents": [*head, *phases, *batches],
        "displayTimeUnit": "ms",
        "otherData": {key: str(report[key]) for key in told} | {"batches_of_runs": str(len(runs))},
    }


def _named(group: int, name: str, tracks: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Metadata: the names and the order of a group of tracks."""
    if tracks:
        yield {"ph": "M", "pid": group, "tid": 0, "name": "process_name", "args": {"name": name}}
        yield {"ph": "M", "pid": group, "tid": 0, "name": "process_sort_index", "args": {"sort_index": group}}
    for track, said in enumerate(tracks):
        yield {"ph": "M", "pid": group, "tid": track, "name": "thread_name", "args": {"name": said}}
        order = {"sort_index": track}
        yield {"ph": "M", "pid": group, "tid": track, "name": "thread_sort_index", "args": order}


def _batches(number: int, run: Executed, begin: float, types: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The batches of one run of a plan."""
    columns = (run.thread, run.batch, run.type, run.rows, run.start - begin, run.end - begin)
    shares = np.round(run.share_of_peak, 4).tolist()
    for thread, batch, kind, rows, start, end, share in zip(
        *(c.tolist() for c in columns), shares, strict=True
    ):
        args = {"run": number, "batch": batch, "rows": rows}
        if share == share:  # with matrix products
            args["share_of_peak"] = share
        yield _complete(types[kind], "batch", THREADS, thread, start, end, args)


def _complete(
    name: str, category: str, group: int, track: int, start: float, end: float, args: dict[str, Any]
) -> dict[str, Any]:
    """An event with start and duration, in microseconds with three digits."""
    at, until = round(1e6 * start, 3), round(1e6 * end, 3)
    return {
        "ph": "X",
        "pid": group,
        "tid": track,
        "name": name,
        "cat": category,
        "ts": at,
        "dur": round(max(0.0, until - at), 3),
        "args": args,
    }


# Seconds: no clock gives more.
LATEST = 1e12
_NAMES = tuple(field.name for field in fields(Executed))


def save_times(folder: Path, runs: Sequence[Executed]) -> None:
    """Write the times of the first mini-batches, a file each. Errors: AbwError."""
    for number, found in enumerate(runs):
        write_arrays(folder, "times", number, {name: getattr(found, name) for name in _NAMES})


def load_times(folder: Path, number: int, schedule: Schedule) -> Executed | None:
    """Read the times of a mini-batch; None if there are none, or if they are not of this schedule's batches.

    (With groups, batches are recorded by type.) Errors: AbwError if the file is damaged.
    """
    path = arrays_file(folder, "times", number)
    if not path.is_file():
        return None
    found = read_arrays(path, _NAMES)
    with damaged(path):
        if len({array.shape for array in found.values()}) > 1 or found["batch"].ndim != 1:
            raise ValueError("its arrays are not of one length")
        for name, array in found.items():
            if array.dtype.kind != ("f" if name in ("start", "end", "share_of_peak") else "i"):
                raise ValueError(f"'{name}' is of {array.dtype}")
        batch, thread = found["batch"], found["thread"]
        if len(thread) and not 0 <= thread.min() <= thread.max() < 4096:
            raise ValueError(f"there is no thread {thread.max()}")
        start, end = found["start"], found["end"]
        if not ((np.abs(start) < LATEST) & (np.abs(end) < LATEST) & (start <= end)).all():
            raise ValueError("its times are none")
    known = bool((batch >= 0).all() and (batch < len(schedule)).all())
    if not known or (schedule.type[batch] != found["type"]).any():
        return None
    return Executed(**found)
