"""A cell's operations in batches of isomorphic ones: dynamic batching in small, at compile time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from abw.core.cell.normal import NormalCell

# States after which the search keeps the best sequence it has; the cells of the paper need under 100.
MAX_VISITS = 5_000

# Cells of more operations are not searched: they get the sequence that the search begins with.
SEARCHED = 256

Batches = tuple[tuple[int, ...], ...]


def batch_operations(normal: NormalCell) -> Batches:
    """The batched operations in as few batches as possible, each a tuple of values in definition order.

    A batch holds operations of one key (see `_keys`) that do not depend on each other. The sequence is found
    by branch and bound over the types of the next batch (ED-Batch, section 5.2: "grid search"), exact as long
    as it ends within MAX_VISITS states.
    """
    position = {value: i for i, value in enumerate(normal.batched)}
    needs = []
    for value in normal.batched:
        mask = 0
        for argument in normal.arguments(value):
            held = normal.root[argument]
            if held in position:
                mask |= 1 << position[held]
        needs.append(mask)
    groups = fewest_batches(_keys(normal), needs)
    return tuple(tuple(normal.batched[i] for i in group) for group in groups)


def _keys(normal: NormalCell) -> list[Hashable]:
    """What makes operations isomorphic: operation, shapes, attributes, and which arguments are static.

    Products `W @ x` with a parameter on the left that share x are one type of their own: they read x once,
    as one product with the stacked W. An output is alone (as in ED-Batch's code), so that it can be written
    where the node's results lie; so is a concatenation, which is nothing but copies.
    """
    cell = normal.cell
    outputs = {value for _, value in cell.outputs}
    shared = Counter(
        normal.arguments(v)[1] for v in normal.batched if v not in outputs and _is_shared_product(normal, v)
    )
    keys: list[Hashable] = []
    for value in normal.batched:
        op = normal.op(value)
        if value in outputs or op.name == "concat":
            keys.append(value)
            continue
        shapes = tuple(cell.shape_of(a) for a in op.args)
        static = tuple(normal.static[a] for a in op.args)
        right = op.args[1] if _is_shared_product(normal, value) and shared[op.args[1]] > 1 else -1
        keys.append((op.name, op.attr, shapes, static, right))
    return keys


def _is_shared_product(normal: NormalCell, value: int) -> bool:
    op = normal.op(value)
    return op.name == "matmul" and normal.static[op.args[0]] and not normal.static[op.args[1]]


def fewest_batches(keys: Sequence[Hashable], needs: Sequence[int]) -> list[list[int]]:
    """Batch n operations; `needs[i]` has a bit for each operation that i waits for (all before i).

    A batch takes all ready operations of its type. Bound: the sum over types of the type's longest chain
    among what is left (ED-Batch A.3). A type whose remaining operations are all ready is taken at once: no
    other choice can save its batch.
    """
    if len(keys) > SEARCHED:
        return _first_batches(keys, needs)
    n = len(keys)
    types: dict[Hashable, int] = {}
    for i, key in enumerate(keys):
        types[key] = types.get(key, 0) | 1 << i
    masks = list(types.values())
    chain = _chains(keys, needs)
    # operations of each type by falling chain: the first one left gives the type's part of the bound
    by_chain = [sorted((i for i in range(n) if mask >> i & 1), key=lambda i: -chain[i]) for mask in masks]
    full = (1 << n) - 1
    best: list[int] = []
    best_count = n + 1
    seen: dict[int, int] = {}
    visits = 0

    def bound(done: int) -> int:
        return sum(next((chain[i] for i in members if not done >> i & 1), 0) for members in by_chain)

    def visit(done: int, taken: list[int]) -> None:
        nonlocal best, best_count, visits
        if done == full:
            best, best_count = list(taken), len(taken)
            return
        if len(taken) + bound(done) >= best_count or seen.get(done, n + 1) <= len(taken):
            return
        seen[done] = len(taken)
        visits += 1
        if visits > MAX_VISITS and best:
            return
        ready = 0
        for i in range(n):
            if not done >> i & 1 and needs[i] & ~done == 0:
                ready |= 1 << i
        choices = []
        for mask in masks:
            now = mask & ready
            if now and now == mask & ~done:
                choices = [(0.0, now)]
                break
            if now:
                # the largest share of what is left first: a good first answer prunes most of the rest
                choices.append((-now.bit_count() / (mask & ~done).bit_count(), now))
        for _, now in sorted(choices):
            visit(done | now, [*taken, now])

    visit(0, [])
    return [[i for i in range(n) if mask >> i & 1] for mask in best]


def _first_batches(keys: Sequence[Hashable], needs: Sequence[int]) -> list[list[int]]:
    """Always the type of which the largest share of what is left is ready. Cost: linear in the needs, but for
    the types that are ready at once.
    """
    left = Counter(keys)
    waits = [mask.bit_count() for mask in needs]
    readers: list[list[int]] = [[] for _ in keys]
    for i, mask in enumerate(needs):
        while mask:
            low = mask & -mask
            readers[low.bit_length() - 1].append(i)
            mask ^= low
    ready: dict[Hashable, list[int]] = {}
    for i, count in enumerate(waits):
        if not count:
            ready.setdefault(keys[i], []).append(i)
    batches = []
    while ready:
        key = max(ready, key=lambda key: len(ready[key]) / left[key])
        batch = sorted(ready.pop(key))
        batches.append(batch)
        left[key] -= len(batch)
        for reader in (r for i in batch for r in readers[i]):
            waits[reader] -= 1
            if not waits[reader]:
                ready.setdefault(keys[reader], []).append(reader)
    return batches


def _chains(keys: Sequence[Hashable], needs: Sequence[int]) -> list[int]:
    """For each operation the most operations of its own type on any path that starts there."""
    n = len(keys)
    chain = [1] * n
    # most[i][key]: the same for the paths from i, of any type
    most: list[dict[Hashable, int]] = [{} for _ in range(n)]
    for i in range(n - 1, -1, -1):
        chain[i] = most[i].get(keys[i], 0) + 1
        most[i][keys[i]] = chain[i]
        for j in range(i):
            if needs[i] >> j & 1:
                for key, count in most[i].items():
                    most[j][key] = max(most[j].get(key, 0), count)
    return chain
