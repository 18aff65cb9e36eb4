"""What PyTorch computes for the models over graphs, and those with attention: the twin of make.py beside it.

For each spec NAME of GALLERY a state_dict, `NAME.npz`, and in `NAME-expected.npz` the outputs in the order of
instances and vertices. Every formula is written out here as its paper has it, one instance after the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import torch
from make import CLASSES as TREE_CLASSES  # type: ignore[import-not-found]
from make import DATA, EMBED, HERE, HIDDEN, LIMIT, WORDS, Tree, TreeLSTM, dependencies, row, sentences, trees
from torch import Tensor, nn

SIZE, HEADS, LAYERS, STEPS, CLASSES = 6, 2, 2, 4, 3
Links = dict[str, list[list[int]]]


def vocabulary(name: str) -> dict[str, int]:
    return {word: number for number, word in enumerate((DATA / name).read_text().split("\n")[:-1])}


ELEMENTS = vocabulary("elements.txt")


class GAT(nn.Module):
    """Graph attention (Veličković et al., 2018, equations 1 to 5): heads side by side, ELU."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(ELEMENTS), SIZE)
        self.layers = nn.ModuleList()
        for _ in range(LAYERS):
            layer = nn.Module()
            layer.lin = nn.Linear(SIZE, SIZE, bias=False)
            layer.source, layer.target = (nn.Parameter(torch.randn(HEADS, SIZE // HEADS)) for _ in range(2))
            layer.bias = nn.Parameter(torch.randn(SIZE))
            self.layers.append(layer)
        self.out = nn.Linear(SIZE, CLASSES)

    def forward(self, atoms: list[int], links: dict[str, list[list[int]]]) -> Tensor:
        h = self.embed.weight[atoms]
        for layer in self.layers:
            z = layer.lin(h).view(len(atoms), HEADS, -1)
            rows = []
            for i, near in enumerate(links["near"]):
                scores = torch.stack(
                    [(layer.source * z[j]).sum(-1) + (layer.target * z[i]).sum(-1) for j in near]
                )
                weights = nn.functional.leaky_relu(scores, 0.2).softmax(0)
                rows.append((weights[:, :, None] * z[near]).sum(0).flatten())
            h = nn.functional.elu(torch.stack(rows) + layer.bias)
        scores_of: Tensor = self.out(h)
        return scores_of

    def state(self) -> dict[str, Tensor]:
        """With each head's vectors as a row of zeros elsewhere."""
        state: dict[str, Tensor] = self.state_dict()
        for n in range(LAYERS):
            for name, short in (("source", "src"), ("target", "dst")):
                heads = state.pop(f"layers.{n}.{name}")
                state[f"layers.{n}.att_{short}"] = torch.block_diag(*heads)
        return state


class GGNN(nn.Module):
    """A gated graph network (Li et al., 2016) with two kinds of edges and a gated sum at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(ELEMENTS), SIZE)
        self.one, self.two = (nn.Linear(SIZE, SIZE, bias=False) for _ in range(2))
        self.gru = nn.GRUCell(SIZE, SIZE)
        self.gate, self.out = nn.Linear(2 * SIZE, CLASSES), nn.Linear(SIZE, CLASSES)

    def forward(self, atoms: list[int], links: Links) -> Tensor:
        x = h = self.embed.weight[atoms]
        for _ in range(STEPS):
            heard = [
                sum((self.one(h[j]) for j in links["single"][i]), torch.zeros(SIZE))
                + sum((self.two(h[j]) for j in links["double"][i]), torch.zeros(SIZE))
                for i in range(len(atoms))
            ]
            h = self.gru(torch.stack(heard), h)
        votes = self.gate(torch.cat([h, x], 1)).sigmoid() * self.out(h)
        return votes.sum(0, keepdim=True)


class RGCN(nn.Module):
    """A relational graph convolution (Schlichtkrull et al., 2018, equation 2, c the number of neighbours)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(ELEMENTS), SIZE)
        self.layers = nn.ModuleList()
        for _ in range(LAYERS):
            layer = nn.Module()
            layer.root = nn.Linear(SIZE, SIZE)
            layer.one, layer.two = (nn.Linear(SIZE, SIZE, bias=False) for _ in range(2))
            self.layers.append(layer)
        self.out = nn.Linear(SIZE, CLASSES)

    def forward(self, atoms: list[int], links: Links) -> Tensor:
        h = self.embed.weight[atoms]
        for layer in self.layers:
            rows = []
            for i in range(len(atoms)):
                total = layer.root(h[i])
                for kind, bound in ((layer.one, links["single"][i]), (layer.two, links["double"][i])):
                    for j in bound:
                        total = total + kind(h[j]) / len(bound)
                rows.append(total.relu())
            h = torch.stack(rows)
        scores: Tensor = self.out(h)
        return scores


class AttentiveTree(TreeLSTM):
    """The tree LSTM of make.py, its nodes read by attention with a learned query."""

    def __init__(self) -> None:
        super().__init__()
        self.key, self.q = nn.Linear(HIDDEN, HIDDEN), nn.Parameter(torch.randn(HIDDEN))
        self.states: list[Tensor] = []

    def visit(self, tree: Tree) -> tuple[Tensor, Tensor, list[Tensor]]:
        h, c, below = super().visit(tree)
        self.states.append(h)
        return h, c, below

    def read(self, tree: Tree) -> Tensor:
        self.states = []
        self.visit(tree)
        h = torch.stack(self.states)
        weights = (self.key(h) @ self.q / HIDDEN**0.5).softmax(0)
        scores: Tensor = self.out(weights @ h)
        return scores


class Translation(nn.Module):
    """Two LSTMs with attention (Luong et al., 2015, equations 5 and 7, score dot)."""

    def __init__(self, sources: int, targets: int) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(sources, EMBED), nn.Embedding(targets, EMBED)
        self.encoder, self.decoder = (nn.LSTM(EMBED, HIDDEN, batch_first=True) for _ in range(2))
        self.mix, self.out = nn.Linear(2 * HIDDEN, HIDDEN, bias=False), nn.Linear(HIDDEN, targets)

    def forward(self, source: list[int], target: list[int]) -> Tensor:
        encoded, state = self.encoder(self.source.weight[source][None])
        decoded, _ = self.decoder(self.target.weight[target][None], state)
        weights = (decoded[0] @ encoded[0].T).softmax(1)
        scores: Tensor = self.out(self.mix(torch.cat([weights @ encoded[0], decoded[0]], 1)).tanh())
        return scores


class SetTransformer(nn.Module):
    """Self-attention over a set, then a seed's over the result (Lee et al., 2019, equations 6 to 11)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(WORDS), SIZE)
        self.layers = nn.ModuleList(encoder_layer() for _ in range(LAYERS))
        self.pool, self.seed = encoder_layer(), nn.Parameter(torch.randn(SIZE))
        self.out = nn.Linear(SIZE, CLASSES)

    def forward(self, words: list[str]) -> Tensor:
        x = self.embed.weight[[row(word) for word in words]]
        for layer in self.layers:
            x = layer(x[None])[0]
        pool, seed = self.pool, self.seed[None]
        h = pool.norm1(seed + pool.self_attn(seed, x, x)[0])
        scores: Tensor = self.out(pool.norm2(h + pool.linear2(pool.linear1(h).relu())))
        return scores


class TreeTransformer(nn.Module):
    """An encoder's layers over trees: attention is masked to the words of the same head, which is added."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(WORDS), SIZE)
        self.layers = nn.ModuleList(encoder_layer() for _ in range(LAYERS))
        self.heads = nn.ModuleList(nn.Linear(SIZE, SIZE) for _ in range(LAYERS))
        self.out = nn.Linear(SIZE, TREE_CLASSES)

    def forward(self, words: list[str], children: list[list[int]]) -> Tensor:
        x = self.embed.weight[[row(word) for word in words]]
        parent = [next((p for p, some in enumerate(children) if w in some), -1) for w in range(len(words))]
        apart = torch.tensor([[w != u and (p < 0 or p != parent[u]) for u in range(len(words))]
                              for w, p in enumerate(parent)])  # fmt: skip
        for layer, head in zip(self.layers, self.heads, strict=True):
            above = torch.stack([x[p] if p >= 0 else torch.zeros(SIZE) for p in parent])
            a = layer.self_attn(x, x, x, attn_mask=apart)[0]
            h = layer.norm1(x + head(above) + a)
            x = layer.norm2(h + layer.linear2(layer.linear1(h).relu()))
        scores: Tensor = self.out(x)
        return scores


class BothWays(nn.Module):
    """A recurrent network over a DAG, from its leaves up and from its roots down."""

    def __init__(self, names: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(names, SIZE)
        self.leaf, self.up = nn.Linear(SIZE, SIZE), nn.GRU(SIZE, SIZE, batch_first=True)
        self.back, self.out = nn.Linear(2 * SIZE, SIZE), nn.Linear(2 * SIZE, CLASSES)

    def forward(self, names: list[int], arguments: list[list[int]]) -> Tensor:
        x, up, down = self.embed.weight[names], dict[int, Tensor](), dict[int, Tensor]()

        def attended(query: Tensor, states: list[Tensor]) -> Tensor:
            if not states:
                return torch.zeros(SIZE)
            rows = torch.stack(states)
            return (rows @ query / SIZE**0.5).softmax(0) @ rows

        for v, below in enumerate(arguments):  # arguments come before what reads them
            if below:
                state = attended(x[v], [up[u] for u in below])
                up[v] = self.up(x[v][None, None], state[None, None])[0][0, 0]
            else:
                up[v] = self.leaf(x[v]).tanh()
        for v in reversed(range(len(names))):
            if arguments[v]:
                users = [u for u, below in enumerate(arguments) for w in below if w == v]
                down[v] = self.back(torch.cat([up[v], attended(up[v], [down[u] for u in users])])).tanh()
        scores: Tensor = self.out(torch.stack([torch.cat([up[v], down[v]]) for v in sorted(down)]))
        return scores


def encoder_layer() -> nn.TransformerEncoderLayer:
    """Its biases and gains drawn, too, which PyTorch begins with zeros and ones."""
    layer = nn.TransformerEncoderLayer(SIZE, HEADS, 2 * SIZE, dropout=0.0, batch_first=True).eval()
    for name, values in layer.named_parameters():
        if values.dim() == 1:
            values.data += 0.3 * torch.randn(values.shape) if "weight" in name else torch.randn(values.shape)
    return layer


def molecules() -> Iterator[tuple[list[int], Links]]:
    for line in (DATA / "molecules.jsonl").read_text().splitlines()[:LIMIT]:
        graph = json.loads(line)
        atoms = [ELEMENTS[vertex["element"]] for vertex in graph["vertices"]]
        yield (
            atoms,
            {
                name: [[b for a, b in pairs if a == atom] for atom in range(len(atoms))]
                for name, pairs in graph["links"].items()
            },
        )


def expressions() -> Iterator[tuple[list[int], list[list[int]]]]:
    names = vocabulary("names.txt")
    for line in (DATA / "expressions.jsonl").read_text().splitlines()[:LIMIT]:
        graph = json.loads(line)
        arguments: list[list[int]] = [[] for _ in graph["vertices"]]
        for user, argument in graph["links"]["arguments"]:
            arguments[user].append(argument)
        yield [names[vertex["name"]] for vertex in graph["vertices"]], arguments


def pairs() -> Iterator[tuple[list[int], list[int]]]:
    sources, targets = vocabulary("english.txt"), vocabulary("german.txt")
    for line in (DATA / "pairs.txt").read_text().splitlines()[:LIMIT]:
        source, target = line.split(" ||| ")
        yield [sources[w] for w in source.split()], [targets[w] for w in target.split()]


def keep(name: str, state: dict[str, Tensor], outputs: Tensor) -> None:
    np.savez(HERE / f"{name}.npz", **{key: value.contiguous().numpy() for key, value in state.items()})
    np.savez(HERE / f"{name}-expected.npz", outputs.numpy())


@torch.no_grad()
def main() -> None:
    torch.manual_seed(16)
    gat, ggnn, rgcn, tree = GAT(), GGNN(), RGCN(), AttentiveTree()
    keep("gat", gat.state(), torch.cat([gat(*m) for m in molecules()]))
    keep("ggnn", ggnn.state_dict(), torch.cat([ggnn(*m) for m in molecules()]))
    keep("rgcn", rgcn.state_dict(), torch.cat([rgcn(*m) for m in molecules()]))
    keep("treelstm-attend", tree.state_dict(), torch.stack([tree.read(t) for t in trees()]))
    nmt = Translation(len(vocabulary("english.txt")), len(vocabulary("german.txt")))
    sets, tree_transformer = SetTransformer(), TreeTransformer()
    keep("set-transformer", sets.state_dict(), torch.cat([sets(words) for words in sentences()]))
    outputs = torch.cat([tree_transformer(*d) for d in dependencies()])
    keep("tree-transformer", tree_transformer.state_dict(), outputs)
    both_ways = BothWays(len(vocabulary("names.txt")))
    keep("bidag", both_ways.state_dict(), torch.cat([both_ways(*e) for e in expressions()]))
    keep("attention-nmt", nmt.state_dict(), torch.cat([nmt(*p) for p in pairs()]))


if __name__ == "__main__":
    main()
