"""Every barrier of the generated kernels is needed: without any one of them the simulation fails."""

from __future__ import annotations

import re
from functools import cache

import pytest

from abw.core.errors import Span
from abw.core.exec.cuda import executor as executor_module
from abw.core.exec.cuda.backend import Kernels
from abw.core.exec.cuda.executor import CudaExecutor
from abw.core.exec.cuda.module import load_kernels
from abw.core.exec.cuda.program import device_program
from abw.core.exec.cuda.tiles import Forms, Sizes
from abw.core.exec.params import init_params
from abw.core.graph.network import Constant, Network, Slot
from abw.core.plan.plan import Plan, plan
from abw.core.policy.depth import Depth
from abw.core.spec.cell import Cell
from abw.core.spec.model import Table
from tests.core.exec.builder import CellBuilder, error, make_graph, make_network, reference
from tests.core.exec.cuda.simulated import SimulatedDevice

SIZES = Sizes(threads=64, packed=8, sums=4, shared=1024, slab=16, blocks=6)
FORMS = Forms(SIZES, SIZES)
BARRIER = re.compile(r"^ *(cuda\.syncthreads\(\)|grid_barrier\()")


def cell() -> Cell:
    """Two gates of a long constant and of a state; then a product of what they gave."""
    b = CellBuilder()
    x, h = b.input((32,)), b.input((8,))
    sums = [
        b.op(
            "add",
            b.op("matmul", b.param((8, 32)), x, shape=(8,)),
            b.op("matmul", b.param((8, 8)), h, shape=(8,)),
            shape=(8,),
        )
        for _ in range(2)
    ]
    both = b.op("mul", *(b.op("tanh", s, shape=(8,)) for s in sums), shape=(8,))
    again = b.op("matmul", b.param((8, 8)), both, shape=(8,))
    return b.cell("two", [b.op("tanh", again, shape=(8,))])


@cache
def network() -> Network:
    slots = (Slot("x", (32,), (), (0,)), Slot("h", (8,), ((0, 0),), (1,)))
    constants = (Constant("table", 0, (32,), 0, 9), Constant("zeros", 0, (8,), 9, 1))
    table = Table("words", 9, (32,), None, None, Span("test", 1))
    return make_network([("two", cell(), None, slots)], (table,), constants, [])


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
    device = SimulatedDevice(seed, FORMS, blocks=2)
    executor = CudaExecutor(device, "plan")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor_module, "load_kernels", mutated)
        executor.prepare(network(), params)
    result = executor.run(planned(lanes))
    assert error(result, reference(planned(lanes).graph, params)) < 1e-5
    return set(device.used)


LANES = (40, 12, 20, 100)
"""Of a batch: so that every kernel is used, and if possible for more tiles than there are blocks."""
TEXT = device_program(network(), FORMS).text
LINES = TEXT.split("\n")
PLAN = next(i for i, line in enumerate(LINES) if line.startswith("def part"))
BARRIERS = [i for i, line in enumerate(LINES) if BARRIER.match(line) and i > PLAN]
"""Those of the plan's kernel; the kernels for one item have the same text."""


@cache
def used(lanes: int) -> set[int]:
    """The kernels that a run with all barriers uses."""
    return run(TEXT, lanes, 1)


def kernel_of(line: int) -> int | None:
    """The part that a line is in; None: the kernel of the whole plan."""
    name = next(found for i in range(line, 0, -1) if (found := re.match(r"def (\w+)\(", LINES[i])))[1]
    return int(name.removeprefix("part")) if name.startswith("part") else None


def test_all_kernels_are_used_and_right_with_all_their_barriers() -> None:
    assert set().union(*(used(lanes) for lanes in LANES)) == set(range(TEXT.count("\ndef part")))
    roles = {LINES[i].partition("#")[2] for i in BARRIERS}
    assert len(roles) == 6


@pytest.mark.parametrize("line", BARRIERS)
def test_no_barrier_can_be_left_out(line: int) -> None:
    kernel = kernel_of(line)
    indent = len(LINES[line]) - len(LINES[line].lstrip())
    text = "\n".join([*LINES[:line], " " * indent + "pass", *LINES[line + 1 :]])
    lanes = next(n for n in LANES if kernel is None or kernel in used(n))
    with pytest.raises((AssertionError, IndexError)):
        for seed in range(3):
            run(text, lanes, seed)


def test_the_simulation_finds_the_plan_right_in_any_order() -> None:
    for seed in range(3):
        run(TEXT, LANES[0], seed)
