"""What batched models share: disjoint graphs as one, sums and softmax over edges, padded rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

Tensor = Any
Rows = Mapping[str, int]


class Batched(Protocol):
    """A model of the gallery in PyTorch: its parameters, and its outputs for a mini-batch."""

    def state(self) -> dict[str, Tensor]:
        """The state_dict that the spec's `weights:` reads."""

    def read(self, line: str) -> Any:  # noqa: ANN401
        """An instance: a line of the data file as arrays or lists of numbers."""

    def prepare(self, instances: Sequence[Any]) -> Any:  # noqa: ANN401
        """A mini-batch of these as what `compute` wants: indices and masks."""

    def compute(self, batch: Any) -> Tensor:  # noqa: ANN401
        """Outputs in the order of instances and vertices."""


def vocabulary(file: Path) -> dict[str, int]:
    """Words to rows, a word a line."""
    return {word: row for row, word in enumerate(file.read_text(encoding="utf-8").split("\n")[:-1])}


@dataclass(frozen=True, slots=True)
class Graph:
    """Vertices as `rows` (n,) of a table, and links, pairs (e, 2)."""

    rows: NDArray[np.int64]
    links: dict[str, NDArray[np.int64]]


def graph(line: str, field: str, rows: Rows) -> Graph:
    """A graph of a JSON line; words that `rows` does not have are its `<unk>`."""
    read = json.loads(line)
    unknown = rows.get("<unk>", 0)
    return Graph(
        np.array([rows.get(vertex[field], unknown) for vertex in read["vertices"]]),
        {name: np.array(pairs, np.int64).reshape(-1, 2) for name, pairs in read["links"].items()},
    )


@dataclass(frozen=True, slots=True)
class Joined:
    """Disjoint graphs as one: `rows` (n,), the `instance` (n,) of each, and the graphs' `sizes`."""

    rows: NDArray[np.int64]
    instance: NDArray[np.int64]
    sizes: NDArray[np.int64]
    links: dict[str, NDArray[np.int64]]


def joined(graphs: Sequence[Graph], *names: str) -> Joined:
    """Graphs side by side, with the links of these names."""
    sizes = np.array([len(some.rows) for some in graphs])
    starts = (np.cumsum(sizes) - sizes).tolist()
    return Joined(
        np.concatenate([some.rows for some in graphs]),
        np.repeat(np.arange(len(graphs)), sizes),
        sizes,
        {
            name: np.concatenate([some.links[name] + at for some, at in zip(graphs, starts, strict=True)])
            for name in names
        },
    )


@dataclass(frozen=True, slots=True)
class Edges:
    """From rows `source` (e,) to `target` (e,), sorted by it; `first` (count,): the first edge of each."""

    source: Tensor
    target: Tensor
    first: Tensor
    count: int

    @staticmethod
    def of(source: NDArray[np.int64], target: NDArray[np.int64], count: int) -> Edges:
        """Edges in the order of their targets."""
        order = np.argsort(target, kind="stable")
        source, target = source[order], target[order]
        first = np.searchsorted(target, np.arange(count))
        made = torch.from_numpy
        return Edges(made(source), made(target), made(first), count)

    def sum(self, values: Tensor, weights: Tensor | None = None, *, bags: bool) -> Tensor:
        """For each target the sum of its edges' rows of `values` (m, d), times `weights` (e,)."""
        if bags:
            bag = torch.nn.functional.embedding_bag
            return bag(self.source, values, self.first, mode="sum", per_sample_weights=weights)
        rows = values.index_select(0, self.source)
        if weights is not None:
            rows *= weights[:, None]
        return values.new_zeros(self.count, values.shape[1]).index_add_(0, self.target, rows)

    def softmax(self, scores: Tensor) -> Tensor:
        """Softmax of `scores` (e,) over the edges of each target."""
        highest = scores.new_zeros(self.count)
        highest.scatter_reduce_(0, self.target, scores, "amax", include_self=False)
        risen = (scores - highest.index_select(0, self.target)).exp_()
        total = scores.new_zeros(self.count).index_add_(0, self.target, risen)
        return risen / total.index_select(0, self.target)


def padded(lists: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Lists below each other, (n, longest), with zeros at their ends, and where they are: True."""
    there = np.arange(max(map(len, lists))) < np.array([len(some) for some in lists])[:, None]
    values = np.zeros(there.shape, np.int64)
    values[there] = [value for some in lists for value in some]
    return torch.from_numpy(values), torch.from_numpy(there)
