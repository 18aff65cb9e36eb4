"""What PyTorch computes for specs/plans/*.yaml: `python tests/golden/torch/make_plans.py` writes plans.npz.

For each model `MODEL.cost`, all values of its output on the plans that ship, and `MODEL.gradients`: of each
parameter, by name, its gradient's product with numbers drawn from a seed. Weights are those that abw draws.
Needs abw besides PyTorch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

import abw
from abw.bench.pytorch.plans import KINDS, Bao, nodes_of

HERE = Path(__file__).parent
SPECS = HERE.parents[2] / "specs/plans"
Node = dict[str, Any]
Weights = Mapping[str, Tensor]


def estimates(node: Node) -> Tensor:
    keys = ("Total Cost", "Plan Rows", "Plan Width")
    return torch.tensor([0.1 * math.log(node.get(key, 0) + 1) for key in keys], dtype=torch.float64)


def kind(node: Node) -> str:
    return str(node["Node Type"]).lower().replace(" ", "-")


def fnv(word: str) -> int:
    h = 0xCBF29CE484222325
    for byte in word.encode():
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return h


def two_layers(w: Weights, name: str, x: Tensor, active: Callable[[Tensor], Tensor]) -> Tensor:
    hidden = active(w[f"{name}.A"] @ x + w[f"{name}.a"])
    return w[f"{name}.B"] @ hidden + w[f"{name}.b"]


def leaky(x: Tensor) -> Tensor:
    return leaky_relu(x, 0.01)


def treelstm(w: Weights, nodes: list[Node]) -> list[Tensor]:
    size = len(w["x.b"])

    def show(node: Node) -> Tensor:
        table = node.get("Relation Name")
        name = w["relations"][fnv(table) % 256] if table else torch.zeros(16, dtype=torch.float64)
        return torch.relu(
            w["x.W"] @ torch.cat([w["operators"][KINDS[kind(node)]], name, estimates(node)]) + w["x.b"]
        )

    def state(node: Node) -> tuple[Tensor, Tensor]:
        x, h, c = show(node), torch.zeros(size, dtype=torch.float64), torch.zeros(size, dtype=torch.float64)
        for child in node.get("Plans", ()):
            below, memory = state(child)
            h = h + below
            c = c + torch.sigmoid(w["kept.W"] @ x + w["kept.U"] @ below + w["kept.b"]) * memory
        i, o, u = (w["state.W"] @ x + w["state.U"] @ h + w["state.b"]).split(size)
        c = i.sigmoid() * u.tanh() + c
        return o.sigmoid() * c.tanh(), c

    return [two_layers(w, "head", state(nodes[0])[0], torch.relu)]


UNITS = ("seq-scan", "index-scan", "nested-loop", "merge-join", "hash-join", "sort", "aggregate", "hash")


def qppnet(w: Weights, nodes: list[Node]) -> list[Tensor]:
    found: list[Tensor] = []

    def unit(node: Node) -> Tensor:
        at = len(found)
        found.append(torch.zeros(1))
        below = [unit(child) for child in node.get("Plans", ())]
        below += [torch.zeros(16, dtype=torch.float64)] * 2
        name = kind(node) if kind(node) in UNITS else "operator"
        hidden = torch.relu(two_layers(w, name, torch.cat([estimates(node), *below[:2]]), torch.relu))
        h = w[f"{name}.C"] @ hidden + w[f"{name}.c"]
        found[at] = h[:1]
        return h

    unit(nodes[0])
    return found


def zero_shot(w: Weights, nodes: list[Node]) -> list[Tensor]:
    groups = {"seq-scan": "scan", "index-scan": "scan"}
    groups |= dict.fromkeys(("nested-loop", "merge-join", "hash-join"), "join")
    passing = {"scan": "scanned", "join": "joined", "operator": "done"}

    def told(node: Node) -> Tensor:
        group = groups.get(kind(node), "operator")
        x = two_layers(w, group, torch.cat([w["operators"][KINDS[kind(node)]], estimates(node)]), leaky)
        below = sum(map(told, node.get("Plans", ())), torch.zeros(64, dtype=torch.float64))
        return two_layers(w, passing[group], torch.cat([below, x]), leaky)

    return [two_layers(w, "head", told(nodes[0]), leaky)]


def bao(w: Weights, nodes: list[Node]) -> list[Tensor]:
    network = Bao(torch, {})
    network.values = dict(w)
    kinds, numbers, near, there = network.padded([nodes])
    return [network.costs(kinds, numbers.double(), near, there)]


MODELS: dict[str, tuple[Callable[[Weights, list[Node]], list[Tensor]], str]] = {
    "bao": (bao, "log-error"),
    "treelstm-cost": (treelstm, "log-error"),
    "qppnet": (qppnet, "log-error"),
    "zero-shot": (zero_shot, "q-error"),
}


def main() -> None:
    """Write the file."""
    written: dict[str, np.ndarray] = {}
    plans = [json.loads(line) for line in (SPECS / "data/plans.jsonl").read_text().splitlines()]
    for name, (network, loss) in MODELS.items():
        given = abw.load(SPECS / f"{name}.yaml").params
        weights = {
            n: torch.tensor(np.array(v), dtype=torch.float64, requires_grad=True) for n, v in given.items()
        }
        costs, wanted = [], []
        for plan in plans:
            nodes = nodes_of(plan)
            costs += network(weights, nodes)
            times = [node["Actual Total Time"] for node in nodes]
            wanted += times if name == "qppnet" else [plan[0]["Execution Time"]]
        found = torch.cat(costs)
        apart = found - torch.tensor(wanted, dtype=torch.float64).log()
        total = 0.5 * (apart * apart).sum() if loss == "log-error" else apart.abs().exp().sum()
        (total / len(plans)).backward()
        written[f"{name}.cost"] = found.detach().numpy()
        for parameter, value in sorted(weights.items()):
            probe = np.random.default_rng(len(parameter)).standard_normal(value.shape)
            gradient = np.zeros(value.shape) if value.grad is None else value.grad.numpy()
            written[f"{name}.gradients.{parameter}"] = np.array(
                [(gradient * probe).sum(), np.abs(gradient * probe).sum()]
            )
    np.savez_compressed(HERE / "plans.npz", **written)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
