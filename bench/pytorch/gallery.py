"""Models that ship, in PyTorch, batched by hand. Imports PyTorch: import this only where it is installed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

Tensor = Any
Ints = NDArray[np.int64]
HEADS, LAYERS, CLASSES = 2, 2, 3


class Batched:
    """A model: its parameters in `module`, and its outputs for a mini-batch."""

    # How mini-batches are made.
    way: str
    module: Any

    def state(self) -> dict[str, Tensor]:
        """The state_dict that the spec's `weights:` reads."""
        return dict(self.module.state_dict())

    def read(self, line: str) -> Any:  # noqa: ANN401
        """An instance: a line of the data file as arrays or lists of numbers."""
        raise NotImplementedError

    def prepare(self, instances: Sequence[Any]) -> Any:  # noqa: ANN401
        """A mini-batch as `compute` wants it: indices and masks."""
        raise NotImplementedError

    def compute(self, batch: Any) -> Tensor:  # noqa: ANN401
        """Outputs in the order of instances and vertices."""
        raise NotImplementedError

    def runs(self, lines: Sequence[str], batch: int) -> dict[str, Callable[[], NDArray[Any]]]:
        """Return functions that compute all outputs, from existing mini-batches and from instances."""
        read = [self.read(line) for line in lines]
        pieces = [read[first : first + batch] for first in range(0, len(read), batch)]
        batches = [self.prepare(some) for some in pieces]

        def outputs(batches: Iterable[Any]) -> NDArray[Any]:
            with torch.inference_mode():
                found: NDArray[Any] = torch.cat([self.compute(some) for some in batches]).numpy()
            return found

        return {
            "over_computation_times": lambda: outputs(batches),
            "over_all_of_it_times": lambda: outputs(map(self.prepare, pieces)),
        }


def rows_of(file: Path) -> dict[str, int]:
    """Words to rows, a word a line."""
    return {word: row for row, word in enumerate(file.read_text(encoding="utf-8").split("\n")[:-1])}


@dataclass(frozen=True, slots=True)
class Graph:
    """Vertices as `rows` (n,) of a table, and links, pairs (e, 2) of vertices."""

    rows: Ints
    links: dict[str, Ints]


def graph(line: str, field: str, rows: Mapping[str, int]) -> Graph:
    """A graph of a JSON line; words that `rows` does not have are its `<unk>`."""
    read, unknown = json.loads(line), rows.get("<unk>", 0)
    return Graph(
        np.array([rows.get(vertex[field], unknown) for vertex in read["vertices"]]),
        {name: np.array(pairs, np.int64).reshape(-1, 2) for name, pairs in read["links"].items()},
    )


def joined(graphs: Sequence[Graph], *names: str) -> Graph:
    """Disjoint graphs as one, with the links of these names."""
    sizes = np.array([len(some.rows) for some in graphs])
    starts = (np.cumsum(sizes) - sizes).tolist()
    links = {
        name: np.concatenate([some.links[name] + at for some, at in zip(graphs, starts, strict=True)])
        for name in names
    }
    return Graph(np.concatenate([some.rows for some in graphs]), links)


