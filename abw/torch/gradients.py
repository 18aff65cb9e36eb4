"""Gradients: `loss.backward()` through batched results reaches the model's own parameters.

What was recorded is differentiated as that of programs is (`core/train/programs`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from abw.core.exec.params import Params
from abw.core.exec.values import single
from abw.core.ir.network import Network
from abw.core.policy.registry import get_policy
from abw.core.program.lessons import Recorded
from abw.core.program.recording.values import BITS
from abw.core.program.running.runner import BatchRunner
from abw.core.train.backward import Half
from abw.core.train.programs.gradients import ProgramBackward, output_name
from abw.torch.outputs import Place, by_size, parted
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
        """Return the gradients of parameters and tables, from the written gradients of outputs."""
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
        """Whether `backward` can still be called: no other mini-batch has taken the memory."""
        return half is self._last


class Run(torch.autograd.Function):
    """The outputs of a mini-batch: a tensor for each place, none of which is a view of another."""

    @staticmethod
    def forward(ctx: Any, passes: Passes, recorded: Recorded, places: Any, *tensors: torch.Tensor) -> Any:
        """Compute what the places hold, in their stacked shapes."""
        handles = by_size(places)
        half = passes.forward(recorded, handles)
        ctx.set_materialize_grads(False)
        ctx.passes, ctx.half, ctx.recorded, ctx.places = passes, half, recorded, places
        ctx.tensors, ctx.versions = tensors, [t._version for t in tensors]
        rows = {n: np.array(half.values(output_name((n,)))) for n in handles}
        return tuple(map(torch.from_numpy, parted(places, rows)))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        """Return the gradients of parameters and tables. Errors: RuntimeError if they were changed."""
        passes, half, places = ctx.passes, ctx.half, ctx.places
        if torch.is_grad_enabled():
            raise RuntimeError("abw.torch.batch can be differentiated once: create_graph is not supported")
        if [t._version for t in ctx.tensors] != ctx.versions:
            raise RuntimeError("parameters of the model were changed between its forward and backward pass")
        if not passes.waits(half):
            half = passes.forward(ctx.recorded, by_size(places))
        rows = {place.size: half.gradients[output_name((place.size,))] for place in places}
        for part, gradient in zip(parted(places, rows), gradients, strict=True):
            part[...] = 0 if gradient is None else gradient.detach().numpy()
        parts = zip(ctx.tensors, passes.backward(half), strict=True)
        return None, None, None, *[part if tensor.requires_grad else None for tensor, part in parts]


def learn(
    cells: Cells, passes: Passes, runner: BatchRunner, recorded: Recorded, places: Sequence[Place]
) -> None:
    """Fill places with tensors that have gradients."""
    parts: dict[Place, list[Place]] = {}  # those with constants, which PyTorch reads itself
    for place in places:
        alone = [place] if min(place.handles) >= 0 else []
        parts[place] = alone or [Place(place.size, [h], (place.size,)) for h in place.handles]
    wanted = [part for some in parts.values() for part in some if part.handles[0] >= 0]
    found = (
        dict(zip(wanted, Run.apply(passes, recorded, wanted, *passes.tensors), strict=True)) if wanted else {}
    )
    for place, some in parts.items():
        if some[0] is place:
            place.tensor = found[place]
        else:
            rows = [found[p] if p in found else _constant(cells, runner, p.handles[0]) for p in some]
            place.tensor = torch.stack(rows).reshape(place.stacked)


def _constant(cells: Cells, runner: BatchRunner, handle: int) -> torch.Tensor:
    """A row of a table, a parameter, zeros, or what the instance brought along."""
    network = runner.engine.cells
    number, row = network.constant_of(handle >> BITS)
    constant = network.constants[number]
    if constant.kind == "table":
        return cells.tables[constant.number][row].reshape(-1)
    if constant.kind == "param":
        return cells.params[constant.number].reshape(-1)
    return torch.from_numpy(runner.engine.constant(handle >> BITS)).reshape(-1)
