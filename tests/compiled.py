"""What most tests take of numba's machine code, compiled once for all workers of a session."""

from __future__ import annotations

import os
from pathlib import Path

from abw.core.base.files import lock
from abw.core.run.precompile import compile_parts
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides

SPECS = Path(__file__).resolve().parents[1] / "specs"


def policies() -> None:
    """Plans, bounds, policies and what learns them."""
    list(compile_parts("best"))


def graphs() -> None:
    """Readers of data, and what makes graphs of instances."""
    for spec in ("lattice", "treelstm", "bilstm", "attention-nmt", "ggnn"):
        model = open_model(SPECS / f"{spec}.yaml", Overrides(dims={"hidden": 4}))
        networks = open_networks(model, "cell", fuse=True)
        open_workload(model, read_instances(model.data, 2), networks).graph(0, 2)


PARTS = (policies, graphs)


def compile_once(folder: Path, first: int) -> None:
    """Compile each part that no other process of this `folder` has compiled, or wait for the one that does.

    Processes begin with the part of their number `first`. Machine code goes from one to the other by numba's
    cache on disk.
    """
    for i in range(len(PARTS)):
        part = PARTS[(first + i) % len(PARTS)]
        with (folder / f"compiled-{part.__name__}").open("ab") as file:
            lock(file.fileno(), wait=True)
            if not os.fstat(file.fileno()).st_size:
                part()
                file.write(b"done")
