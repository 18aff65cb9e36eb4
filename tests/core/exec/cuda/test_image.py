"""Images of plans, read word by word by a decoder that knows the format and nothing of the packer."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import cuda as typed_cuda
from numba import uint32

from abw.core.exec.cuda.image import ITEM, Image, Work, pack
from abw.core.exec.cuda.ondevice.functions import next_tile, own_tile
from abw.core.exec.interface import TooLargeError
from abw.core.plan.plan import Plan, plan
from tests.core.exec.builder import fused_graph, random_graph, random_network, random_schedule
from tests.core.exec.cuda.simgrid import launch

cuda: Any = typed_cuda
seeds = st.integers(0, 2**32 - 1)
ENDLESS = 2**40


def random_work(rng: np.random.Generator, planned: Plan) -> Work:
    """Steps of every kind, weights and kernels numbered at random."""
    arenas, network = planned.arenas, planned.graph.network
    step_ptr, level, hoisted, depth, scratch, sums = [0], [], [], [], [], []
    early = np.zeros(arenas.slot_arena.shape, bool)
    for t, net_type in enumerate(network.types):
        slots = list(enumerate(net_type.slots))
        fixed = [s for s, slot in slots if net_type.cell and not slot.producers and not slot.reduction]
        early[t, fixed] = rng.random(len(fixed)) < 0.7
        first = [0] * int(rng.integers(1, 3)) if early[t].any() else []
        later = np.sort(rng.integers(0, 3, rng.integers(1, 4)))
        _, later = np.unique(later, return_inverse=True)
        level += [*first, *later.tolist()]
        hoisted += [True] * len(first) + [False] * len(later)
        step_ptr.append(len(level))
        depth.append(int(later.max()) + 1)
        scratch.append(4 * int(rng.integers(0, 3)))
        sums.append(4 * int(rng.integers(1, 4)) if first else 0)
    collect = np.full(arenas.slot_arena.shape, -1, np.int32)
    for t, net_type in enumerate(network.types):
        for s, slot in enumerate(net_type.slots):
            if net_type.cell and slot.reduction:
                collect[t, s] = len(level)
                level.append(0)
                hoisted.append(False)
    shape = len(level), 2
    limit = np.stack([rng.integers(1, 8, len(level)), np.full(len(level), ENDLESS)], 1)
    return Work(
        np.array(step_ptr, np.int32),
        np.array(level, np.int32),
        np.array(hoisted),
        4 * rng.permutation(len(level)).astype(np.int64),
        rng.permutation(2 * len(level)).reshape(shape).astype(np.int32),
        rng.integers(1, 5, shape).astype(np.int32),
        rng.integers(1, 4, shape).astype(np.int32),
        limit.astype(np.int64),
        collect,
        np.array(depth, np.int32),
        np.array(scratch, np.int64),
        np.array(sums, np.int64),
        early,
        ((arenas.row_floats + 3) // 4 * 4).astype(np.int64),
    )


@dataclass
class Item:
    """An item with its frame, decoded."""

    phase: int
    kernel: int
    first: int
    tiles: int
    weights: int
    lanes: int
    scratch: int
    sums: int
    frame: int

    def slot(self, words: list[int], s: int, lane: int) -> int:
        where, first, step, _ = words[self.frame + 3 + 4 * s : self.frame + 7 + 4 * s]
        return first + (words[where + lane] if where else lane) * step

    def lists(self, words: list[int], s: int) -> list[int]:
        """The ends of a slot's lists, from 0 on; none without."""
        begin = words[self.frame + 6 + 4 * s]
        return words[begin : begin + self.lanes + 1] if begin else []


def decode(image: Image) -> tuple[list[int], list[Item]]:
    words = [int(w) for w in image.words]
    phases, count, at, total = words[:4]
    assert total == len(words)
    ends = words[4 : 5 + phases]
    assert ends[0] == 0 and ends[-1] == count and ends == sorted(ends)
    items = []
    for p in range(phases):
        for i in range(ends[p], ends[p + 1]):
            kernel, frame, first, tiles, weights = words[at + 5 * i : at + 5 * i + 5]
            lanes, scratch, sums = words[frame : frame + 3]
            items.append(Item(p, kernel, first, tiles, weights, lanes, scratch, sums, frame))
    return words, items


