"""Every barrier of the plan's kernel is needed: without any one of them the simulation fails."""

from __future__ import annotations

import re
from dataclasses import dataclass
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
# Elements of an operand that goes through shared memory in several slabs.
WIDE = 192


def cell(wide: bool) -> Cell:
    """Two gates of a long constant, a state and a wide operand; then a product of what they gave."""
    b = CellBuilder()
    x, h = b.input((32,)), b.input((8,))
    operands = [(x, 32), (h, 8)]
    if wide:
        operands.append((b.input((WIDE,)), WIDE))
    sums = []
    for _ in range(2):
        products = [b.op("matmul", b.param((8, n)), value, shape=(8,)) for value, n in operands]
        total = products[0]
        for product in products[1:]:
            total = b.op("add", total, product, shape=(8,))
        sums.append(total)
    both = b.op("mul", *(b.op("tanh", s, shape=(8,)) for s in sums), shape=(8,))
    again = b.op("matmul", b.param((8, 8)), both, shape=(8,))
    return b.cell("two", [b.op("tanh", again, shape=(8,))])


def leaf() -> Cell:
    b = CellBuilder()
    return b.cell("leaf", [b.op("tanh", b.input((WIDE,)), shape=(WIDE,))])


@cache
def network(wide: bool) -> Network:
    table = Table("words", 9, (32,), None, None, Span("test", 1))
    rows = Table("wide", 3, (WIDE,), None, None, Span("test", 1))
    constants = [Constant("table", 0, (32,), 0, 9), Constant("zeros", 0, (8,), 9, 1)]
    slots = [Slot("x", (32,), (), (0,)), Slot("h", (8,), ((0, 0),), (1,))]
    if not wide:
        return make_network([("two", cell(wide), None, tuple(slots))], (table,), tuple(constants), [])
    constants.append(Constant("table", 1, (WIDE,), 10, 3))
    slots = [Slot("x", (32,), (), (0,)), Slot("h", (8,), ((1, 0),), (1,)), Slot("w", (WIDE,), ((0, 0),), ())]
    types: list[tuple[str, Cell | None, str | None, tuple[Slot, ...]]] = [
        ("leaf", leaf(), None, (Slot("x", (WIDE,), (), (2,)),)),
        ("two", cell(wide), None, tuple(slots)),
    ]
    return make_network(types, (table, rows), tuple(constants), [])


@dataclass(frozen=True)
class Case:
    """A form of the plan's kernel, and the lanes of batches that use all its tiles, if possible more than
    blocks."""

    name: str
    sizes: Sizes
    lanes: tuple[int, ...]

    @property
    def wide(self) -> bool:
        """Whether there is a wide operand."""
        return self.sizes.held > 0

    @property
    def forms(self) -> Forms:
        return Forms(self.sizes, self.sizes)


CASES = (
    Case("read", Sizes(threads=64, packed=8, sums=4, shared=1024, slab=16, blocks=3, held=0), (40, 3, 8, 60)),
    Case("held", Sizes(threads=64, packed=8, sums=4, shared=768, slab=16, blocks=3, held=4096), (13, 2, 5)),
)


@cache
def planned(case: Case, lanes: int) -> Plan:
    """Two batches of so many lanes; each lane of the second reads another one of the first."""
    made = network(case.wide)
    leaves = [[-11 - i % 3] for i in range(3)] if case.wide else []
    wide = [[i % 3] for i in range(lanes)] if case.wide else [[]] * lanes
    first = [[-1 - i % 9, -10, *wide[i]] for i in range(lanes)]
    second = [[-1 - i % 5, len(leaves) + (i + 1) % lanes, *wide[i]] for i in range(lanes)]
    types = [0] * len(leaves) + [int(case.wide)] * (2 * lanes)
    graph = make_graph(made, types, leaves + first + second)
    return plan(graph, Depth().schedule(graph.dag))


def run(case: Case, text: str, lanes: int, seed: int) -> set[int]:
    """Run a text's kernels; which were used. Raises for a wrong result, and what the simulation raises."""

    def mutated(_: str, forms: Forms, plan_shared: int) -> Kernels:
        return load_kernels(text, forms, plan_shared)

    made = network(case.wide)
    params = init_params(made, 0)
    device = SimulatedDevice(seed, case.forms)
    executor = CudaExecutor(device, "plan")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor_module, "load_kernels", mutated)
        executor.prepare(made, params)
    result = executor.run(planned(case, lanes))
    assert error(result, reference(planned(case, lanes).graph, params)) < 1e-5
    return set(device.used)


@cache
def lines_of(case: Case) -> list[str]:
    return device_program(network(case.wide), case.forms).text.split("\n")


def barriers(case: Case) -> list[int]:
    """The lines of the barriers in the plan's kernel and its parts; where weights are held in those parts."""
    found, function = [], ""
    for i, line in enumerate(lines_of(case)):
        if line.startswith("def "):
            function = line
        first = "staging" if case.wide else "words"
        if BARRIER.match(line) and re.match(rf"def (plan|part\d+\({first})", function):
            found.append(i)
    return found


@cache
def used(case: Case, lanes: int) -> set[int]:
    """The parts that a run with all barriers uses."""
    return run(case, "\n".join(lines_of(case)), lanes, 1)


def part_of(case: Case, line: int) -> int | None:
    """The part that a line is in; None: the kernel of the whole plan."""
    lines = lines_of(case)
    name = next(found for i in range(line, 0, -1) if (found := re.match(r"def (\w+)\(", lines[i])))[1]
    return int(name.removeprefix("part")) if name.startswith("part") else None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_all_parts_are_used_and_right_with_all_their_barriers(case: Case) -> None:
    lines = lines_of(case)
    assert set().union(*(used(case, n) for n in case.lanes)) >= {part_of(case, i) for i in barriers(case)} - {
        None
    }
    assert ("\ndef hold" in "\n".join(lines)) == case.wide
    roles = {lines[i].partition("#")[2].strip() or lines[i].strip().partition("(")[0] for i in barriers(case)}
    assert roles >= {"arrive", "await_blocks", "the tile is done", "this slab is there"}
    assert roles >= (
        {
            "the slab before is used up",
            "the last slab is used up",
            "all parts' sums are there",
            "all sums are there",
        }
        if case.wide
        else {"the slab before is used up", "the last slab is used up", "all groups' sums are there"}
    )


@pytest.mark.parametrize(
    ("case", "line"),
    [(case, line) for case in CASES for line in barriers(case)],
    ids=lambda v: getattr(v, "name", v),
)
def test_no_barrier_can_be_left_out(case: Case, line: int) -> None:
    part = part_of(case, line)
    lines = lines_of(case)
    indent = len(lines[line]) - len(lines[line].lstrip())
    text = "\n".join([*lines[:line], " " * indent + "pass", *lines[line + 1 :]])
    lanes = next(n for n in case.lanes if part is None or part in used(case, n))
    with pytest.raises((AssertionError, IndexError)):
        for seed in range(3):
            run(case, text, lanes, seed)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_any_order_of_the_threads_is_right(case: Case) -> None:
    for seed in range(2):
        run(case, "\n".join(lines_of(case)), case.lanes[0], seed)
