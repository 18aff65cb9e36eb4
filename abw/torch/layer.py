"""abw models as layers of PyTorch models: forward and backward by abw, parameters shared with PyTorch.

    layer = abw.torch.Layer("treelstm", dims={"hidden": 128})
    head = torch.nn.Linear(5, 2)
    optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()])
    loss = torch.nn.functional.cross_entropy(head(layer(trees)["classes"]), labels)
    loss.backward()

Needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from abw.core import api
from abw.core.graph.graph import Graph
from abw.core.loaded import Given
from abw.core.policy.registry import get_policy
from abw.core.train.backward import Backward, Half
from abw.core.train.checkpoint import named
from abw.torch.gradients import Run, parts_of


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
        values = Run.apply(_Graph(self, self.model.graph(instances)), *self._shared())
        return dict(zip(self.passes.training.losses, values, strict=True))

    def _shared(self) -> list[torch.nn.Parameter]:
        return [self._parameters[name] for name in self.names.values()]

    def _values(self) -> tuple[np.ndarray[Any, Any], ...]:
        params = self.passes.params
        return (*params.values, *params.tables)


@dataclass
class _Graph:
    """A mini-batch of a layer: see `Run`."""

    layer: Layer
    graph: Graph

    def begin(self) -> Half:
        layer = self.layer
        for shared, value in zip(layer._shared(), layer._values(), strict=True):
            if shared.dtype != torch.float32 or shared.device.type != "cpu":
                found = f"{shared.dtype} on {shared.device}"
                raise RuntimeError(f"abw trains in float32 on the CPU, but a parameter is {found}")
            if shared.data_ptr() != value.ctypes.data:  # PyTorch has moved it, as for other processes
                value[...] = shared.detach().numpy()
        layer.passes.changed()  # what has been written to them since nobody tells
        return layer.passes.forward(layer.passes.planned(self.graph))

    def parted(self, outputs: Mapping[str, Any]) -> list[tuple[str, Any]]:
        return list(outputs.items())

    def waits(self, half: Half) -> bool:
        return self.layer.passes.waits(half)

    def backward(self, half: Half) -> Sequence[torch.Tensor]:
        passes = self.layer.passes
        return parts_of(passes.backward(half).vector(passes.params), self.layer._shared())
