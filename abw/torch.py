"""abw models as layers of PyTorch models: forward and backward by abw, parameters shared with PyTorch.

    layer = abw.torch.Layer("treelstm", dims={"hidden": 128})
    head = torch.nn.Linear(5, 2)
    optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()])
    loss = torch.nn.functional.cross_entropy(head(layer(trees)["classes"]), labels)
    loss.backward()

Needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from abw.core import api
from abw.core.graph.graph import Graph
from abw.core.policy.registry import get_policy
from abw.core.train.backward import Backward, Half
from abw.core.train.checkpoint import named


class Layer(torch.nn.Module):  # type: ignore[misc]
    """A model of abw as a module: from instances to its outputs, which can be differentiated.

    Its parameters and tables are this module's, called as in the spec with '-' for '.', in the memory that
    abw reads: what an optimiser does to them counts from the next call on, without copies. All is in single
    precision, on the processor.
    """

    def __init__(self, spec: str, *, policy: str = "sufficient", **options: Any) -> None:  # noqa: ANN401
        """`options`: those of `abw.load`. Errors: as there, and AbwError for what cannot be trained."""
        super().__init__()
        self.model = api.load(spec, policy=policy, **options)
        model = self.model
        outputs = [name for name, _ in model.spec.outputs]
        self.passes = Backward(
            model.spec, model._networks, model._params, get_policy(policy), outputs, model.executor.name,
            options.get("threads"),
        )  # fmt: skip
        for name, value in named(self.passes.network, self.passes.params).items():
            shared = torch.nn.Parameter(torch.from_numpy(value))
            self.register_parameter(name.replace(".", "-"), shared)

    def forward(self, instances: api.Given) -> Mapping[str, torch.Tensor]:
        """The outputs of some instances by name, (m, *shape), instance after instance.

        Errors: as `LoadedModel`'s calls.
        """
        graph = self.model.graph(instances)
        names = tuple(self.passes.training.losses)
        values = _Run.apply(self, graph, *self.parameters())
        return dict(zip(names, values, strict=True))

    def _versions(self) -> tuple[int, ...]:
        return tuple(parameter._version for parameter in self.parameters())

    def _begin(self, graph: Graph) -> Half:
        for shared, value in zip(self.parameters(), self._values(), strict=True):
            if shared.data_ptr() != value.ctypes.data:
                raise RuntimeError("a parameter has other memory now than abw reads: copy into it instead")
        self.passes.changed()  # what has been written to them since nobody tells
        return self.passes.forward(self.passes.planned(graph))

    def _values(self) -> tuple[np.ndarray[Any, Any], ...]:
        params = self.passes.params
        return (*params.values, *params.tables)


class _Run(torch.autograd.Function):  # type: ignore[misc]
    """A mini-batch: begun forward, gone on with backward."""

    @staticmethod
    def forward(ctx: Any, layer: Layer, graph: Graph, *parameters: torch.Tensor) -> Any:  # noqa: ANN401
        half = layer._begin(graph)
        ctx.layer, ctx.graph, ctx.half, ctx.versions = layer, graph, half, layer._versions()
        return tuple(torch.from_numpy(np.array(half.values(name))) for name in half.gradients)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:  # noqa: ANN401
        layer, half = ctx.layer, ctx.half
        if layer._versions() != ctx.versions:
            raise RuntimeError("the layer's parameters were changed between its forward and backward pass")
        if not layer.passes.waits(half):  # another mini-batch took the memory: compute this one again
            half = layer._begin(ctx.graph)
        for rows, gradient in zip(half.gradients.values(), gradients, strict=True):
            rows[...] = 0 if gradient is None else gradient.numpy()
        vector = layer.passes.backward(half).vector(layer.passes.params).astype(np.float32)
        found, at = [], 0
        for value in layer._values():
            found.append(torch.from_numpy(vector[at : at + value.size].reshape(value.shape)))
            at += value.size
        return None, None, *found
