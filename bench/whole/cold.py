"""How long the first `abw run` takes, when nothing is compiled yet, and the second."""

from __future__ import annotations

import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from abw.bench.process import RUN, printed
from abw.core.base.progress import Progress

_LISTED = "from abw.bench.whole.cold import print_compiles as run; from abw.cli.main import main; run(main)"


def bench_cold(spec: Path, runs: int, slowest: int, progress: Progress) -> dict[str, Any]:
    """`abw run` in fresh processes: with empty caches, then with what that left; seconds of each run.

    `cpu_seconds` are of all processes (on Windows, which does not say, 0). `compiles` are numba's `slowest`
    ones, as seconds without those of the functions that they call, from one run before on a single core where
    no other process compiles. It leaves Python's bytecode for all, as an installed package has it.
    """
    progress.phase("runs", 2 * runs + 1)
    rows = []
    with tempfile.TemporaryDirectory() as bytecode:
        with tempfile.TemporaryDirectory() as folder:
            compiles = json.loads(_timed(_LISTED, spec, folder, bytecode)[2])
        for number in range(runs):
            with tempfile.TemporaryDirectory() as folder:
                for state in ("cold", "warm"):
                    seconds, cpu, _ = _timed(RUN, spec, folder, bytecode)
                    rows.append({"run": number, "caches": state, "seconds": seconds, "cpu_seconds": cpu})
                    progress.reached(1 + len(rows))
    compiles.sort(key=lambda row: -row["seconds"])
    return {
        "schema_version": 1,
        "spec": str(spec),
        "rows": rows,
        "compiles": compiles[:slowest],
        "compiled": len(compiles),
        "compile_seconds": sum(row["seconds"] for row in compiles),
    }


def _timed(code: str, spec: Path, folder: str, bytecode: str) -> tuple[float, float, str]:
    """Seconds, CPU seconds and output of a process; all caches of abw's lie in `folder`. Errors: AbwError."""
    own = {"NUMBA_CACHE_DIR": f"{folder}/numba", "ABW_HOME": f"{folder}/home"}
    python = {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
    before, start = os.times(), time.perf_counter()
    said = printed(code, spec, (), own | python)
    seconds = time.perf_counter() - start
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, cpu, said


def print_compiles(main: Callable[[], object]) -> None:
    """Run a command on one core; instead of its output, print what numba compiled, as a JSON list."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])
    with redirect_stdout(io.StringIO()), listed_compiles() as rows, suppress(SystemExit):
        main()
    print(json.dumps(rows))


@contextmanager
def listed_compiles() -> Iterator[list[dict[str, Any]]]:
    """What numba compiles in the block: `function`, and `seconds` of CPU time without its callees'."""
    from numba.core import event

    rows: list[dict[str, Any]] = []
    begun: list[list[float]] = []  # of the compiles going on: when, and the seconds of those inside

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:  # noqa: ANN401
            begun.append([time.thread_time(), 0.0])

        def on_end(self, event: Any) -> None:  # noqa: ANN401
            start, inside = begun.pop()
            seconds = time.thread_time() - start
            if begun:
                begun[-1][1] += seconds
            function = event.data["dispatcher"].py_func
            name = f"{function.__module__.removeprefix('abw.')}.{function.__qualname__}"
            rows.append({"function": name, "seconds": seconds - inside})

    with event.install_listener("numba:compile", Listener()):
        yield rows
