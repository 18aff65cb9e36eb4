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
from typing import Annotated, Any

import typer

from abw.bench.process import RUN, printed
from abw.bench.rows import Row, Rows

_LISTED = "from abw.bench.whole.cold import print_compiles as run; from abw.cli.main import main; run(main)"


def cold(
    spec: Annotated[Path, typer.Argument(metavar="[SPEC]", help="Spec to run.")] = Path("specs/lattice.yaml"),
    runs: Annotated[int, typer.Option("--runs", min=1, metavar="N", help="Pairs of runs.")] = 3,
    slowest: Annotated[
        int, typer.Option("--slowest", min=0, metavar="N", help="Number of compilations to list.")
    ] = 10,
) -> Rows:
    """Time the first `abw run`, with nothing compiled, and the second; list the slowest compilations.

    CPU time covers all processes (on Windows it is 0). A compilation's time excludes the functions it
    calls.
    """
    with tempfile.TemporaryDirectory() as bytecode:
        with tempfile.TemporaryDirectory() as folder:
            compiles = json.loads(_timed(_LISTED, spec, folder, bytecode)[2])
        compiles.sort(key=lambda row: -row["seconds"])
        for row in compiles[:slowest]:
            yield Row("compiled on one core", function=row["function"], taken_seconds=row["seconds"])
        total = sum(row["seconds"] for row in compiles)
        yield Row("compiled on one core", function=f"all {len(compiles)}", taken_seconds=total)
        for number in range(1, runs + 1):
            with tempfile.TemporaryDirectory() as folder:
                for caches in ("nothing compiled", "the second time"):
                    seconds, cpu, _ = _timed(RUN, spec, folder, bytecode)
                    yield Row("abw run", caches=caches, pair=number, taken_seconds=seconds, cpu_seconds=cpu)


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
