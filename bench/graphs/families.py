"""Families of graphs with few and many types: real trees and programs, and synthetic ones that are hard."""

from __future__ import annotations

import ast
import random
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from abw.bench.graphs.generators import Instance, generators
from abw.core.graph.dag import Dag, build_dag


@dataclass(frozen=True, slots=True)
class Family:
    """Instances of one kind."""

    name: str
    instances: list[Instance]

    @property
    def types(self) -> tuple[str, ...]:
        """The types' names."""
        return tuple(sorted({t for instance in self.instances for t in instance.type}))

    def dag(self, first: int, last: int) -> Dag:
        """The graph of instances `first` to `last` (exclusive)."""
        number = {name: t for t, name in enumerate(self.types)}
        type, pairs, base = [], [], 0
        for instance in self.instances[first:last]:
            type += [number[t] for t in instance.type]
            pairs += [(base + u, base + v) for u, v in instance.edges]
            base += len(instance.type)
        edges = np.array(pairs, np.int32).reshape(-1, 2)
        return build_dag(self.types, np.array(type, np.int32), edges[:, 0].copy(), edges[:, 1].copy())


def families(count: int, seed: int) -> Iterator[Family]:
    """All families, `count` instances each; the syntax trees are those of files in an order by the seed."""
    found = functions(count, seed)
    syntax: dict[str, Callable[[ast.AST, str, int], str]] = {
        "syntax trees, a type a class": lambda node, _, __: type(node).__name__,
        "class and arity": lambda node, _, children: f"{type(node).__name__}{children}",
        "class and field": lambda node, field, _: f"{type(node).__name__}.{field}",
    }
    for name, named in syntax.items():
        yield Family(name, [syntax_tree(f, named) for f in found])
    for name, make in generators(seed).items():
        rng = random.Random(seed)
        yield Family(name, [make(rng) for _ in range(count)])


def functions(count: int, seed: int) -> list[ast.AST]:
    """Functions of Python's standard library with 20 to 400 syntactic nodes, from files in random order."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    random.Random(seed).shuffle(files)
    found: list[ast.AST] = []
    for file in files:
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        defined = (node for node in nodes if isinstance(node, ast.FunctionDef))
        found.extend(f for f in defined if 20 <= sum(1 for _ in ast.walk(f)) <= 400)
        if len(found) >= count:
            break
    return found[:count]


def _children(node: ast.AST) -> list[tuple[str, ast.AST]]:
    """The nodes below, each with its field; how a name is used is no node."""
    below: list[tuple[str, ast.AST]] = []
    for field, value in ast.iter_fields(node):
        found = value if isinstance(value, list) else [value]
        nodes = (c for c in found if isinstance(c, ast.AST) and not isinstance(c, ast.expr_context))
        below.extend((field, child) for child in nodes)
    return below


def syntax_tree(root: ast.AST, named: Callable[[ast.AST, str, int], str]) -> Instance:
    """A function, bottom up."""
    made = Instance()

    def build(node: ast.AST, field: str) -> int:
        below = [build(child, name) for name, child in _children(node)]
        return made.add(named(node, field, len(below)), *below)

    build(root, "")
    return made