def arena_ends(planned: Plan, work: Work) -> np.ndarray:
    floats = (planned.rows + 2) * work.pitch
    return np.concatenate([[8], 8 + np.cumsum(floats)]).astype(np.int64)


def check(planned: Plan, work: Work, image: Image, arena: np.ndarray) -> None:
    schedule, arenas = planned.schedule, planned.arenas
    words, items = decode(image)
    types = np.arange(len(work.depth))
    steps = {t: range(work.step_ptr[t], work.step_ptr[t + 1]) for t in types}
    hoisted = {t: [s for s in steps[t] if work.hoisted[s]] for t in types}
    later = {t: [s for s in steps[t] if not work.hoisted[s]] for t in types}
    lanes_of = {t: sum(np.diff(schedule.ptr)[schedule.type == t].tolist()) for t in types}
    used = [t for t in types if lanes_of[t]]
    # kernels: the first whose limit is not below the lanes; tiles cover them and follow each other
    step_of = {int(k): (s, v) for s, row in enumerate(work.kernel) for v, k in enumerate(row)}
    done = 0
    for before, item in zip([None, *items], items, strict=False):
        s, v = step_of[item.kernel]
        assert v == (item.lanes > work.limit[s, 0])
        assert item.tiles == -(-item.lanes // work.rows[s, v]) * work.columns[s, v]
        assert item.weights == work.weights[s]
        done = done + before.tiles if before is not None and before.phase == item.phase else 0
        assert item.first == done

    # every batch's frames: operands, results, lists
    writes: dict[int, int] = {}  # the phase that writes what begins at a float
    frames: dict[int, list[Item]] = {}
    for item in items:
        frames.setdefault(item.frame, []).append(item)
    cells = [f for f in sorted(frames) if step_of[frames[f][0].kernel][0] < work.step_ptr[-1]]
    collected = iter([frames[f][0] for f in sorted(frames) if f not in cells])
    in_order = [frames[f] for f in cells]
    merged, batches = in_order[: len(in_order) - len(schedule)], in_order[len(in_order) - len(schedule) :]
    order_of_merged = [t for t in used if hoisted[t]]
    assert len(merged) == len(order_of_merged)
    sums_of = {}
    for t, group in zip(order_of_merged, merged, strict=True):
        assert [step_of[i.kernel][0] for i in group] == hoisted[t]
        assert all(i.phase == 0 and i.lanes == lanes_of[t] for i in group)
        sums_of[t] = group[0].sums
    seen_lanes = dict.fromkeys(types, 0)
    blocks: list[tuple[int, int]] = []
    for b, group in enumerate(batches):
        t, n = schedule.type[b], int(schedule.ptr[b + 1] - schedule.ptr[b])
        assert sorted(step_of[i.kernel][0] for i in group) == later[t]
        start = min(i.phase for i in group)
        assert all(i.phase == start + work.level[step_of[i.kernel][0]] and i.lanes == n for i in group)
        item = group[0]
        for s in range(arenas.slots[t]):
            k, a = planned.operand_ptr[b] + s, arenas.slot_arena[t, s]
            rows = planned.index[planned.index_ptr[k] : planned.index_ptr[k + 1]]
            first = int(planned.list_ptr[k])
            ends = planned.lists[first : first + n + 1].tolist() if first >= 0 else []
            reader, place = item, s
            if work.collect[t, s] >= 0 and first >= 0:
                # the cell reads rows of its own; a step before it fills them from the lists
                reader, place = next(collected), 0
                assert step_of[reader.kernel][0] == work.collect[t, s] and reader.lanes == n
                assert len(frames[reader.frame]) == 1 and reader.phase < start
                out, pitch = words[reader.frame + 7], int(work.pitch[a])
                assert [item.slot(words, s, j) for j in range(n)] == [out + j * pitch for j in range(n)]
                assert not item.lists(words, s)
                blocks.append((out, out + n * pitch))
            assert reader.lists(words, place) == ends
            for j, row in enumerate(rows.tolist()):
                expected = arena[a] + row * work.pitch[a]
                assert reader.slot(words, place, j) == expected
                assert writes.get(expected, -1) < reader.phase - (reader is item) * (item.phase - start)
                if work.early[t, s]:
                    early = merged[order_of_merged.index(t)][0]
                    assert early.slot(words, s, seen_lanes[t] + j) == expected
        if hoisted[t]:
            assert start > 0 and item.sums == sums_of[t] + seen_lanes[t] * work.sums[t]
        for o in range(arenas.outputs[t]):
            a = arenas.output_arena[t, o]
            place = words[item.frame + 3 + 4 * arenas.slots[t] + o]
            assert place == arena[a] + planned.base[b, o] * work.pitch[a]
            for i in range(n):
                writes[place + i * int(work.pitch[a])] = max(g.phase for g in group)
        assert item.lanes == n
        blocks.append((item.scratch, item.scratch + n * int(work.scratch[t])))
        seen_lanes[t] += n
    assert next(collected, None) is None
    blocks += [(sums_of[t], sums_of[t] + lanes_of[t] * int(work.sums[t])) for t in sums_of]
    taken = sorted(b for b in blocks if b[0] < b[1])
    assert all(a[1] <= b[0] for a, b in pairwise(taken))
    assert all(arena[-1] <= a and b <= image.floats for a, b in taken)


@given(seeds, st.integers(0, 40), st.booleans())
def test_the_image_of_a_plan_says_what_the_plan_says(seed: int, nodes: int, fused: bool) -> None:
    rng = np.random.default_rng(seed)
    graph = fused_graph(rng, nodes) if fused else random_graph(rng, random_network(rng), nodes)
    planned = plan(graph, random_schedule(rng, graph))
    work = random_work(rng, planned)
    arena = arena_ends(planned, work)
    image = pack(planned, work, arena)
    check(planned, work, image, arena)
    assert image.phase[-1] == len(image.items)


@given(seeds)
def test_phases_are_as_few_as_the_longest_chain(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    graph = random_graph(rng, network, 25)
    planned = plan(graph, random_schedule(rng, graph))
    work = random_work(rng, planned)
    _, items = decode(pack(planned, work, arena_ends(planned, work)))
    batch_of = np.empty(len(graph), int)
    for b in range(len(planned.schedule)):
        batch_of[planned.schedule.nodes[planned.schedule.ptr[b] : planned.schedule.ptr[b + 1]]] = b
    end = np.zeros(len(planned.schedule), int)
    for b, t in enumerate(planned.schedule.type):
        before = 1 if work.sums[t] else 0
        for v in planned.schedule.nodes[planned.schedule.ptr[b] : planned.schedule.ptr[b + 1]]:
            references = graph.operand[graph.operand_ptr[v] : graph.operand_ptr[v + 1]]
            for r in references[references >= 0]:
                before = max(before, end[batch_of[r // network.width]])
        end[b] = before + work.depth[t]
    assert max((item.phase for item in items), default=-1) + 1 == end.max(initial=0)


def test_a_plan_beyond_32_bits_is_refused() -> None:
    rng = np.random.default_rng(0)
    graph = random_graph(rng, random_network(rng), 3)
    planned = plan(graph, random_schedule(rng, graph))
    work = random_work(rng, planned)
    arena = arena_ends(planned, work)
    arena[-1] = 2**32
    with pytest.raises(TooLargeError):
        pack(planned, work, arena)


@pytest.mark.simulated
@given(st.integers(1, 12), st.lists(st.integers(0, 30), min_size=1, max_size=5))
def test_every_tile_is_one_blocks(blocks: int, tiles: list[int]) -> None:
    """Each tile of a phase's items is taken once, and the blocks' shares differ by one tile at most."""
    words, first = [7], 0
    for count in tiles:
        words += [0, 0, first, count, 0]
        first += count
    end = len(words)
    out = np.full((blocks, 2 + 2 * first), -1, np.int64)

    def kernel(words, out, end, blocks):
        block = uint32(cuda.blockIdx.x)
        at, tile = own_tile(words, uint32(1), end, block, blocks)
        n = 0
        while at < end:
            out[block, n] = at
            out[block, n + 1] = tile
            n += 2
            at, tile = next_tile(words, at, tile, end, block, blocks)

    arguments = (np.array(words, np.uint32), out, np.uint32(end), np.uint32(blocks))
    launch(kernel, blocks, 1, arguments, races=False)
    pairs = [[(row[n], row[n + 1]) for n in range(0, len(row), 2) if row[n] >= 0] for row in out.tolist()]
    assert all(own == sorted(own) for own in pairs)
    expected = [(1 + ITEM * i, tile) for i, count in enumerate(tiles) for tile in range(count)]
    assert sorted(pair for own in pairs for pair in own) == expected
    assert max(map(len, pairs)) - min(map(len, pairs)) <= 1
