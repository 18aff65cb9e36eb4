"""An engine for abw's server: a tree LSTM in plain PyTorch, a tree after the other, node after node."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from abw.bench.pytorch.install import import_torch
from abw.core.serve.answers import Answer, Reply, as_lines
from abw.core.serve.process import main
from abw.core.serve.requests import Request
from abw.core.serve.settings import Limits, Loading
from abw.core.store.outputs import Column, Output, line_of

CLASSES, ROWS = 5, 256
OUTPUTS = (Output("classes", (CLASSES,), False),)


class TorchEngine:
    """What one writes first (Tai et al., 2015, the binary tree LSTM), on one thread."""

    def __init__(self, hidden: int) -> None:
        self.torch = torch = import_torch()
        draw = torch.Generator().manual_seed(0)

        def layer(rows: int, columns: int) -> tuple[Any, Any]:
            return torch.zeros(rows), torch.randn(rows, columns, generator=draw) * 0.05

        self.table = layer(ROWS, hidden)[1]
        self.leaf, self.inner = layer(3 * hidden, hidden), layer(5 * hidden, 2 * hidden)
        self.out = layer(CLASSES, hidden)

    def about(self) -> dict[str, Any]:
        """What the server says of the model."""
        return {"name": "torch", "format": "trees", "outputs": []}

    def run(self, requests: Mapping[int, Request]) -> Iterator[tuple[int, Reply, int]]:
        """Answer requests, each tree by itself."""

        def line(answer: Answer, at: int) -> bytes:
            return line_of(answer.name, at, OUTPUTS, answer.given)

        for number, request in requests.items():
            answers = []
            for i, text in enumerate(request.texts):
                values = self.scores(text)
                column = Column(values, np.array([len(values)]), np.zeros(len(values), np.int32))
                answers.append(Answer(i, ((column, 0, len(values)),)))
            yield number, as_lines(answers, request.lines, line), 0

    def scores(self, text: str) -> Any:  # noqa: ANN401 (an array)
        """The scores of each node of a tree, in preorder (nodes, CLASSES)."""
        torch = self.torch
        words = iter(text.replace("(", " ( ").replace(")", " ) ").split()[1:])
        found: list[Any] = []

        def node() -> tuple[Any, Any]:
            """Read a node behind its parenthesis."""
            mine = len(found)
            found.append(None)
            next(words)  # the label
            if (word := next(words)) != "(":
                i, o, u = torch.addmv(*self.leaf, self.table[hash(word) % ROWS]).chunk(3)
                c = torch.sigmoid(i) * torch.tanh(u)
            else:
                hl, cl = node()
                next(words)
                hr, cr = node()
                i, o, u, fl, fr = torch.addmv(*self.inner, torch.cat([hl, hr])).chunk(5)
                c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(fl) * cl + torch.sigmoid(fr) * cr
            next(words)
            h = torch.sigmoid(o) * torch.tanh(c)
            found[mine] = torch.addmv(*self.out, h)
            return h, c

        with torch.inference_mode():
            node()
            return torch.stack(found).numpy()


def opened(loading: Loading, limits: Limits) -> TorchEngine:
    """The engine, after a tree."""
    sys.setrecursionlimit(20_000)
    engine = TorchEngine(loading.dims["hidden"])
    engine.scores("(1 (2 a) (3 b))")
    return engine


if __name__ == "__main__":
    main(opened)
