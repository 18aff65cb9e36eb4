"""Every barrier of the plan's kernel is needed: without any one of them the simulation fails."""

from __future__ import annotations

import re
from functools import cache

import pytest

from abw.core.base.errors import Span
from abw.core.exec.cuda import executor as executor_module
from abw.core.exec.cuda.backend import Kernels
from abw.core.exec.cuda.executor import CudaExecutor
from abw.core.exec.cuda.lowering import device_program
from abw.core.exec.cuda.text.module import load_kernels
from abw.core.exec.cuda.tiles import Forms, Sizes
from abw.core.exec.params import init_params
from abw.core.ir.cell import Cell
from abw.core.ir.model import Table
from abw.core.ir.network import Constant, Network, Slot
from abw.core.plan.plan import Plan, plan
from abw.core.policy.rules.depth import Depth
from tests.core.exec.builder import CellBuilder, error, make_graph, make_network, reference
from tests.core.exec.cuda.simulated import SimulatedDevice

pytestmark = pytest.mark.simulated

BARRIER = re.compile(r"^ *(cuda\.syncthreads\(\)|await_blocks\(.*\)|arrive\(.*\)).*")


def cell() -> Cell:
    """Two gates of a long constant and a state; then a product of what they gave."""
    b = CellBuilder()
    x, h = b.input((32,)), b.input((8,))
    sums = []
    for _ in range(2):
        products = [b.op("matmul", b.param((8, n)), value, shape=(8,)) for value, n in ((x, 32), (h, 8))]
        sums.append(b.op("add", *products, shape=(8,)))
    both = b.op("mul", *(b.op("tanh", s, shape=(8,)) for s in sums), shape=(8,))
    again = b.op("matmul", b.param((8, 8)), both, shape=(8,))
    return b.cell("two", [b.op("tanh", again, shape=(8,))])


@cache
def network() -> Network:
    table = Table("words", 9, (32,), None, None, Span("test", 1))
    constants = (Constant("table", 0, (32,), 0, 9), Constant("zeros", 0, (8,), 9, 1))
    slots = (Slot("x", (32,), (), (0,)), Slot("h", (8,), ((0, 0),), (1,)))
    return make_network([("two", cell(), None, slots)], (table,), constants, [])


# The plan's kernel, and the lanes of batches that use all its tiles, if possible more than blocks.
SIZES = Sizes(threads=64, packed=8, sums=4, shared=1024, slab=16, blocks=3)
FORMS = Forms(SIZES, SIZES)
LANES = (40, 3, 8, 60)


@cache
def planned(lanes: int) -> Plan:
    """Two batches of so many lanes; each lane of the second reads another one of the first."""
    first = [[-1 - i % 9, -10] for i in range(lanes)]
    second = [[-1 - i % 5, (i + 1) % lanes] for i in range(lanes)]
    graph = make_graph(network(), [0] * (2 * lanes), first + second)
    return plan(graph, Depth().schedule(graph.dag))


def run(text: str, lanes: int, seed: int) -> set[int]:
    """Run a text's kernels; which were used. Raises for a wrong result, and what the simulation raises."""

    def mutated(_: str, forms: Forms, plan_shared: int) -> Kernels:
        return load_kernels(text, forms, plan_shared)

    params = init_params(network(), 0)
    device = SimulatedDevice(seed, FORMS)
    executor = CudaExecutor(device, "plan")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor_module, "load_kernels", mutated)
        executor.prepare(network(), params)
    result = executor.run(planned(lanes))
    assert error(result, reference(planned(lanes).graph, params)) < 1e-5
    return set(device.used)


@cache
def lines_of() -> list[str]:
    return device_program(network(), FORMS).text.split("\n")


def barriers() -> list[int]:
    """The lines of the barriers in the plan's kernel and its parts."""
    found, function = [], ""
    for i, line in enumerate(lines_of()):
        if line.startswith("def "):
            function = line
        if BARRIER.match(line) and re.match(r"def (plan|part\d+)\(", function):
            found.append(i)
    return found


@cache
def used(lanes: int) -> set[int]:
    """The parts that a run with all barriers uses."""
    return run("\n".join(lines_of()), lanes, 1)


def part_of(line: int) -> int | None:
    """The part that a line is in; None: the kernel of the whole plan."""
    lines = lines_of()
    name = next(found for i in range(line, 0, -1) if (found := re.match(r"def (\w+)\(", lines[i])))[1]
    return int(name.removeprefix("part")) if name.startswith("part") else None


def test_all_parts_are_used_and_right_with_all_their_barriers() -> None:
    lines = lines_of()
    assert set().union(*(used(n) for n in LANES)) >= {part_of(i) for i in barriers()} - {None}
    roles = {lines[i].partition("#")[2].strip() or lines[i].strip().partition("(")[0] for i in barriers()}
    assert roles >= {
        "arrive",
        "await_blocks",
        "the phases before are over",
        "the tile is done",
        "this slab is there",
        "the slab before is used up",
        "the last slab is used up",
        "all groups' sums are there",
    }


@pytest.mark.parametrize("line", barriers())
def test_no_barrier_can_be_left_out(line: int) -> None:
    part = part_of(line)
    lines = lines_of()
    indent = len(lines[line]) - len(lines[line].lstrip())
    text = "\n".join([*lines[:line], " " * indent + "pass", *lines[line + 1 :]])
    lanes = next(n for n in LANES if part is None or part in used(n))
    with pytest.raises((AssertionError, IndexError)):
        for seed in range(3):
            run(text, lanes, seed)


def test_any_order_of_the_threads_is_right() -> None:
    for seed in range(2):
        run("\n".join(lines_of()), LANES[0], seed)
