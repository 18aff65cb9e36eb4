"""The executor `cpu` by kernels of plain numba: where the IR was never tried, and as a second opinion."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.arenas import fill_constants
from abw.core.exec.cpu.layout import layout_of, packed_constants
from abw.core.exec.cpu.source import module_source, scratch_floats
from abw.core.exec.cpu.target import Target
from abw.core.exec.interface import Result, refuse_threads
from abw.core.exec.kept import evict, kernels_folder, used, write_whole
from abw.core.exec.params import Params
from abw.core.exec.turns import Turns
from abw.core.graph.graph import Graph
from abw.core.graph.network import Network
from abw.core.plan.arenas import Arenas, arenas_of
from abw.core.plan.plan import Counts, Plan
from abw.core.policy.schedule import Schedule

Floats = NDArray[np.float32]

SCALAR = Target("plain", "", "", lanes=1, accumulators=0, group=1 << 20)
"""What the layout is made for: rows without padding, all gates of a row together; numba finds the vectors."""

OF_SCHEDULE = ("type", "ptr")
OF_PLAN = ("base", "operand_ptr", "index_ptr", "index", "list_ptr", "lists")


class NjitExecutor:
    """The same plans and the same stages as `CpuExecutor`, one row after the other, on one thread.

    Cost: five to eight times that of kernels written as IR; compiling takes some 5 s, from disk 0.03 s.
    """

    name = "cpu with kernels njit"

    def prepare(self, network: Network, params: Params, threads: int | None = None) -> None:
        """Compile the network's kernels, or find them on disk, and pack the weights.

        Errors: AbwError for several threads.
        """
        refuse_threads(self.name, threads)
        self._network, self._params = network, params
        self._arenas: Arenas = arenas_of(network)
        self._floats = self._arenas.row_floats.tolist()
        self._memory = [np.empty(0, np.float32) for _ in self._floats]
        layouts = [
            None if p is None else layout_of(p.normal, SCALAR, tuple(s.reduction for s in t.slots))
            for t, p in zip(network.types, self._arenas.programs, strict=True)
        ]
        self._constants = tuple(
            np.empty(0, np.float32)
            if layout is None
            else packed_constants(layout, [params.values[i] for i in t.params])
            for layout, t in zip(layouts, network.types, strict=True)
        )
        self._scratch = np.empty(max((scratch_floats(x) for x in layouts if x), default=0), np.float32)
        self._walk = self._compiled(module_source(network, self._arenas, layouts))
        self._turns = Turns(network, params)

    def arrange(self, graph: Graph, schedule: Schedule) -> Schedule:
        """The schedule as it is."""
        return schedule

    def run(self, plan: Plan) -> Result:
        """Execute the batches in order. Raises ValueError for a plan of another network."""
        self._turns.begin(plan)
        for a, rows in enumerate(plan.rows.tolist()):
            if len(self._memory[a]) < rows * self._floats[a]:
                self._memory[a] = np.empty(rows * self._floats[a], np.float32)
                fill_constants(self._views()[a], a, self._arenas, self._network, self._params)
        arrays = [getattr(plan.schedule, name) for name in OF_SCHEDULE]
        arrays += [getattr(plan, name) for name in OF_PLAN]
        self._walk(*self._arguments(arrays))
        counts = Counts(len(plan.schedule), len(plan.launch_ptr) - 1, 0, 0)
        return Result(plan.graph, counts, self._turns.reader(self._views(), plan))

    def _views(self) -> list[Floats]:
        """The arenas as values."""
        return [m.reshape(-1, *shape) for m, shape in zip(self._memory, self._arenas.shape, strict=True)]

    def _arguments(self, arrays: list[NDArray[np.int32]]) -> list[Any]:
        """What `walk` takes: always of the same types, so that it is compiled once."""
        writable = [np.require(array, requirements=["C", "W"]) for array in arrays]
        return [*writable, tuple(self._memory), self._constants, self._scratch]

    def _compiled(self, source: str) -> Callable[..., None]:
        """The module's `walk`; compiled anew where what was kept on disk cannot be used."""
        nothing = [np.zeros((0, 1) if name == "base" else 0, np.int32) for name in OF_SCHEDULE + OF_PLAN]
        module = _load(source)
        try:
            module.walk(*self._arguments(nothing))
        except Exception:  # numba reads its files with pickle, which raises anything
            _forget(module)
            module = _load(source)
            module.walk(*self._arguments(nothing))
        walk: Callable[..., None] = module.walk
        return walk


def _load(source: str) -> ModuleType:
    """The source as a module, from a file: numba keeps machine code beside that, and finds it by the name."""
    name = f"abw_njit_{hashlib.sha256(source.encode()).hexdigest()[:32]}"
    if name not in sys.modules:
        folder = kernels_folder()
        path = folder / f"{name}.py"
        try:
            if not path.exists() or path.read_bytes() != source.encode():
                write_whole(path, source.encode())
                evict(folder)
            used(path)
        except OSError:
            path = _passing_folder() / f"{name}.py"
            path.write_text(source)
        module = ModuleType(name)
        module.__file__ = str(path)
        # before it is executed: numba's files name the module that their functions are in
        sys.modules[name] = module
        exec(compile(source, str(path), "exec"), module.__dict__)
    return sys.modules[name]


def _forget(module: ModuleType) -> None:
    """Take away a module and the machine code kept of it."""
    path = Path(str(module.__file__))
    del sys.modules[module.__name__]
    for file in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        file.unlink(missing_ok=True)


@cache
def _passing_folder() -> Path:
    """A folder of this process, for where the cache cannot be written."""
    return Path(tempfile.mkdtemp(prefix="abw-kernels-"))
