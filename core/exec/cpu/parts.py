"""Instances in parts for threads: lanes sorted so that each thread has a range of every batch to itself."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.llvm.compiled import compile_ir
from abw.core.exec.cpu.llvm.emit import Function, Module
from abw.core.exec.cpu.packing import address
from abw.core.exec.cpu.target import Target
from abw.core.graph.graph import Graph
from abw.core.ir.network import LISTED
from abw.core.plan.arenas import arenas_of
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]

APART_FLOPS = 20_000_000
"""The least arithmetic of a run that threads share: some 0.2 ms; waking one takes 0.03 ms."""
HALVES_FLOPS = 400_000_000
"""From here on there are two parts for each thread, so that one that is held up leaves more to others."""

ADDRESSES = (
    "ptr", "nodes", "instance", "operand_ptr", "operand", "list_ptr", "lists", "part", "sorted", "split",
    "crossing",
)  # fmt: skip


class Sorter:
    """Sorts the lanes of schedules, by machine code of its own."""

    def __init__(self, target: Target) -> None:
        """Compile it, or find it on disk."""
        module = Module(target)
        _emit(module)
        self._code = compile_ir(module.text(), target)
        pointers = [ctypes.c_void_p] * len(ADDRESSES)
        self._sort = ctypes.CFUNCTYPE(None, *pointers, *[ctypes.c_int64] * 4)(self._code.address("sort"))

    def sort(self, graph: Graph, schedule: Schedule, parts: int) -> Schedule | None:
        """The lanes of each batch by their instances' part; None where a part would wait for another.

        Cost: some 10 ns a node.
        """
        part = divide(np.bincount(graph.instance, minlength=graph.instances), parts)
        nodes = np.empty_like(schedule.nodes)
        split = np.zeros((len(schedule), parts + 1), np.int32)
        crossing = np.zeros(1, np.int64)
        arrays: tuple[NDArray[Any], ...] = (
            schedule.ptr, schedule.nodes, graph.instance, graph.operand_ptr, graph.operand, graph.list_ptr,
            graph.list_operand, part, nodes, split, crossing,
        )  # fmt: skip
        if len(schedule):
            width = graph.network.width
            self._sort(*map(address, arrays), len(schedule), parts, width, len(graph) * width)
        return None if crossing[0] else replace(schedule, nodes=nodes, split=split)


def divide(sizes: NDArray[np.int64], parts: int) -> Ints:
    """The part of each instance: runs of instances with about equally many nodes.

    Where the largest run is a tenth too long, as with few instances, each goes where the fewest nodes are,
    the largest first.
    """
    # an instance belongs where its middle lies
    middles = 2 * np.cumsum(sizes) - sizes
    part: Ints = np.minimum(middles * parts // max(1, 2 * int(sizes.sum())), parts - 1).astype(np.int32)
    if np.bincount(part, sizes, parts).max() * parts > 1.1 * sizes.sum():
        loads = [0] * parts
        for instance in np.argsort(-sizes, kind="stable").tolist():
            part[instance] = least = loads.index(min(loads))
            loads[least] += int(sizes[instance])
    return part


def shared_out(graph: Graph, schedule: Schedule, threads: int, target: Target) -> Schedule:
    """The lanes sorted by the thread that will compute them, where several share this graph's run."""
    if threads == 1 or graph.instances == 1:
        return schedule
    flops = int(graph.type_sizes @ arenas_of(graph.network).product_flops)
    if flops < APART_FLOPS:
        return schedule
    parts = min(graph.instances, threads * (2 if flops >= HALVES_FLOPS else 1))
    return get_sorter(target).sort(graph, schedule, parts) or schedule


@cache
def get_sorter(target: Target) -> Sorter:
    """The sorter for a target; made once."""
    return Sorter(target)


def _emit(module: Module) -> None:
    """Write `sort`: count each batch's lanes by part, put them in place, look at their operands."""
    pointers = ", ".join(f"ptr %{name}" for name in ADDRESSES)
    f = Function(module, "sort", f"{pointers}, i64 %batches, i64 %parts, i64 %width, i64 %own", public=True)

    def part_of(node: str) -> str:
        return f.int_item("%part", f.int_item("%instance", node))

    def step(place: str) -> str:
        """Add one to a number of `split`; what it was before."""
        before = f.item("i32", "%split", place)
        f.put("i32", f.let(f"add i32 {before}, 1"), "%split", place)
        return before

    def batch(b: str) -> None:
        begin, end = f.int_item("%ptr", b), f.int_item("%ptr", f.i64("add", b, 1))
        row = f.i64("mul", b, f.i64("add", "%parts", 1))
        after = f.i64("add", row, 1)

        def count(i: str) -> None:
            step(f.i64("add", after, part_of(f.int_item("%nodes", i))))

        def add_up(p: str) -> None:
            total = f.let(
                f"add i32 {f.item('i32', '%split', f.i64('add', row, p))}, "
                f"{f.item('i32', '%split', f.i64('add', after, p))}"
            )
            f.put("i32", total, "%split", f.i64("add", after, p))

        def place(i: str) -> None:
            node = f.int_item("%nodes", i)
            part = part_of(node)
            lane = f.let(f"sext i32 {step(f.i64('add', row, part))} to i64")
            f.put("i32", f.let(f"trunc i64 {node} to i32"), "%sorted", f.i64("add", begin, lane))
            first, last = f.int_item("%operand_ptr", node), f.int_item("%operand_ptr", f.i64("add", node, 1))

            def compare(reference: str) -> None:
                def differ() -> None:
                    other = part_of(f.i64("sdiv", reference, "%width"))
                    differs = f.let(f"icmp ne i64 {other}, {part}")
                    f.when(differs, lambda: f.put("i64", "1", "%crossing", 0))

                # unsigned: neither constants nor, behind the graph's own, the values of earlier runs
                f.when(f.let(f"icmp ult i64 {reference}, %own"), differ)

            def look(k: str) -> None:
                reference = f.int_item("%operand", k)

                def members() -> None:
                    number = f.i64("sub", LISTED, reference)
                    begin, end = f.int_item("%list_ptr", number), f.i64("add", number, 1)
                    f.repeat(
                        f.int_item("%list_ptr", end), lambda m: compare(f.int_item("%lists", m)), first=begin
                    )

                listed = f.let(f"icmp sle i64 {reference}, {LISTED}")
                f.when(listed, members, lambda: compare(reference))

            f.when(f.let(f"icmp slt i64 {first}, {last}"), lambda: f.repeat(last, look, first=first))

        def back(p: str) -> None:
            # placing moved each beginning to its end, which is the next one's beginning
            at = f.i64("sub", f.i64("add", row, "%parts"), p)
            f.put("i32", f.item("i32", "%split", f.i64("sub", at, 1)), "%split", at)

        f.repeat(end, count, first=begin)
        f.repeat("%parts", add_up)
        f.repeat(end, place, first=begin)
        f.repeat("%parts", back)
        f.put("i32", "0", "%split", row)

    f.repeat("%batches", batch)
    module.add(f)
