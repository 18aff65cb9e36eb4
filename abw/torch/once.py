"""Mini-batches as functions of PyTorch's autograd, which can be differentiated once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from abw.core.exec.values import single
from abw.core.train.backward import Half


class Work(Protocol):
    """A mini-batch: `begin` runs it forward, `backward` gives parameters' gradients from those of outputs.

    `parted` gives what PyTorch sees of arrays by the outputs' names, views of them; `waits`: whether nothing
    else has taken the memory of a half.
    """

    def begin(self) -> Half: ...
    def parted(self, outputs: Mapping[str, Any]) -> list[Any]: ...
    def waits(self, half: Half) -> bool: ...
    def backward(self, half: Half) -> list[torch.Tensor]: ...


class Run(torch.autograd.Function):
    """The outputs of a mini-batch of some parameters, none of which is a view of another."""

    @staticmethod
    def forward(ctx: Any, work: Work, *tensors: torch.Tensor) -> Any:
        half = work.begin()
        ctx.set_materialize_grads(False)
        ctx.work, ctx.half, ctx.tensors, ctx.versions = work, half, tensors, [t._version for t in tensors]
        made = {name: np.array(half.values(name)) for name in half.gradients}
        return tuple(map(torch.from_numpy, work.parted(made)))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        work, half = ctx.work, ctx.half
        if [t._version for t in ctx.tensors] != ctx.versions:
            raise RuntimeError("the model's parameters were changed between its forward and backward pass")
        if not work.waits(half):  # another mini-batch took the memory: compute this one again
            half = work.begin()
        for part, gradient in zip(work.parted(half.gradients), gradients, strict=True):
            part[...] = 0 if gradient is None else gradient.detach().numpy()
        found = work.backward(half)
        if torch.is_grad_enabled():  # create_graph=True
            found = _Once.apply(*(gradient.requires_grad_() for gradient in found))
        return None, *[g if t.requires_grad else None for t, g in zip(ctx.tensors, found, strict=True)]


class _Once(torch.autograd.Function):
    """Gradients that have none themselves.

    PyTorch's `once_differentiable` refuses less: what depends on parameters alone is a constant to it, and a
    penalty on gradients would add nothing.
    """

    @staticmethod
    def forward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return tuple(gradient.view_as(gradient) for gradient in gradients)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        raise RuntimeError("abw's results can be differentiated once: second derivatives are not supported")


def parts_of(vector: Any, shapes: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    """Return the parts of a vector of gradients, in these shapes."""
    own = torch.from_numpy(single(vector))
    sizes = [int(np.prod(shape)) for shape in shapes]
    return [part.view(tuple(shape)) for part, shape in zip(own.split(sizes), shapes, strict=True)]
