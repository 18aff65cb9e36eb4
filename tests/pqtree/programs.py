"""Memory-layout programs: random ones, and their best layouts by trying all."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

Batches = list[list[list[int]]]


@dataclass(frozen=True)
class Case:
    """The arguments of `plan_layout`."""

    sizes: list[int]
    batches: Batches
    arenas: list[str]
    constant: list[str]
    launch: int


@st.composite
def cases(draw: st.DrawFn, most: int = 6, wild: bool = True) -> Case:
    """Programs whose operands overlap; wild ones also repeat, differ in length and size, and mix arenas."""
    n = draw(st.integers(2, most))
    variable = st.integers(0, n - 1)
    batches = []
    for _ in range(draw(st.integers(1, 3))):
        lanes = draw(st.integers(1, min(n, 3)))
        plain = st.lists(variable, min_size=lanes, max_size=lanes, unique=True)
        other = st.lists(variable, min_size=1, max_size=3) | plain if wild else plain
        batches.append([draw(plain), *draw(st.lists(plain | other, max_size=2))])
    size = st.sampled_from([8, 8, 8, 16]) if wild else st.just(8)
    home = st.sampled_from(["a", "a", "a", "b"]) if wild else st.just("a")
    sizes = draw(st.lists(size, min_size=n, max_size=n))
    arenas = draw(st.lists(home, min_size=n, max_size=n))
    constant = draw(st.sampled_from([[], ["b"]]))
    return Case(sizes, batches, arenas, constant, draw(st.sampled_from([0, 1, 1000])))


def cost_of(case: Case, order: Sequence[int]) -> int:
    """What the copies cost in this order, straight from the definitions."""
    place: dict[int, int] = {}
    for arena in dict.fromkeys(case.arenas):
        begin = 0
        for variable in order:
            if case.arenas[variable] == arena:
                place[variable], begin = begin, begin + case.sizes[variable]
    return sum(_batch_cost(case, batch, place) for batch in case.batches)


def _batch_cost(case: Case, batch: list[list[int]], place: dict[int, int]) -> int:
    """With the best order of the lanes."""
    return min(
        sum(_operand_cost(case, k, operand, lanes, place) for k, operand in enumerate(batch))
        for lanes in itertools.permutations(range(len(batch[0])))
    )


def _operand_cost(
    case: Case, k: int, operand: list[int], lanes: tuple[int, ...], place: dict[int, int]
) -> int:
    if k and len(set(operand)) == 1 and len(operand) in (1, len(lanes)):
        return 0
    one_place = len({case.arenas[v] for v in operand}) == len({case.sizes[v] for v in operand}) == 1
    if one_place and len(operand) == len(lanes):
        begins = [place[operand[lane]] for lane in lanes]
        if all(b - a == case.sizes[operand[0]] for a, b in itertools.pairwise(begins)):
            return 0
    if all(case.arenas[v] in case.constant for v in operand):
        return 0
    return case.launch + sum(case.sizes[v] for v in operand)


def best_cost(case: Case) -> int:
    """By trying all orders."""
    return min(cost_of(case, order) for order in itertools.permutations(range(len(case.sizes))))


def generate(rng: random.Random, n: int) -> Batches:
    """Batches that compute each variable once, out of one or two random operands."""
    left = rng.sample(range(n), n)
    batches = []
    while len(left) > 1:
        lanes = rng.randint(2, min(4, len(left)))
        result = [left.pop() for _ in range(lanes)]
        batches.append([result, *(rng.sample(range(n), lanes) for _ in range(rng.randint(1, 2)))])
    return batches


def forest(rng: random.Random, trees: int, words: int) -> tuple[int, Batches]:
    """Binary trees over sentences, batched by height: result, left children, right children."""
    height: list[int] = []
    children: dict[int, tuple[int, int]] = {}

    def grow() -> Iterator[int]:
        for _ in range(rng.randint(words // 2, words)):
            height.append(0)
            yield len(height) - 1

    for _ in range(trees):
        open_ = list(grow())
        while len(open_) > 1:
            i = rng.randrange(len(open_) - 1)
            left, right = open_[i], open_[i + 1]
            children[len(height)] = (left, right)
            open_[i : i + 2] = [len(height)]
            height.append(1 + max(height[left], height[right]))
    levels: dict[int, list[int]] = {}
    for node, level in enumerate(height):
        levels.setdefault(level, []).append(node)
    batches = [[levels[0]]] + [
        [levels[h], [children[v][0] for v in levels[h]], [children[v][1] for v in levels[h]]]
        for h in range(1, max(levels) + 1)
    ]
    return len(height), batches
