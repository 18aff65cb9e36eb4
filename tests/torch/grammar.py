"""Random models, drawn from what people write: recursion over trees with any number of children, loops over
sequences, modules by type, pooling, decisions. Each is the source of a module for one instance.
"""

from __future__ import annotations

import importlib.util
import random
import tempfile
from pathlib import Path
from typing import Any

import torch

D = 6
KINDS = 3


class Draw:
    """Draws the statements of a model; values are vectors of D numbers, of shape (D,) or (1, D)."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.row = self.rng.random() < 0.5
        self.dim = "1" if self.row else "0"
        self.modules: dict[str, str] = {}
        self.count = 0

    def module(self, make: str) -> str:
        name = f"m{len(self.modules)}"
        self.modules[name] = make
        return f"self.{name}"

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def zeros(self) -> str:
        return f"torch.zeros(1, {D})" if self.row else f"torch.zeros({D})"

    def expression(self, x: str, y: str) -> str:
        """A vector of two others."""
        linear = self.module(f"nn.Linear({D}, {D})")
        wide = self.module(f"nn.Linear({2 * D}, {D})")
        gates = self.module(f"nn.Linear({2 * D}, {3 * D})")
        small = f"nn.Sequential(nn.Linear({D}, 4), nn.ReLU(), nn.Linear(4, {D}))"
        vectors = f"nn.ParameterList([nn.Parameter(torch.randn({D})) for _ in range(2)])"
        both = f"torch.cat([{x}, {y}], dim={self.dim})"
        act = self.rng.choice(["torch.tanh", "torch.sigmoid", "F.relu", "F.gelu", "F.silu", "F.softplus"])
        return self.rng.choice(
            [
                f"{act}({linear}({x}))",
                f"{act}({linear}({x})) * {y} + {x} * 0.5",
                f"{wide}({both})",
                f"torch.tanh({wide}(torch.cat(({x}, {y}), {self.dim}))) - {x}",
                f"{self.module(f'nn.LayerNorm({D})')}({x} + {y})",
                f"{self.module(f'nn.GRUCell({D}, {D})')}({x}, {y})",
                f"{self.module(f'nn.LSTMCell({D}, {D})')}({x}, ({y}, {x}))[0]",
                f"gated({gates}({both}), {x})",
                f"torch.maximum({x}, {y}).clamp(max=1.0)",
                f"torch.where({x} > 0, {x}, {y} * 0.1)",
                f"F.softmax({x}, dim=-1) * {y}",
                f"F.dropout({x}, 0.3, self.training) + {y}",
                f"{self.module(small)}({x}) + {y}",
                f"({x}.unsqueeze(0) * {y}).squeeze(0)",
                f"{x} / ({y}.abs().sum() + 1.0)",
                f"{x} * {y}.mean(-1, keepdim=True)",
                f"{self.module(vectors)}[0] * {x} + {y}",
                f"torch.exp(-{x}.pow(2)) + torch.sqrt({y}.abs() + 0.1)",
            ]
        )

    def statements(self, known: list[str], indent: str, depth: int = 2) -> list[str]:
        """Some assignments; names that are known behind them are added."""
        lines = []
        for _ in range(self.rng.randrange(1, 5)):
            x, y = self.rng.choice(known), self.rng.choice(known)
            kind = self.rng.random()
            if kind < 0.7 or not depth:
                name = self.name()
                lines.append(f"{indent}{name} = {self.expression(x, y)}")
                known.append(name)
            elif kind < 0.78:
                name = self.name()
                lines += [f"{indent}{name} = {x} * 1.0", f"{indent}{name} += {self.expression(y, y)}"]
                known.append(name)
            elif kind < 0.9:
                name = self.name()
                inner, outer = list(known), list(known)
                lines.append(f"{indent}if node.kind == {self.rng.randrange(KINDS)}:")
                lines += self.statements(inner, indent + "    ", depth - 1)
                lines += [f"{indent}    {name} = {inner[-1]}", f"{indent}else:"]
                lines += self.statements(outer, indent + "    ", depth - 1)
                lines.append(f"{indent}    {name} = {outer[-1]}")
                known.append(name)
            else:
                name = self.name()
                chosen = self.module(f"nn.ModuleList([nn.Linear({D}, {D}) for _ in range({KINDS})])")
                lines.append(f"{indent}{name} = torch.tanh({chosen}[node.kind]({x}))")
                known.append(name)
        return lines

    def pooled(self, children: str, x: str) -> list[str]:
        """Lines that make `pooled` of a list of one or more vectors."""
        score, query = self.module(f"nn.Linear({D}, 1)"), self.module(f"nn.Linear({D}, {D})")
        rows = f"torch.cat({children}, 0)" if self.row else f"torch.stack({children})"
        back = "pooled = pooled.view(1, -1)" if self.row else "pooled = pooled.view(-1)"
        cell = self.module(f"nn.GRUCell({D}, {D})")
        lstm = self.module(f"nn.LSTM({D}, {D})")
        first = self.rng.choice(
            [
                [f"rows = {rows}", "pooled = rows.sum(0)"],
                [f"rows = {rows}", "pooled = rows.mean(dim=0, keepdim=True)"],
                [f"rows = {rows}", "pooled = rows.max(0)[0]"],
                [
                    f"rows = {rows}",
                    f"weights = F.softmax({score}(rows), dim=0)",
                    "pooled = (weights * rows).sum(0)",
                ],
                [
                    f"rows = {rows}",
                    f"weights = torch.softmax(rows @ {query}({x}).view(-1), 0)",
                    "pooled = weights @ rows",
                ],
                [f"rows = torch.sigmoid({query}({rows}) + {x})", "pooled = (rows * rows).sum(dim=0)"],
                ["pooled = " + self.zeros(), f"for c in {children}:", f"    pooled = {cell}(c, pooled)"],
                ["pooled = " + self.zeros(), f"for c in {children}:", f"    pooled = pooled + c * {x}"],
                ["pooled = " + self.zeros(), f"for c in {children}:", "    pooled += c"],
                [f"pooled = {children}[0]", f"for c in {children}[1:]:", "    pooled = torch.max(pooled, c)"],
                [f"all_, (h, c) = {lstm}({rows})", "pooled = h[0] + all_.mean(0)"],
                [f"pooled = sum({children}) / len({children})"],
            ]
        )
        return [*first, back]

    def source(self) -> str:
        """The module's source: a tree's node has `word`, `kind`, `features` and `children`."""
        embed = self.module(f"nn.Embedding(20, {D})")
        bring = self.module(f"nn.Linear(3, {D})")
        look = "torch.tensor([node.word])" if self.row else "torch.tensor(node.word)"
        feature = "node.features.view(1, -1)" if self.row else "node.features"
        decide = self.module(f"nn.Linear({D}, 3)")
        body = [f"x = {embed}({look})", f"y = torch.tanh({bring}({feature}))"]
        known = ["x", "y"]
        body += self.statements(known, "")
        body += ["states = [self.encode(child, out) for child in node.children]"]
        body += ["if states:", *(f"    {line}" for line in self.pooled("states", self.rng.choice(known)))]
        body += ["else:", f"    pooled = {self.rng.choice([self.zeros(), *known])}"]
        known.append("pooled")
        body += self.statements(known, "")
        last = known[-1]
        if self.rng.random() < 0.4:
            way = self.rng.choice(
                [f"{decide}({last}).argmax(-1).item()", f"int({decide}({last}).view(-1)[0] > 0)"]
            )
            body += [f"choice = {way}", "self.choices.append(choice)", "if choice == 1:"]
            body += [f"    {last} = {self.expression(last, 'x')}"]
        body += [f"out.append({last})", f"return {last}"]
        gather = "torch.cat(out, 0)" if self.row else "torch.stack(out)"
        ends = [
            [f"return {decide}(root), self.choices"],
            [f"return {decide}({gather}), self.choices"],
            [f"return {gather}.mean(0), root"],
            [f'return {{"scores": [{decide}(o) for o in out], "choices": self.choices}}'],
        ]
        made = "\n".join(f"        self.{n} = {m}" for n, m in self.modules.items())
        lines = "\n".join(f"        {line}" for line in body)
        end = "\n".join(f"        {line}" for line in self.rng.choice(ends))
        return f"""import torch
from torch import nn
from torch.nn import functional as F


def gated(gates, x):
    i, f, u = gates.chunk(3, -1)
    return torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(f) * x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{made}

    def encode(self, node, out):
{lines}

    def forward(self, tree):
        self.choices = []
        out = []
        root = self.encode(tree, out)
{end}
"""


class Tree:
    def __init__(self, rng: random.Random, depth: int) -> None:
        self.word, self.kind = rng.randrange(20), rng.randrange(KINDS)
        self.features = torch.randn(3)
        count = rng.choice((0, 1, 2, 3)) if depth else 0
        self.children = [Tree(rng, depth - 1) for _ in range(count)]


def drawn(seed: int) -> tuple[Any, list[Any], str]:
    """A random model, instances of it, and its source."""
    source = Draw(seed).source()
    file = Path(tempfile.mkdtemp()) / f"drawn_{seed}.py"
    file.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(seed)
    rng = random.Random(seed)
    return module.Model(), [Tree(rng, rng.randrange(4)) for _ in range(6)], source