def padded(lists: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Lists below each other, (n, longest), with zeros at their ends, and True where their values are."""
    there = np.arange(max(map(len, lists))) < np.array([len(some) for some in lists])[:, None]
    values = np.zeros(there.shape, np.int64)
    values[there] = [value for some in lists for value in some]
    return torch.from_numpy(values), torch.from_numpy(there)


class RGCN(Batched):
    """rgcn: one product for an atom's own part and both messages, one weighted sum a layer.

    A mini-batch of molecules is one graph of separate parts, its edges a list. Sums over edges are calls of
    index_add_, as in PyTorch Geometric; of `with_bags` those of embedding_bag, which multiplies and adds
    without writing the edges' rows: faster, and not what most people write.
    """

    way = "edges"

    def __init__(self, data: Path, hidden: int) -> None:
        def linear(bias: bool = False) -> Any:  # noqa: ANN401
            return nn.Linear(hidden, hidden, bias=bias)

        layers = [
            nn.ModuleDict({"root": linear(True), "one": linear(), "two": linear()}) for _ in range(LAYERS)
        ]
        self.elements = rows_of(data / "elements.txt")
        self.module = nn.ModuleDict(
            {
                "embed": nn.Embedding(len(self.elements), hidden),
                "layers": nn.ModuleList(layers),
                "out": nn.Linear(hidden, CLASSES),
            }
        )
        self.messages = [torch.cat([layer["one"].weight, layer["two"].weight]) for layer in layers]

    def with_bags(self) -> Batched:
        """Return this model with sums by embedding_bag."""
        other = copy(self)
        other.way = "bags"
        return other

    def read(self, line: str) -> Graph:
        """See `Batched`."""
        return graph(line, "element", self.elements)

    def prepare(self, instances: Sequence[Graph]) -> tuple[Tensor, ...]:
        """Rows of elements; edges sorted by their targets, and the first of each target; their weights.

        An edge leads from one of an atom's two messages, which are rows below each other; its weight is one
        over how many of its kind its target has.
        """
        read = joined(instances, "single", "double")
        n, bonds = len(read.rows), list(read.links.values())
        source = np.concatenate([2 * pairs[:, 1] + kind for kind, pairs in enumerate(bonds)])
        target = np.concatenate([pairs[:, 0] for pairs in bonds])
        shares = [1 / np.bincount(pairs[:, 0], minlength=n)[pairs[:, 0]] for pairs in bonds]
        order = np.argsort(target, kind="stable")
        weights = np.concatenate(shares)[order].astype(np.float32)
        first = np.searchsorted(target[order], np.arange(n))
        return tuple(map(torch.from_numpy, (read.rows, source[order], target[order], first, weights)))

    def compute(self, batch: tuple[Tensor, ...]) -> Tensor:
        """Scores of classes for every atom."""
        rows, source, target, first, weights = batch
        bag = nn.functional.embedding_bag
        h = self.module["embed"](rows)
        for layer, messages in zip(self.module["layers"], self.messages, strict=True):
            said = nn.functional.linear(h, messages).view(-1, h.shape[1])
            if self.way == "bags":
                heard = bag(source, said, first, mode="sum", per_sample_weights=weights)
            else:
                picked = said.index_select(0, source).mul_(weights[:, None])
                heard = torch.zeros_like(h).index_add_(0, target, picked)
            h = layer["root"](h).add_(heard).relu_()
        return self.module["out"](h)


class BothWays(Batched):
    """bidag: by level up, then down; what an operation attends to is padded to the most of its level."""

    way = "levels"

    def __init__(self, data: Path, hidden: int) -> None:
        self.names = rows_of(data / "names.txt")
        self.module = nn.ModuleDict(
            {
                "embed": nn.Embedding(len(self.names), hidden),
                "leaf": nn.Linear(hidden, hidden),
                "up": nn.GRU(hidden, hidden, batch_first=True),
                "back": nn.Linear(2 * hidden, hidden),
                "out": nn.Linear(2 * hidden, CLASSES),
            }
        )

    def read(self, line: str) -> Graph:
        """An expression."""
        return graph(line, "name", self.names)

    def prepare(self, instances: Sequence[Graph]) -> tuple[Tensor, Tensor, list[Any], list[Any], Tensor]:
        """Rows of names, leaves, levels from the leaves up and from the roots down, and all operations."""
        read = joined(instances, "arguments")
        n = len(read.rows)
        below: list[list[int]] = [[] for _ in range(n)]
        users: list[list[int]] = [[] for _ in range(n)]
        for user, argument in read.links["arguments"].tolist():
            below[user].append(argument)
            users[argument].append(user)
        heights = _longest(range(n), below)  # arguments come before what reads them
        depths = _longest(reversed(range(n)), users)
        inner = heights > 0
        up = [_level(np.flatnonzero(heights == level), below) for level in range(1, heights.max() + 1)]
        down = [
            _level(np.flatnonzero(inner & (depths == level)), users)
            for level in range(depths[inner].max() + 1)
        ]
        rows, leaves, operations = map(
            torch.from_numpy, (read.rows, np.flatnonzero(~inner), np.flatnonzero(inner))
        )
        return rows, leaves, up, down, operations

    def compute(self, batch: tuple[Tensor, Tensor, list[Any], list[Any], Tensor]) -> Tensor:
        """Scores of classes for every operation."""
        rows, leaves, up_levels, down_levels, operations = batch
        parts = self.module
        x = parts["embed"](rows)
        up, down = torch.zeros_like(x), torch.zeros_like(x)  # padding reads rows that no level has written
        up[leaves] = parts["leaf"](x.index_select(0, leaves)).tanh_()
        weights = parts["up"].all_weights[0]
        for nodes, read, absent in up_levels:
            query = x.index_select(0, nodes)
            up[nodes] = torch.gru_cell(query, _attended(query, up, read, absent), *weights)
        for depth, (nodes, read, absent) in enumerate(down_levels):
            state = up.index_select(0, nodes)
            above = _attended(state, down, read, absent) if depth else torch.zeros_like(state)
            down[nodes] = parts["back"](torch.cat([state, above], 1)).tanh_()
        return parts["out"](torch.cat([up, down], 1).index_select(0, operations))


def _longest(order: Iterable[int], before: Sequence[Sequence[int]]) -> Ints:
    """The longest path that ends at each node, of nodes in an order in which `before` come first."""
    found = np.zeros(len(before), np.int64)
    for v in order:
        found[v] = max((found[u] + 1 for u in before[v]), default=0)
    return found


def _level(nodes: Ints, read: list[list[int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes, what they read, (n, most), and True where that is none."""
    positions, there = padded([read[node] for node in nodes])
    return torch.from_numpy(nodes), positions, ~there


def _attended(query: Tensor, states: Tensor, read: Tensor, absent: Tensor) -> Tensor:
    """For each query (n, d) the weighted sum of the states that its operation reads."""
    rows = states.index_select(0, read.view(-1)).view(*read.shape, -1)
    scores = torch.bmm(rows, query[:, :, None])[:, :, 0] / query.shape[1] ** 0.5
    weights = scores.masked_fill_(absent, -torch.inf).softmax(1)
    return torch.bmm(weights[:, None], rows)[:, 0]


class SetTransformer(Batched):
    """set-transformer: nn.TransformerEncoderLayer in its fast path for inference, with a padding mask."""

    way = "padded"

    def __init__(self, data: Path, hidden: int) -> None:
        def layer() -> Any:  # noqa: ANN401
            made = nn.TransformerEncoderLayer(hidden, HEADS, 2 * hidden, dropout=0.0, batch_first=True)
            return made.eval()

        self.words = rows_of(data / "words.txt")
        self.module = nn.ModuleDict(
            {
                "embed": nn.Embedding(len(self.words), hidden),
                "layers": nn.ModuleList(layer() for _ in range(LAYERS)),
                "pool": layer(),
                "out": nn.Linear(hidden, CLASSES),
            }
        )
        self.module.register_parameter("seed", nn.Parameter(torch.randn(hidden)))

    def read(self, line: str) -> list[int]:
        """Rows of the words."""
        unknown = self.words["<unk>"]
        return [self.words.get(token.rpartition("|")[0], unknown) for token in line.split()]

    def prepare(self, instances: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
        """Rows of words, padded, and where there are none."""
        rows, there = padded(instances)
        return rows, ~there

    def compute(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Scores of classes for every sentence."""
        rows, absent = batch
        parts = self.module
        x = parts["embed"](rows)
        for layer in parts["layers"]:
            x = layer(x, src_key_padding_mask=absent)
        pool = parts["pool"]
        seed = parts.seed.expand(len(rows), 1, -1)
        heard = pool.self_attn(seed, x, x, key_padding_mask=absent, need_weights=False)[0]
        h = pool.norm1(seed + heard)[:, 0]
        return parts["out"](pool.norm2(h + pool.linear2(pool.linear1(h).relu_())))


MODELS: dict[str, Callable[[Path, int], Batched]] = {
    "rgcn": RGCN,
    "set-transformer": SetTransformer,
    "bidag": BothWays,
}


def written(name: str, data: Path, hidden: int) -> list[Batched]:
    """A model by each way of batching, with the same parameters."""
    model = MODELS[name](data, hidden)
    return [model, model.with_bags()] if isinstance(model, RGCN) else [model]
