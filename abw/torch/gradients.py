"""Gradients: `loss.backward()` through batched results reaches the model's own parameters.

What was recorded is differentiated as that of programs is (`core/train/programs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

from abw.core.exec.params import Params
from abw.core.exec.values import single
from abw.core.ir.network import Network
from abw.core.program.engines.engine import Engine
from abw.core.program.lessons import Recorded
from abw.core.program.recording.values import BITS
from abw.core.program.running.runner import BatchRunner
from abw.core.train.backward import Half
from abw.core.train.programs.gradients import ProgramBackward, output_name
from abw.torch.outputs import Groups, Place, grouped, handles_of, parted, share
from abw.torch.recording.cells import Cells


class Passes:
    """The passes of mini-batches of one network, with its parameters.

    `tensors`: its parameters and tables, in the order of their gradients.
    """

    def __init__(self, cells: Cells, network: Network, executor: str, threads: int | None) -> None:
        self.network, self._cells, self._versions = network, cells, cells.version
        own = cells.params[: len(network.params)]
        self.tensors = (*own, *cells.tables)
        rows = enumerate((cells.padding.get(id(table)) for table in cells.tables), len(own))
        self._padding = [(number, row) for number, row in rows if row is not None]
        self._programs = ProgramBackward(self._in_force(), cells.policy, executor, threads)

    def _in_force(self) -> Params:
        """The parameters of this network: cells that were added since may have more."""
        params = self._cells.in_force or self._cells.arrays()
        own = len(self.network.params)
        return params if len(params.values) == own else Params(params.values[:own], params.tables)

    def engine(self) -> Engine:
        """The engine that computes decisions, with the parameters as they are."""
        if self._cells.version != self._versions:
            self._programs.changed(self._in_force())
            self._versions = self._cells.version
        return self._programs.engine(self._cells.session.engine())

    def forward(self, recorded: Recorded, handles: Mapping[int, list[int]]) -> Half:
        """Compute the values of handles, by their size; those of one size are one output."""
        self.engine()
        passes = self._programs.planned(recorded, {(n,): some for n, some in handles.items()})
        return self._programs.forward(passes)

    def waits(self, half: Half) -> bool:
        """Whether nothing else has taken the memory of a half."""
        return self._programs.waits(half)

    def backward(self, half: Half) -> Sequence[torch.Tensor | None]:
        """Return the gradients of parameters and tables, from the written gradients of outputs.

        Those that no output is made of have none, as in PyTorch, whose optimizers leave them alone.
        """
        found, own, network = self._programs.backward(half), len(self.network.params), self.network
        parts = parts_of(found.vector(self._programs.params), self.tensors)
        for number, row in self._padding:
            parts[number][row] = 0
        kinds = zip(network.types, half.passes.graph.type_sizes, strict=False)  # forward types come first
        used = {own + table for table in found.rows} | {p for t, n in kinds if n for p in t.params}
        used |= {c.number for c in network.constants if c.kind == "param" and parts[c.number].any()}
        return [part if number in used else None for number, part in enumerate(parts)]


class Run(torch.autograd.Function):
    """The outputs of a mini-batch, none of which is a view of another, as a function of some parameters.

    Of the mini-batch, `begin()` runs it forward; `parted` divides arrays, by the outputs' names, in what
    PyTorch sees of them in order, each with its name; `waits(half)`: whether nothing else has taken the
    memory; `backward(half)` gives the gradients.
    """

    @staticmethod
    def forward(ctx: Any, work: Any, *tensors: torch.Tensor) -> Any:
        half = work.begin()
        ctx.work, ctx.half, ctx.tensors, ctx.versions = work, half, tensors, [t._version for t in tensors]
        outputs = {name: np.ascontiguousarray(half.values(name)) for name in half.gradients}
        ctx.names, parts = zip(*work.parted(outputs), strict=True)
        return tuple(map(torch.from_numpy, parts))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        work, half = ctx.work, ctx.half
        if [t._version for t in ctx.tensors] != ctx.versions:
            raise RuntimeError("the model's parameters were changed between its forward and backward pass")
        if not work.waits(half):  # another mini-batch took the memory: compute this one again
            half = work.begin()
        for name, into in half.gradients.items():
            some = [gradient for gradient, of in zip(gradients, ctx.names, strict=True) if of == name]
            if some:
                into.reshape(-1)[:] = _flatten_dense_tensors(some).detach().numpy()
        found = work.backward(half)
        if torch.is_grad_enabled():  # create_graph=True
            found = _Once.apply(*(g if g is None else g.requires_grad_() for g in found))
        return None, *[g if t.requires_grad else None for t, g in zip(ctx.tensors, found, strict=True)]


class _Once(torch.autograd.Function):
    """Gradients that have none themselves: to `once_differentiable` what depends on parameters alone is a
    constant, so that a penalty on gradients would add nothing.
    """

    @staticmethod
    def forward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        return tuple(g if g is None else g.view_as(g) for g in gradients)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        raise RuntimeError("abw's results can be differentiated once: second derivatives are not supported")


def parts_of(vector: Any, like: Sequence[Any]) -> Sequence[torch.Tensor]:
    """Return the parts of a vector of gradients, in the shapes of these tensors."""
    parts: Sequence[torch.Tensor] = _unflatten_dense_tensors(torch.from_numpy(single(vector)), like)
    return parts


@dataclass
class _Batch:
    """A mini-batch of what was recorded, with a tensor for each part of `groups`: see `Run`."""

    passes: Passes
    recorded: Recorded
    groups: Groups

    def begin(self) -> Half:
        recorded, self.recorded = self.recorded, replace(self.recorded, engine=None)
        return self.passes.forward(recorded, handles_of(self.groups))

    def parted(self, outputs: Mapping[str, Any]) -> list[tuple[str, Any]]:
        names = {size: output_name((size,)) for size, _ in self.groups}
        parts = parted(self.groups, {size: outputs[name] for size, name in names.items()})
        return [(names[size], part) for size, part in parts]

    def waits(self, half: Half) -> bool:
        return self.passes.waits(half)

    def backward(self, half: Half) -> Sequence[torch.Tensor | None]:
        return self.passes.backward(half)


def read_of(made: Recorded, handles: Iterable[int]) -> list[int]:
    """Those of handles whose values are read by nodes that lead to an output."""
    some = np.fromiter(handles, np.int64)
    width = made.graph.network.width
    nodes = made.local[(some >> BITS) // width - made.base]
    read = np.concatenate((made.graph.operand, made.graph.list_operand))
    found: list[int] = some[(nodes >= 0) & np.isin(nodes, read[read >= 0] // width)].tolist()
    return found


def learn(
    cells: Cells, passes: Passes, runner: BatchRunner, recorded: Recorded, places: Sequence[Place]
) -> None:
    """Fill places with tensors that have gradients."""
    # PyTorch reads constants itself: places that have any are stacked of others
    apart = {
        place: [Place(place.size, [handle], (1, place.size)) for handle in place.handles]
        for place in places
        if min(place.handles) < 0
    }
    wanted = [place for place in places if place not in apart]
    wanted += [part for some in apart.values() for part in some if part.handles[0] >= 0]
    if groups := grouped(wanted):
        share(groups, Run.apply(_Batch(passes, recorded, groups), *passes.tensors))
    for place, some in apart.items():
        rows = [p.tensor if p.handles[0] >= 0 else _constant(cells, runner, p.handles[0]) for p in some]
        place.tensor = torch.cat(rows).reshape(place.stacked)


def _constant(cells: Cells, runner: BatchRunner, handle: int) -> torch.Tensor:
    """A row of a table, a parameter, zeros, or what the instance brought along."""
    network = runner.engine.cells
    number, row = network.constant_of(handle >> BITS)
    constant = network.constants[number]
    if constant.kind == "table":
        found = cells.tables[constant.number][row]
    elif constant.kind == "param":
        found = cells.params[constant.number]
    else:
        found = torch.from_numpy(runner.engine.constant(handle >> BITS))
    return found.reshape(1, -1)
