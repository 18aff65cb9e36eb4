"""Gradients: `loss.backward()` through what ran batched reaches the model's own parameters.

What was recorded is differentiated as that of programs is (`core/train/programs`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from abw.core.exec.params import Params
from abw.core.exec.values import single
from abw.core.ir.network import Network
from abw.core.policy.registry import get_policy
from abw.core.program.lessons import Recorded
from abw.core.program.recording.values import BITS
from abw.core.program.running.runner import BatchRunner
from abw.core.train.backward import Half
from abw.core.train.programs.gradients import ProgramBackward, output_name
from abw.torch.recording.cells import Cells


class Passes:
    """The passes of mini-batches of one network, with a copy of its parameters in one vector.

    `tensors`: its parameters and tables, in the order of their gradients.
    """

    def __init__(self, cells: Cells, network: Network, executor: str, threads: int | None) -> None:
        self.network, self._cells = network, cells
        self._values = cells.params[: len(network.params)]
        self.tensors = (*self._values, *cells.tables)
        params = self._arrays().flattened()
        self._programs = ProgramBackward(params, get_policy("sufficient"), executor, threads)
        self._versions = cells.versions()
        self._last: Half | None = None

    def _arrays(self) -> Params:
        params = self._cells.arrays()
        return Params(params.values[: len(self._values)], params.tables)

    def forward(self, recorded: Recorded, handles: Mapping[int, list[int]]) -> Half:
        """Compute the values of handles, by their size; those of one size are one output."""
        versions, own = self._cells.versions(), self._programs.params
        if versions != self._versions:
            now = self._arrays()
            for value, theirs in zip((*own.values, *own.tables), (*now.values, *now.tables), strict=True):
                value[...] = theirs
            self._programs.changed()
            self._versions = versions
        passes = self._programs.planned(recorded, {(n,): some for n, some in handles.items()})
        self._last = self._programs.forward(passes)
        return self._last

    def backward(self, half: Half) -> list[torch.Tensor]:
        """The gradients of parameters and tables, by those of the outputs, which were written."""
        params = self._programs.params
        found, self._last = self._programs.backward(half), None
        vector, at, parts = single(found.vector(params)), 0, []
        for tensor, value in zip(self.tensors, (*params.values, *params.tables), strict=True):
            part = torch.from_numpy(vector[at : at + value.size].reshape(tuple(tensor.shape)))
            at += value.size
            padding = self._cells.padding.get(id(tensor))
            if padding is not None:
                part[padding] = 0
            parts.append(part)
        return parts

    def waits(self, half: Half) -> bool:
        """Whether `backward` can be called with this half: no other mini-batch took its memory."""
        return half is self._last


class Run(torch.autograd.Function):
    """A mini-batch's outputs, those of one size after those of another."""

    @staticmethod
    def forward(ctx: Any, passes: Passes, recorded: Recorded, handles: Any, *tensors: torch.Tensor) -> Any:
        """The outputs (m, size) by size."""
        half = passes.forward(recorded, handles)
        ctx.passes, ctx.half, ctx.recorded, ctx.handles = passes, half, recorded, handles
        ctx.tensors, ctx.versions = tensors, [t._version for t in tensors]
        return tuple(torch.from_numpy(_values(half, n)) for n in handles)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        """The gradients of parameters and tables. Errors: RuntimeError where they were changed meanwhile."""
        passes, half = ctx.passes, ctx.half
        if torch.is_grad_enabled():
            raise RuntimeError("abw.torch.batch can be differentiated once: create_graph is not supported")
        if [t._version for t in ctx.tensors] != ctx.versions:
            raise RuntimeError("parameters of the model were changed between its forward and backward pass")
        if not passes.waits(half):
            half = passes.forward(ctx.recorded, ctx.handles)
        for n, gradient in zip(ctx.handles, gradients, strict=True):
            half.gradients[output_name((n,))][...] = 0 if gradient is None else gradient.detach().numpy()
        parts = zip(ctx.tensors, passes.backward(half), strict=True)
        return None, None, None, *[part if tensor.requires_grad else None for tensor, part in parts]


def _values(half: Half, n: int) -> NDArray[np.float32]:
    return np.array(half.values(output_name((n,))))


class Reader:
    """Values of a mini-batch as tensors with gradients, by their handles."""

    def __init__(self, cells: Cells, passes: Passes, runner: BatchRunner, recorded: Recorded) -> None:
        self._cells, self._passes, self._runner, self._recorded = cells, passes, runner, recorded

    def read(self, handles: Mapping[int, Sequence[int]]) -> dict[int, torch.Tensor]:
        """Rows (m, size) for the handles of each size."""
        own = {n: [h for h in some if h >= 0] for n, some in handles.items()}
        own = {n: computed for n, computed in own.items() if computed}
        rows: dict[int, Any] = {}
        if own:
            passes = self._passes
            rows = dict(zip(own, Run.apply(passes, self._recorded, own, *passes.tensors), strict=True))
        found = {}
        for n, some in handles.items():
            if n in own and len(own[n]) == len(some):
                found[n] = rows[n]
            else:
                computed = iter(rows[n]) if n in own else iter(())
                found[n] = torch.stack([next(computed) if h >= 0 else self._constant(h) for h in some])
        return found

    def _constant(self, handle: int) -> torch.Tensor:
        """A row of a table, a parameter, zeros, or what the instance brought along."""
        cells, network = self._cells, self._runner.engine.cells
        number, row = network.constant_of(handle >> BITS)
        constant = network.constants[number]
        if constant.kind == "table":
            return cells.tables[constant.number][row].reshape(-1)
        if constant.kind == "param":
            return cells.params[constant.number].reshape(-1)
        return torch.from_numpy(self._runner.engine.constant(handle >> BITS)).reshape(-1)
