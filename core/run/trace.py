"""A run's timeline as Chrome's trace format, which Perfetto and chrome://tracing open.

The format: "Trace Event Format" (Chromium project), its JSON object form. Complete events (`X`) of the phases
lie on one track for each thread that had some, executed batches on a track for each thread of the executor;
times are microseconds from the first event on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from abw.core.base.files import write_text
from abw.core.exec.interface import Executed
from abw.core.ir.network import Network

# Of so many runs of plans each batch is noted: of a mini-batch one, of one that grows one a round.
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
    """The trace as one JSON document. Cost: some 3 µs an event."""
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
    """Metadata: what a group of tracks and each of them are called, and in which order they stand."""
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
    """An event with a beginning and a duration, in microseconds with three digits."""
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
