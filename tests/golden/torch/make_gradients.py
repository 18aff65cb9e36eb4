"""Gradients as PyTorch's autograd has them: the twin of make.py and make_gallery.py beside it.

In `NAME-gradients.npz` those of the sum of all outputs times standard normal numbers (NumPy's generator of
seed SEED, in the order of the outputs), computed in double precision. Of models whose weights lie here they
are of the state_dict's tensors, under the same names. Others have weights drawn by abw, and gradients by the
names of its parameters and tables; these models are written out here. Needs abw besides PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from make import (  # type: ignore[import-not-found]
    DATA,
    HERE,
    HIDDEN,
    ChildSum,
    Tagger,
    Tree,
    TreeLSTM,
    dependencies,
    sentences,
    trees,
)
from make import EMBED as EMBEDDED
from make_gallery import AttentiveTree, Translation, pairs, vocabulary  # type: ignore[import-not-found]
from safetensors.torch import load_file
from torch import Tensor, nn

from abw.core.data.intern import hashed
from abw.core.exec.params import init_params
from abw.core.graph.cells import cell_network
from abw.core.run.workload import open_model
from abw.core.spec.load import Overrides

SEED, SIZE, INSTANCES, ROWS = 7, 4, 6, 256


def loss(outputs: Iterable[Tensor]) -> Tensor:
    """The sum of all outputs, each times a number."""
    rows = torch.cat([output.reshape(-1, output.shape[-1]) for output in outputs])
    drawn = np.random.default_rng(SEED).standard_normal(tuple(rows.shape), np.float32)
    return (rows * torch.from_numpy(drawn).double()).sum()


def keep_module(name: str, model: nn.Module, outputs: Callable[[Any], Iterable[Tensor]]) -> None:
    """Of a module with the weights that lie here; `outputs(model)` gives its outputs."""
    path = HERE / f"{name}.safetensors"
    if path.exists():
        state = load_file(path)
    else:
        state = {key: torch.from_numpy(values) for key, values in np.load(HERE / f"{name}.npz").items()}
    model.load_state_dict(state)
    model.double()
    loss(outputs(model)).backward()
    write(name, dict(model.named_parameters()))


def write(name: str, of: Mapping[str, Tensor]) -> None:
    """Write the gradients; zeros of what has none."""
    found = {key: torch.zeros_like(v) if v.grad is None else v.grad for key, v in of.items()}
    arrays = {key: value.float().numpy() for key, value in found.items()}
    np.savez_compressed(HERE / f"{name}-gradients.npz", **arrays)


class Drawn:
    """The weights that abw draws for a spec, by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        spec = HERE.parents[2] / f"specs/{name}.yaml"
        network = cell_network(open_model(spec, Overrides(dims={"hidden": SIZE})))
        params = init_params(network, 0)
        names = [*(param.name for param in network.params), *(table.name for table in network.tables)]
        values = [torch.from_numpy(v).double().requires_grad_() for v in (*params.values, *params.tables)]
        self.values = dict(zip(names, values, strict=True))

    def __getitem__(self, name: str) -> Tensor:
        return self.values[name]

    def keep(self, outputs: Iterable[Tensor]) -> None:
        loss(outputs).backward()
        write(self.name, self.values)

    def lstm(self, name: str, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        i, f, o, u = (
            self[f"{name}.W{gate}"] @ x + self[f"{name}.U{gate}"] @ h + self[f"{name}.b{gate}"]
            for gate in "ifou"
        )
        c = f.sigmoid() * c + i.sigmoid() * u.tanh()
        return o.sigmoid() * c.tanh(), c

    def linear(self, name: str, x: Tensor) -> Tensor:
        return self[f"{name}.W"] @ x + self[f"{name}.b"]


def lattices() -> Iterable[list[list[tuple[int, int]]]]:
    """For each position the arcs that end there: where they begin, and what they are."""
    lines = iter((DATA / "lattice.txt").read_text().splitlines())
    next(lines)
    for _ in range(INSTANCES):
        length = int(next(line for line in lines if line))
        next(lines)
        numbers = [[int(n) for n in next(lines).split()] for _ in range(length)]
        yield [list(zip(row[1::2], row[2::2], strict=True)) for row in numbers]


def lattice(w: Drawn, positions: list[list[tuple[int, int]]]) -> Tensor:
    """A lattice LSTM (Zhang and Yang, 2018) whose states are sums over arcs."""
    states: list[tuple[Tensor, Tensor]] = []
    for at, arcs in enumerate(positions):
        ends = []
        for start, number in arcs:
            name = "char" if start == at - 1 else "word"
            ends.append(w.lstm(name, w[f"{name}s"][number % ROWS], *states[start]))
        h, c = zip(*ends, strict=True) if ends else ((w["h0"],), (w["c0"],))
        states.append((torch.stack(h).sum(0), torch.stack(c).sum(0)))
    return torch.stack([w.linear("tag", h) for h, _ in states])


def matrix_vector(w: Drawn, tree: Tree) -> tuple[Tensor, Tensor, list[Tensor]]:
    """A matrix-vector network (Socher et al., 2012): vector, matrix, and the scores in preorder."""
    if isinstance(tree, str):
        (at,) = hashed([tree], ROWS)
        v, M, below = w["vectors"][int(at)], w["matrices"][int(at)], []
    else:
        (a, A, left), (b, B, right) = (matrix_vector(w, part) for part in tree)
        v = (w["internal.W"] @ torch.cat([B @ a, A @ b])).tanh()
        M, below = w["internal.Wm"] @ torch.cat([A, B]), left + right
    return v, M, [w.linear("output", v), *below]


def translated(w: Drawn, source: list[str], target: list[str]) -> Tensor:
    """Two LSTMs (Sutskever et al., 2014)."""
    h = c = torch.zeros(SIZE, dtype=torch.float64)
    for at in hashed(source, ROWS):
        h, c = w.lstm("encoder", w["sources"][int(at)], h, c)
    rows = []
    for at in hashed(target, ROWS):
        h, c = w.lstm("decoder", w["targets"][int(at)], h, c)
        rows.append(w.linear("word", h))
    return torch.stack(rows)


def main() -> None:
    two = nn.LSTM(EMBEDDED, HIDDEN, num_layers=2, bidirectional=True, batch_first=True)
    keep_module("torch-bilstm", Tagger("lstm", two, 2 * HIDDEN), lambda m: [m(s) for s in sentences()])
    gru = Tagger("gru", nn.GRU(EMBEDDED, HIDDEN, batch_first=True), HIDDEN)
    keep_module("torch-gru", gru, lambda m: [m(s) for s in sentences()])
    keep_module("torch-treelstm", TreeLSTM(), lambda m: [y for t in trees() for y in m(t)])
    torch.set_default_dtype(torch.float64)  # of the zeros that the models begin with
    keep_module("torch-childsum", ChildSum(), lambda m: [y for d in dependencies() for y in m(*d)])
    keep_module("treelstm-attend", AttentiveTree(), lambda m: [m.read(t) for t in trees()])
    nmt = Translation(len(vocabulary("english.txt")), len(vocabulary("german.txt")))
    keep_module("attention-nmt", nmt, lambda m: [m(*p) for p in pairs()])
    torch.set_default_dtype(torch.float32)
    w = Drawn("lattice")
    w.keep([lattice(w, positions) for positions in lattices()])
    w = Drawn("mvrnn")
    w.keep([y for tree, _ in zip(trees(), range(INSTANCES), strict=False) for y in matrix_vector(w, tree)[2]])
    w = Drawn("lstm-nmt")
    lines = (DATA / "pairs.txt").read_text().splitlines()[:INSTANCES]
    w.keep([translated(w, *(side.split() for side in line.split(" ||| "))) for line in lines])


if __name__ == "__main__":
    main()
