"""The executor `cpu` by kernels of plain numba: where the IR was never tried, and as a second opinion."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.files import replacing
from abw.core.exec.codecache import evict, kernels_folder, used
from abw.core.exec.cpu.njit.source import kernel_text, module_source, scratch_floats
from abw.core.exec.cpu.target import Target
from abw.core.exec.cpu.tiling import layout_of, packed_constants
from abw.core.exec.interface import Executor, Result, refuse_threads
from abw.core.exec.memory import ArenaMemory
from abw.core.exec.params import Params
from abw.core.exec.result_guard import RunEpochs
from abw.core.exec.values import fill_given
from abw.core.ir.network import Network
from abw.core.plan.arenas import Arenas, arenas_of
from abw.core.plan.counts import Counts
from abw.core.plan.plan import Plan

Floats = NDArray[np.float32]

# What the layout is made for: rows without padding, all gates of a row together; numba finds the vectors.
SCALAR = Target("plain", "", "", lanes=1, accumulators=0, group=1 << 20)

OF_SCHEDULE = ("type", "ptr")
OF_PLAN = ("base", "operand_ptr", "index_ptr", "index", "list_ptr", "lists")


class NjitExecutor(Executor):
    """Runs the plans and stages of `CpuExecutor` one row after the other, on one thread.

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
        self._memory = ArenaMemory(network, self._arenas, params, SCALAR.lanes)
        layouts = [
            None if cell is None else layout_of(cell, SCALAR, tuple(s.reduction for s in t.slots))
            for t, cell in zip(network.types, self._arenas.cells, strict=True)
        ]
        self._layouts = layouts
        self._constants = self._packed()
        self._scratch = np.empty(max((scratch_floats(x) for x in layouts if x), default=0), np.float32)
        self._walk = self._compiled(module_source(network, self._arenas, layouts))
        self._epochs = RunEpochs(network, params)

    def update(self, params: Params) -> None:
        """Pack other weights. Raises ValueError for other shapes."""
        self._epochs.renew(params)
        self._params = params
        self._constants = self._packed()
        self._memory.update(params)

    def _packed(self) -> tuple[Floats, ...]:
        return tuple(
            np.empty(0, np.float32)
            if layout is None
            else packed_constants(layout, [self._params.values[i] for i in t.params])
            for layout, t in zip(self._layouts, self._network.types, strict=True)
        )

    def run(self, plan: Plan) -> Result:
        """Execute the batches in order. Raises ValueError for a plan of another network."""
        self._epochs.begin(plan)
        self._memory.reserve_for(plan)
        fill_given(self._memory.views, plan)
        arrays = [getattr(plan.schedule, name) for name in OF_SCHEDULE]
        arrays += [getattr(plan, name) for name in OF_PLAN]
        self._walk(*self._arguments(arrays))
        counts = Counts(len(plan.schedule), len(plan.launch_ptr) - 1, 0, 0)
        return Result(plan.graph, counts, self._epochs.reader(self._memory.views, plan))

    def kernels(self) -> Mapping[str, str]:
        """Each type's kernel as plain Python."""
        types = zip(self._network.types, self._layouts, strict=True)
        return {t.name: kernel_text(f"kernel{i}", t, layout) for i, (t, layout) in enumerate(types)}

    def _arguments(self, arrays: list[NDArray[np.int32]]) -> list[Any]:
        """What `walk` takes: always of the same types, so that it is compiled once."""
        writable = [np.require(array, requirements=["C", "W"]) for array in arrays]
        return [*writable, tuple(self._memory.memory), self._constants, self._scratch]

    def _compiled(self, source: str) -> Callable[..., None]:
        """The module's `walk`, compiled."""
        nothing = [np.zeros((0, 1) if name == "base" else 0, np.int32) for name in OF_SCHEDULE + OF_PLAN]
        walk: Callable[..., None] = _load(source).walk
        walk(*self._arguments(nothing))
        return walk


def _load(source: str) -> ModuleType:
    """The source as a module, from a file: numba keeps machine code beside that, and finds it by the name."""
    name = f"abw_njit_{hashlib.sha256(source.encode()).hexdigest()[:32]}"
    if name not in sys.modules:
        folder = kernels_folder()
        path = folder / f"{name}.py"
        try:
            if not path.exists() or path.read_bytes() != source.encode():
                with replacing(path) as file:
                    file.write(source.encode())
                evict(folder)
            used(path)
        except OSError:
            path = _passing_folder() / f"{name}.py"
            path.write_bytes(source.encode())
        module = ModuleType(name)
        module.__file__ = str(path)
        # before it is executed: numba's files name the module that their functions are in
        sys.modules[name] = module
        exec(compile(source, str(path), "exec"), module.__dict__)
    return sys.modules[name]


@cache
def _passing_folder() -> Path:
    """A folder of this process, for where the cache cannot be written."""
    return Path(tempfile.mkdtemp(prefix="abw-kernels-"))
