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
from abw.core.exec.values import single
from abw.core.graph.graph import Graph
from abw.core.loaded import Given
from abw.core.policy.registry import get_policy
from abw.core.train.backward import Backward, Half
from abw.core.train.checkpoint import named


class Layer(torch.nn.Module):
    """A model of abw as a PyTorch module: from instances to its outputs, which can be differentiated once.

    Its parameters and tables share memory with abw: an optimiser's changes count from the next call on,
    without copies. Their names are the spec's with '-' for '.', and with a final '_' if a module or another
    parameter already has the name; `names` maps them. Everything is in single precision, on the processor. A
    layer can be copied, pickled and saved as a whole.
    """

    def __init__(self, spec: str, *, policy: str = "sufficient", **options: Any) -> None:
        """`options`: those of `abw.load`. Errors: as there, and AbwError for what cannot be trained."""
        super().__init__()
        self.model = api.load(spec, policy=policy, **options)
        self.names: dict[str, str] = {}
        self._options = policy, options.get("threads")
        self.passes = self._passes()
        for name, value in named(self.passes.network, self.passes.params).items():
            free = name.replace(".", "-")
            while hasattr(self, free):
                free += "_"
            self.names[name] = free
            self.register_parameter(free, torch.nn.Parameter(torch.from_numpy(value)))

    def _passes(self) -> Backward:
        (policy, threads), model = self._options, self.model
        outputs = [name for name, _ in model.spec.outputs]
        return Backward(
            model.spec, model._networks, model._params, get_policy(policy), outputs, model.executor.name,
            threads,
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["passes"]  # compiled again where the copy is made
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.passes = self._passes()
        for shared, value in zip(self._shared(), self._values(), strict=True):
            value[...] = shared.detach().numpy()
            if not shared.is_shared():  # by several processes: they go on sharing it
                shared.data = torch.from_numpy(value)

    def forward(self, instances: Given) -> Mapping[str, torch.Tensor]:
        """Return the outputs of some instances by name, (m, *shape), in the order of the instances.

        Errors: those of calls of `LoadedModel`; RuntimeError for parameters that are not float32 on the
        processor.
        """
        if torch.compiler.is_compiling():  # torch.compile compiles what is around it
            return torch.compiler.disable(self._forward)(instances)  # type: ignore[no-any-return]
        return self._forward(instances)

    def _forward(self, instances: Given) -> Mapping[str, torch.Tensor]:
        graph = self.model.graph(instances)
        names = tuple(self.passes.training.losses)
        values = _Run.apply(self, graph, *self._shared())
        return dict(zip(names, values, strict=True))

    def _versions(self) -> tuple[int, ...]:
        return tuple(parameter._version for parameter in self._shared())

    def _begin(self, graph: Graph) -> Half:
        for shared, value in zip(self._shared(), self._values(), strict=True):
            if shared.dtype != torch.float32 or shared.device.type != "cpu":
                found = f"{shared.dtype} on {shared.device}"
                raise RuntimeError(f"abw trains in float32 on the CPU, but a parameter is {found}")
            if shared.data_ptr() != value.ctypes.data:  # PyTorch has moved it, as for other processes
                value[...] = shared.detach().numpy()
        self.passes.changed()  # what has been written to them since nobody tells
        return self.passes.forward(self.passes.planned(graph))

    def _shared(self) -> list[torch.nn.Parameter]:
        return [self._parameters[name] for name in self.names.values()]

    def _values(self) -> tuple[np.ndarray[Any, Any], ...]:
        params = self.passes.params
        return (*params.values, *params.tables)


class _Run(torch.autograd.Function):
    """A mini-batch: begun forward, gone on with backward."""

    @staticmethod
    def forward(ctx: Any, layer: Layer, graph: Graph, *parameters: torch.Tensor) -> Any:
        half = layer._begin(graph)
        ctx.layer, ctx.graph, ctx.half, ctx.versions = layer, graph, half, layer._versions()
        return tuple(torch.from_numpy(np.array(half.values(name))) for name in half.gradients)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        layer, half = ctx.layer, ctx.half
        if layer._versions() != ctx.versions:
            raise RuntimeError("the layer's parameters were changed between its forward and backward pass")
        if not layer.passes.waits(half):  # another mini-batch took the memory: compute this one again
            half = layer._begin(ctx.graph)
        for rows, gradient in zip(half.gradients.values(), gradients, strict=True):
            rows[...] = 0 if gradient is None else gradient.detach().numpy()
        vector = single(layer.passes.backward(half).vector(layer.passes.params))
        found, at = [], 0
        for value in layer._values():
            found.append(torch.from_numpy(vector[at : at + value.size].reshape(value.shape)))
            at += value.size
        if torch.is_grad_enabled():  # create_graph=True
            found = _Once.apply(*(gradient.requires_grad_() for gradient in found))
        return None, None, *found


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
        raise RuntimeError("abw.torch.Layer can be differentiated once: second derivatives are not supported")
