"""Bao's network in PyTorch, on a mini-batch of padded plans, from the text that EXPLAIN gives."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.ir.formats import SCHEMAS, slug

KINDS = {kind: number for number, kind in enumerate(SCHEMAS["plans"].kinds)}
ESTIMATES = ("Total Cost", "Plan Rows", "Plan Width")


class Bao:
    """The network of `specs/plans/bao.yaml`: normalised over the nodes of each plan, not over padding."""

    def __init__(self, torch: Any, values: Mapping[str, NDArray[np.float32]]) -> None:  # noqa: ANN401
        """Take parameters by the names that the spec gives them."""
        self.torch = torch
        self.values = {name: torch.tensor(np.array(value)) for name, value in values.items()}

    def __call__(self, texts: Sequence[str]) -> Any:  # noqa: ANN401 (a tensor)
        """The logarithm of each plan's time (plans,)."""
        return self.costs(*self.padded([nodes_of(json.loads(text)) for text in texts]))

    def padded(self, plans: Sequence[list[dict[str, Any]]]) -> tuple[Any, Any, Any, Any]:
        """Operators (plans, n), estimates (plans, n, 3), children (plans, n, 3) and which nodes there are.

        Node 0 is padding, and what stands for a child that there is not.
        """
        torch, size = self.torch, 1 + max(map(len, plans))
        kinds, numbers = np.zeros((len(plans), size), np.int64), np.zeros((len(plans), size, 3), np.float32)
        near = np.zeros((len(plans), size, 3), np.int64)
        for b, nodes in enumerate(plans):
            for i, node in enumerate(nodes, 1):
                kinds[b, i] = KINDS.get(slug(node["Node Type"]), KINDS["other"])
                numbers[b, i] = [0.1 * math.log(node.get(key, 0) + 1) for key in ESTIMATES]
                near[b, i] = i, node["left"], node["right"]
        there = torch.from_numpy(near[:, :, :1] > 0)
        return torch.from_numpy(kinds), torch.from_numpy(numbers), torch.from_numpy(near), there

    def costs(self, kinds: Any, numbers: Any, near: Any, there: Any) -> Any:  # noqa: ANN401 (tensors)
        """The logarithm of each plan's time (plans,)."""
        torch, w = self.torch, self.values
        functional = torch.nn.functional
        x = torch.cat([functional.embedding(kinds, w["operators"]), numbers], 2) * there
        for layer in (1, 2, 3):
            size = x.shape[2]
            index = near.flatten(1).unsqueeze(2).expand(-1, -1, size)
            around = x.gather(1, index).reshape(*near.shape[:2], 3 * size)
            y = functional.linear(around, w[f"t{layer}.W"], w[f"t{layer}.b"])
            count = there.sum((1, 2), keepdim=True) * y.shape[2]
            mean = (y * there).sum((1, 2), keepdim=True) / count
            apart = (y - mean) * there
            x = apart / ((apart * apart).sum((1, 2), keepdim=True) / count).sqrt().add(1e-5)
            if layer < 3:
                x = functional.leaky_relu(x, 0.01)
        pooled = x.masked_fill(~there, -math.inf).amax(1)
        hidden = functional.leaky_relu(functional.linear(pooled, w["head.A"], w["head.a"]), 0.01)
        return functional.linear(hidden, w["head.B"], w["head.b"])[:, 0]


def nodes_of(plan: Any) -> list[dict[str, Any]]:  # noqa: ANN401 (what JSON gives)
    """The nodes of a plan in preorder, from 1, with their children's numbers as `left` and `right`."""
    found: list[dict[str, Any]] = []

    def add(node: dict[str, Any]) -> int:
        here = dict(node)
        found.append(here)
        number = len(found)
        below = [add(child) for child in node.get("Plans", ())]
        here["left"], here["right"] = [*below, 0, 0][:2]
        return number

    add((plan[0] if isinstance(plan, list) else plan)["Plan"])
    return found
