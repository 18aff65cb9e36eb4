"""The executor `cuda`: a plan as one image, run by generated kernels on a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cuda.backend import Backend, Scheme
from abw.core.exec.cuda.image import Image, pack
from abw.core.exec.cuda.lowering import device_program
from abw.core.exec.cuda.measure.costs import UNMEASURED, Costs
from abw.core.exec.cuda.text.module import load_kernels
from abw.core.exec.cuda.tiles import VECTOR
from abw.core.exec.interface import OVERLAPPING, Executor, Result, TooLargeError, refuse_threads
from abw.core.exec.lower.rows import matrix_view
from abw.core.exec.params import Params
from abw.core.exec.result_guard import RunEpochs
from abw.core.exec.values import fill_constants
from abw.core.ir.network import Network
from abw.core.plan.arenas import Arenas, arenas_of
from abw.core.plan.counts import Counts
from abw.core.plan.plan import Earlier, Plan

Floats = NDArray[np.float32]
Longs = NDArray[np.int64]


class CudaExecutor(Executor):
    """Fused kernels from the network's cells: gather, products and all that is element-wise in one.

    The device holds the arenas from run to run, with tables and parameters in them; they grow as plans need
    it. A run sends one image and starts it; results come back when they are read, an arena at a time.
    """

    name = "cuda"
    abilities = OVERLAPPING

    def __init__(
        self, backend: Backend, scheme: Scheme | Literal["auto"] = "auto", costs: Costs = UNMEASURED
    ) -> None:
        """`scheme`: one launch for each item of the image, one for all of it, or whichever is faster by the
        `costs`."""
        self._backend, self._scheme, self._costs = backend, scheme, costs
        self._last: Scheme = "plan" if scheme == "auto" else scheme

    def prepare(self, network: Network, params: Params, threads: int | None = None) -> None:
        """Write the network's kernels, send them and the weights. Errors: AbwError for several threads."""
        refuse_threads(self.name, threads)
        self._network, self._params = network, params
        self._arenas: Arenas = arenas_of(network)
        program = self._program = device_program(network, self._backend.forms)
        self._pitch = program.plan.pitch
        kernels = load_kernels(program.text, program.forms, program.plan_shared)
        self._backend.load(kernels, self._program.pack_weights(network, params))
        self._rows = np.zeros(len(self._arenas.shape), np.int64)
        self._begin: Longs = np.zeros(len(self._rows) + 1, np.int64)
        self._floats = -1
        self._epochs = RunEpochs(network, params, host=False)

    def update(self, params: Params, rows: object = None) -> None:
        """Send other weights. Raises ValueError for other shapes."""
        self._epochs.renew(params)
        self._params = params
        self._backend.renew(self._program.pack_weights(self._network, params))
        self._floats, self._rows[:] = -1, 0  # the constants in the arenas are sent anew by the next run

    def run(self, plan: Plan) -> Result:
        """Start the batches. Raises ValueError for a plan of another network, TooLargeError where the device
        has too little memory for it."""
        self._epochs.begin(plan)
        image = self._reserve(plan)
        scheme = self._choose(plan, image)
        if scheme != self._last:  # packed for the scheme of the run before, which is mostly this one's too
            self._last = scheme
            image = self._pack(plan, self._begin)
        self._send(plan)
        self._backend.run(image, scheme)
        launches = 1 if scheme == "plan" else len(image.items)
        counts = Counts(len(plan.schedule), launches, 0, 0)
        return Result(plan.graph, counts, self._epochs.reader(_Fetched(self, plan), plan))

    def _send(self, plan: Plan) -> None:
        """Send the plan's fields of vertices to their rows."""
        for arena, row, values in plan.given:
            pitch = int(self._pitch[arena])
            rows = np.zeros((len(values), pitch), np.float32)
            matrix_view(rows, self._arenas.shape[arena], VECTOR)[:] = values
            self._backend.write(int(self._begin[arena]) + row * pitch, rows.ravel())

    def kernels(self) -> Mapping[str, str]:
        """The text of the one module that all types share."""
        return {"": self._program.text}

    def _pack(self, plan: Plan, begin: Longs) -> Image:
        program = self._program
        return pack(plan, program.plan if self._last == "plan" else program.batch, begin)

    def _reserve(self, plan: Plan) -> Image:
        """The plan's image, and memory on the device for it. Errors: TooLargeError."""
        if (plan.rows <= self._rows).all():
            image = self._pack(plan, self._begin)
            if image.floats <= self._floats:
                return image
        # room to grow spares sending the tables again
        ample = np.where(plan.rows > self._rows, plan.rows + plan.rows // 2, self._rows)
        try:
            return self._grow(plan, ample, 0.5)
        except TooLargeError:
            return self._grow(plan, plan.rows.astype(np.int64), 0.0)

    def _grow(self, plan: Plan, rows: Longs, spare: float) -> Image:
        """Memory for so many rows of each arena and the plan's scratch rows, of these a part more."""
        self._floats = -1  # unless all goes well there is none
        begin = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(rows * self._pitch, out=begin[1:])
        held = [self._held(plan.earlier, a) if plan.earlier else self._constants(a) for a in range(len(rows))]
        image = self._pack(plan, begin)
        floats = image.floats + int(spare * (image.floats - int(begin[-1])))
        self._backend.reserve(floats, list(zip(begin[:-1].tolist(), held, strict=True)))
        self._rows, self._begin, self._floats = rows, begin, floats
        return image

    def _held(self, earlier: Earlier, arena: int) -> Floats:
        """An arena's rows of the runs before, which are lost where the memory grows."""
        rows = int(earlier.rows[arena])
        return self._backend.read(int(self._begin[arena]), rows * int(self._pitch[arena]))

    def _constants(self, arena: int) -> Floats:
        """An arena's rows that no node computes."""
        shape = self._arenas.shape[arena]
        rows = np.zeros((int(self._arenas.head[arena]), int(self._pitch[arena])), np.float32)
        fill_constants(matrix_view(rows, shape, VECTOR), arena, self._arenas, self._network, self._params)
        return rows.ravel()

    def fetch(self, plan: Plan, arena: int) -> Floats:
        """An arena's rows (rows, *shape) of the last run; those before the nodes' are not filled in."""
        head, rows = int(self._arenas.head[arena]), int(plan.rows[arena])
        pitch = int(self._pitch[arena])
        memory = np.empty((rows, pitch), np.float32)
        found = self._backend.read(int(self._begin[arena]) + head * pitch, (rows - head) * pitch)
        memory[head:] = found.reshape(rows - head, pitch)
        return matrix_view(memory, self._arenas.shape[arena], VECTOR)

    def _choose(self, plan: Plan, image: Image) -> Scheme:
        if self._scheme != "auto":
            return self._scheme
        return self._costs.choose(len(image.items), len(image.phase) - 1, plan.product_flops)


class _Fetched(Sequence[Floats]):
    """The arenas of a run, each fetched when it is first read."""

    def __init__(self, executor: CudaExecutor, plan: Plan) -> None:
        self._executor, self._plan = executor, plan
        self._held: dict[int, Floats] = {}

    def __len__(self) -> int:
        return len(self._plan.rows)

    def __getitem__(self, arena: Any) -> Any:
        if arena not in self._held:
            self._held[arena] = self._executor.fetch(self._plan, arena)
        return self._held[arena]
