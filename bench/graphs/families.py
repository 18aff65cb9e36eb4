"""Families of graphs with few and many types: real trees and programs, and synthetic ones that are hard."""

from __future__ import annotations

import ast
import random
import re
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


def families(data: Path, count: int, seed: int) -> Iterator[Family]:
    """All families, `count` instances each; synthetic ones from the seed, real ones from where it says."""
    found = functions(count, seed)
    syntax: dict[str, Callable[[ast.AST, str, int], str]] = {
        "syntax trees, a type a class": lambda node, _, __: type(node).__name__,
        "class and arity": lambda node, _, children: f"{type(node).__name__}{children}",
        "class and field": lambda node, field, _: f"{type(node).__name__}.{field}",
        "eight kinds": lambda node, _, __: _kind(node),
    }
    trees = data / "trees" / "train.txt"
    if trees.is_file():
        yield Family("sentiment trees, a type a label", list(labelled_trees(trees, count, seed)))
    for name, named in syntax.items():
        yield Family(name, [syntax_tree(f, named) for f in found])
    yield Family("statements, then RNNs", [statements(f) for f in found])
    made: list[tuple[str, Callable[[random.Random], Instance]]] = [
        *((f"dependency trees, {k}", dependency_of(k, seed)) for k in (10, 40, 199)),
        *((f"module networks, {k}", partial(modules, k)) for k in (12, 40, 200)),
        *((f"series-parallel, {k}", partial(series_parallel, k)) for k in (3, 10, 50)),
        *((f"layered, {k}", partial(layered, k)) for k in (5, 50)),
        *((f"strings, {k}", partial(string, k)) for k in (4, 20)),
        ("mixture of experts, by layer", partial(experts, False)),
        ("mixture of experts, shared", partial(experts, True)),
        ("junction trees, 37", partial(junction, 30)),
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


def _kind(node: ast.AST) -> str:
    kinds: dict[str, type | tuple[type, ...]] = {
        "statement": ast.stmt,
        "call": ast.Call,
        "name": ast.Name,
        "constant": ast.Constant,
        "argument": (ast.arg, ast.arguments, ast.keyword),
        "operator": (ast.operator, ast.cmpop, ast.boolop, ast.unaryop),
        "expression": ast.expr,
    }
    return next((name for name, kind in kinds.items() if isinstance(node, kind)), "other")


def statements(root: ast.AST) -> Instance:
    """A tree network over each statement, and an RNN in both directions over the statements."""
    made = Instance()

    def build(node: ast.AST) -> int:
        below = [build(child) for _, child in _children(node) if not isinstance(child, ast.stmt)]
        return made.add(type(node).__name__, *below)

    found = [build(node) for node in ast.walk(root) if isinstance(node, ast.stmt)]
    ends = []
    for name, order in (("forward", found), ("backward", found[::-1])):
        last: list[int] = []
        for statement in order:
            last = [made.add(name, statement, *last)]
        ends += last
    made.add("output", *ends)
    return made


def labelled_trees(path: Path, count: int, skip: int) -> Iterator[Instance]:
    """Parse trees: a leaf, an internal node of one of five types, an output at each."""
    for line in path.read_text(encoding="utf-8").splitlines()[skip : skip + count]:
        made, stack = Instance(), [[]]  # type: tuple[Instance, list[list[int]]]
        labels = []
        for token in re.findall(r"\(\d|\)|[^() ]+", line):
            if token[0] == "(":
                labels.append(token[1])
                stack.append([])
            elif token == ")":
                below, label = stack.pop(), labels.pop()
                node = made.add(f"internal{label}" if below else "leaf", *below)
                made.add("output", node)
                stack[-1].append(node)
        yield made


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


def modules(types: int, rng: random.Random) -> Instance:
    """Neural module networks: programs of functions with no, one or two arguments."""
    none = max(1, types // 8)
    one = types * 5 // 8
    made = Instance()

    def build(depth: int) -> int:
        arity = 0 if depth > rng.randint(4, 18) else rng.choices((1, 2), (6, 1))[0]
        first, last = ((0, none), (none, none + one), (none + one, types))[arity]
        number = rng.randrange(first, last)
        return made.add(f"f{number}", *(build(depth + (1 if arity == 1 else 4)) for _ in range(arity)))

    build(0)
    return made


def series_parallel(types: int, rng: random.Random) -> Instance:
    """Blocks one after the other or side by side, down to single nodes of random types."""
    made = Instance()

    def node(*producers: int) -> int:
        return made.add(f"t{rng.randrange(types)}", *producers)

    def build(size: int, before: tuple[int, ...]) -> int:
        if size <= 1:
            return node(*before)
        part = rng.randint(1, size - 1)
        if rng.random() < 0.6:
            return build(size - part, (build(part, before),))
        entry = node(*before)
        return node(build(part, (entry,)), build(size - part, (entry,)))

    build(rng.randint(40, 120), ())
    return made


def layered(types: int, rng: random.Random) -> Instance:
    """Layers of a few nodes, each reading one or two of the layer before; few types are frequent."""
    made = Instance()
    before: list[int] = []
    for _ in range(rng.randint(5, 30)):
        here = []
        for _ in range(rng.randint(1, 6)):
            read = rng.sample(before, min(len(before), rng.randint(1, 2)))
            here.append(made.add(f"t{min(types - 1, int(rng.expovariate(4 / types)))}", *read))
        before = here
    return made


def string(types: int, rng: random.Random) -> Instance:
    """A chain of random types: a schedule is a common supersequence."""
    made = Instance()
    last: list[int] = []
    for _ in range(rng.randint(15, 40)):
        last = [made.add(f"s{rng.randrange(types)}", *last)]
    return made


def experts(shared: bool, rng: random.Random) -> Instance:
    """Mixture of depths and experts: in each layer some tokens attend to each other, then go to an expert."""
    made = Instance()
    tokens = [made.add("embed") for _ in range(rng.randint(3, 12))]
    for layer in range(rng.randint(6, 12)):
        active = [i for i in range(len(tokens)) if rng.random() < 0.6]
        prefix = "" if shared else f"layer{layer}."
        read = [tokens[i] for i in active]
        for i in active:
            attended = made.add(f"{prefix}attention", *read)
            tokens[i] = made.add(f"{prefix}expert{rng.randrange(4)}", attended)
    for token in tokens:
        made.add("head", token)
    return made


def junction(types: int, rng: random.Random) -> Instance:
    """Junction trees of molecules: messages up and down a tree of clusters, then an output at each."""
    made, many = Instance(), rng.randint(6, 25)
    above = [-1, *(rng.randint(max(0, i - 3), i - 1) for i in range(1, many))]
    below: list[list[int]] = [[] for _ in range(many)]
    for i in range(1, many):
        below[above[i]].append(i)
    kind = [min(types - 1, int(rng.expovariate(5 / types))) for _ in range(many)]
    embedded = [made.add(f"cluster{k}") for k in kind]
    up, down = [-1] * many, [-1] * many
    for i in range(many - 1, 0, -1):
        up[i] = made.add("up", embedded[i], *(up[c] for c in below[i]))
    for i in range(1, many):
        p = above[i]
        others = [up[c] for c in below[p] if c != i]
        down[i] = made.add("down", embedded[p], *([down[p]] if p else []), *others)
    for i in range(many):
        made.add(f"output{kind[i] % 5}", embedded[i], *(up[c] for c in below[i]), *([down[i]] if i else []))
    return made
