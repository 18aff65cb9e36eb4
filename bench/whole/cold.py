"""How long the first `abw run` takes, when nothing is compiled yet, and the second."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from abw.bench.options import numeric
from abw.bench.process import abw
from abw.bench.rows import Row, Rows


def cold(
    spec: Annotated[Path, typer.Argument(metavar="[SPEC]", help="Spec to run.")] = Path("specs/lattice.yaml"),
    runs: Annotated[int, numeric("Pairs of runs.", metavar="N")] = 3,
) -> Rows:
    """Time the first `abw run`, with nothing compiled, and the second.

    CPU time covers all processes (on Windows it is 0).
    """
    with tempfile.TemporaryDirectory() as bytecode:
        python = {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
        abw(["check", str(spec), "-q"], python)  # compiles abw's own bytecode
        for number in range(1, runs + 1):
            with tempfile.TemporaryDirectory() as folder:
                caches = {"NUMBA_CACHE_DIR": f"{folder}/numba", "ABW_HOME": f"{folder}/home"}
                for state in ("nothing compiled", "the second time"):
                    before, start = os.times(), time.perf_counter()
                    abw(["run", str(spec), "-q"], caches | python)
                    seconds, after = time.perf_counter() - start, os.times()
                    cpu = after[2] + after[3] - before[2] - before[3]  # of children
                    yield Row("", caches=state, pair=number, taken_seconds=seconds, cpu_seconds=cpu)
