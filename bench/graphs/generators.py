"""Random graphs of the kinds that batching meets: with 3 to 300 types, a mini-batch's instance each."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial


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


Make = Callable[[random.Random], Instance]


def generators(seed: int) -> dict[str, Make]:
    """The generators by the names of their families; `seed`: what instances of one have in common."""
    return {
        **{f"dependency trees, {k}": dependency_of(k, seed) for k in (10, 40, 199)},
        **{f"strings, {k}": partial(string, k) for k in (4, 20)},
        "alignments, 3": partial(alignment, 3),
        "molecules, 8": partial(molecule, 8),
        "workflows, 14": workflow,
        "query plans, 19": query_plan,
        "markup, 26": markup_of(26, seed),
        "lattices, 26": partial(lattice, 25),
        "meaning graphs, 30": meaning_of(30, seed),
        "netlists, 60": partial(netlist, 60),
        "experts, 70": partial(experts, 34),
        "parse forests, 200": partial(forest, 200),
        **{f"random graphs, {k}": partial(random_graph, k) for k in (5, 100, 300)},
    }


def dependency_of(types: int, seed: int) -> Make:
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


def alignment(types: int, rng: random.Random) -> Instance:
    """A table of dynamic programming: a cell reads those above and to its left, its type is random."""
    made = Instance()
    height, width = rng.randint(3, 8), rng.randint(3, 8)
    for i in range(height):
        for j in range(width):
            before = [i * width + j - 1] * (j > 0) + [(i - 1) * width + j] * (i > 0)
            made.add(f"cell{rng.randrange(types)}", *before)
    return made


def molecule(types: int, rng: random.Random) -> Instance:
    """Atoms, a type an element, directed to a random one (UG-RNN), with a few rings."""
    made, ends = Instance(), [*range(rng.randint(8, 30))]
    for v in ends:
        taken = {rng.randrange(max(0, v - 4), v) for _ in range(1 + (rng.random() < 0.3)) if v}
        element = min(types - 1, int(rng.expovariate(0.7)))
        made.add(f"element{element}", *sorted(taken))
    return made


def workflow(rng: random.Random) -> Instance:
    """Stages of tasks that fork and join: 12 kinds of tasks in random order."""
    made = Instance()
    front = [made.add("begin")]
    for _ in range(rng.randint(4, 10)):
        tasks = [made.add(f"task{rng.randrange(12)}", rng.choice(front)) for _ in range(rng.randint(1, 4))]
        for _ in range(rng.randint(0, 2)):
            tasks.append(made.add(f"task{rng.randrange(12)}", tasks.pop()))
        front = [made.add("join", *tasks)] if rng.random() < 0.4 else tasks
    return made


def query_plan(rng: random.Random) -> Instance:
    """Query plans: joins of 5 kinds over scans of 4, with 10 kinds of other operators between them."""
    made = Instance()

    def build(tables: int) -> int:
        if tables == 1:
            top = made.add(f"scan{rng.randrange(4)}")
        else:
            left = rng.choice((1, tables - 1, tables // 2))
            top = made.add(f"join{rng.randrange(5)}", build(left), build(tables - left))
        while rng.random() < 0.55:
            top = made.add(f"operator{min(9, int(rng.expovariate(0.3)))}", top)
        return top

    build(rng.randint(2, 10))
    return made


def markup_of(types: int, seed: int) -> Make:
    """Documents of nested elements: one reads its last child and the element before it."""
    rng = random.Random(seed)
    inside = [[rng.randrange(types) for _ in range(4)] for _ in range(types)]

    def make(rng: random.Random) -> Instance:
        made = Instance()

        def build(element: int, depth: int, before: list[int]) -> int:
            last: list[int] = []
            for _ in range(0 if depth > 5 else rng.randint(0, 4)):
                last = [build(rng.choice(inside[element]), depth + 1, last)]
            return made.add(f"element{element}", *before, *last)

        build(0, 1, [])
        return made

    return make


def lattice(arcs: int, rng: random.Random) -> Instance:
    """A word lattice whose arcs have types of their own."""
    made, states = Instance(), [-1]
    states[0] = made.add("state")
    for position in range(1, rng.randint(10, 30)):
        words = {(position - 1, min(arcs - 1, int(rng.expovariate(0.25))))}
        while rng.random() < 0.4:
            words.add((max(0, position - rng.randint(2, 4)), rng.randrange(arcs)))
        states.append(made.add("state", *(made.add(f"arc{a}", states[s]) for s, a in sorted(words))))
    return made


def meaning_of(types: int, seed: int) -> Make:
    """Graphs of concepts, bottom up: trees by preference as dependency trees, some concepts read twice."""
    trees = dependency_of(types, seed)

    def make(rng: random.Random) -> Instance:
        made = trees(rng)
        for v in range(4, len(made.type)):
            if rng.random() < 0.15:
                u = rng.randrange(v)
                if (u, v) not in made.edges:
                    made.edges.append((u, v))
        return made

    return make


def netlist(gates: int, rng: random.Random) -> Instance:
    """Logic between registers: gates of many kinds, each reading one to three of the last signals."""
    made = Instance()
    signals = [made.add("input") for _ in range(rng.randint(3, 8))]
    for _ in range(rng.randint(30, 80)):
        read = {signals[-min(len(signals), 1 + int(rng.expovariate(0.15)))] for _ in range(rng.randint(1, 3))}
        signals.append(made.add(f"gate{min(gates - 2, int(rng.expovariate(0.06)))}", *sorted(read)))
    return made


def experts(number: int, rng: random.Random) -> Instance:
    """Layers of a router and the two experts that it picks, an expert of each layer a type."""
    made = Instance()
    last = made.add("token")
    for layer in range(rng.randint(2, 6)):
        router = made.add(f"router{layer % 2}", last)
        picked = sorted(rng.sample(range(number), 2))
        last = made.add("mix", *(made.add(f"expert{layer % 2}.{e}", router) for e in picked))
    return made


def forest(labels: int, rng: random.Random) -> Instance:
    """A packed parse forest: a span reads two that divide it, some of them in two ways."""
    made, length = Instance(), rng.randint(4, 9)
    spans = {(i, i + 1): made.add(f"tag{rng.randrange(labels // 5)}") for i in range(length)}
    for size in range(2, length + 1):
        for i in range(length - size + 1):
            if size == length or rng.random() < 0.6:
                ways = [m for m in range(i + 1, i + size) if (i, m) in spans and (m, i + size) in spans]
                parts = [spans[s] for m in ways[:2] for s in ((i, m), (m, i + size))]
                label = min(labels - 1, int(rng.expovariate(0.02)))
                spans[i, i + size] = made.add(f"label{label}", *sorted({*parts}))
    return made


def random_graph(types: int, rng: random.Random) -> Instance:
    """Nodes of random types, each reading up to three of the twelve before it."""
    made = Instance()
    for v in range(rng.randint(20, 100)):
        made.add(
            f"type{rng.randrange(types)}", *sorted({rng.randrange(max(0, v - 12), v) for _ in range(3) if v})
        )
    return made
