"""Families of graphs with few and many types: real trees and programs, and synthetic ones that are hard."""

from __future__ import annotations

import ast
import random
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from abw.core.graph.dag import Dag, build_dag


class Instance:
    """One graph under construction: the nodes' types by name, and edges from producer to consumer."""

    def __init__(self) -> None:
        self.type: list[str] = []
        self.edges: list[tuple[int, int]] = []

    def add(self, type: str, *producers: int) -> int:
        """A node, after those that it reads; its number."""
        node = len(self.type)
        self.type.append(type)
        self.edges.extend((p, node) for p in producers)
        return node


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
    made: list[tuple[str, Callable[[random.Random], Instance]]] = [
        *((f"dependency trees, {k}", dependency_of(k, seed)) for k in (10, 40, 199)),
        *((f"strings, {k}", partial(string, k)) for k in (4, 20)),
    ]
    for name, make in made:
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


def dependency_of(types: int, seed: int) -> Callable[[random.Random], Instance]:
    """Dependency trees, bottom up: a relation prefers six others below it."""
    rng = random.Random(seed)
    liked = [[rng.randrange(types) for _ in range(6)] for _ in range(types)]

    def make(rng: random.Random) -> Instance:
        made = Instance()

        def build(relation: int, depth: int) -> int:
            many = 0 if depth > 7 else min(4, int(rng.expovariate(0.75 if depth else 0.4)))
            below = []
            for _ in range(many):
                like = liked[relation][min(5, int(rng.expovariate(0.6)))]
                below.append(build(like if rng.random() < 0.9 else rng.randrange(types), depth + 1))
            return made.add(f"relation{relation}", *below)

        build(0, 0)
        return made

    return make


def string(types: int, rng: random.Random) -> Instance:
    """A chain of random types: a schedule is a common supersequence."""
    made = Instance()
    last: list[int] = []
    for _ in range(rng.randint(15, 40)):
        last = [made.add(f"s{rng.randrange(types)}", *last)]
    return made
