"""Random cells, networks, graphs and schedules, made without the code under test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from abw.core.base.errors import Span
from abw.core.cell.normal import size_of
from abw.core.exec.agreement import compare, lost, nearer, shaken_runs
from abw.core.exec.interface import Result
from abw.core.exec.params import Params
from abw.core.exec.reference import ReferenceExecutor
from abw.core.graph.dag import build_dag
from abw.core.graph.fuse import fuse, fuse_network
from abw.core.graph.graph import Graph
from abw.core.graph.group import group_types
from abw.core.ir.cell import Cell, Op, Param, Port, Shape
from abw.core.ir.model import KEYS, QUERY, VALUES, Attention, AttentionGradient, Table
from abw.core.ir.network import Constant, NetType, Network, Slot
from abw.core.ir.operations import OPERATIONS
from abw.core.policy.launches import by_type
from abw.core.policy.schedule import Schedule

# The functions of one value of any shape; a new one is drawn as soon as it can be written.
UNARY = tuple(
    o.name
    for o in OPERATIONS.values()
    if o.kind in ("element", "row") and any((form.args, form.result) == (("any",), "any") for form in o.forms)
)
BINARY = ("lt", "le", "gt", "ge", "eq", "ne", "maximum", "minimum", "leaky_relu", "elu")
# What makes very large numbers, or none, of usual ones; and steps, on which side of which a number is that
# single precision cannot say.
UNSAFE = ("exp", "log", "sqrt", "rsqrt", "floor", "ceil", "round", "sign")

TOLERANCE = 1e-4

SHAPES: tuple[Shape, ...] = ((2,), (3,), (3,), (3,), (3, 2), (3, 3))


Value = tuple[str, int]


@dataclass
class CellBuilder:
    """Writes a cell operation by operation; values are named by ("i" | "p" | "o", number)."""

    inputs: list[Port] = field(default_factory=list)
    params: list[Param] = field(default_factory=list)
    ops: list[tuple[str, tuple[Value, ...], Shape, tuple[float, ...]]] = field(default_factory=list)

    def input(self, shape: Shape) -> Value:
        self.inputs.append(Port(f"x{len(self.inputs)}", shape))
        return "i", len(self.inputs) - 1

    def param(self, shape: Shape) -> Value:
        self.params.append(Param(f"p{len(self.params)}", shape))
        return "p", len(self.params) - 1

    def op(self, name: str, *args: Value, shape: Shape, attr: tuple[float, ...] = ()) -> Value:
        self.ops.append((name, args, shape, attr))
        return "o", len(self.ops) - 1

    def unary(self, name: str, value: Value) -> Value:
        """A function of one value, with numbers for the arguments that may be left out."""
        numbers = [self.op("constant", shape=(), attr=(x,)) for x in OPERATIONS[name].default]
        return self.op(name, value, *numbers, shape=self.shape(value))

    def shape(self, value: Value) -> Shape:
        kind, number = value
        return (
            self.ops[number][2]
            if kind == "o"
            else (self.inputs if kind == "i" else self.params)[number].shape
        )

    def cell(self, name: str, outputs: list[Value]) -> Cell:
        begin = {"i": 0, "p": len(self.inputs), "o": len(self.inputs) + len(self.params)}

        def number(value: Value) -> int:
            return begin[value[0]] + value[1]

        return Cell(
            name,
            tuple(self.inputs),
            tuple(self.params),
            tuple(Op(n, tuple(number(a) for a in args), shape, attr) for n, args, shape, attr in self.ops),
            tuple((f"y{i}", number(value)) for i, value in enumerate(outputs)),
        )


def lstm(size: int) -> Cell:
    """h, c of an LSTM over x, h, c."""
    b = CellBuilder()
    x, h, c = (b.input((size,)) for _ in range(3))
    gates = []
    for _ in range(4):
        wx = b.op("matmul", b.param((size, size)), x, shape=(size,))
        uh = b.op("matmul", b.param((size, size)), h, shape=(size,))
        total = b.op("add", b.op("add", wx, uh, shape=(size,)), b.param((size,)), shape=(size,))
        gates.append(total)
    i, f, o = (b.op("sigmoid", gate, shape=(size,)) for gate in gates[:3])
    u = b.op("tanh", gates[3], shape=(size,))
    fc, iu = b.op("mul", f, c, shape=(size,)), b.op("mul", i, u, shape=(size,))
    c1 = b.op("add", fc, iu, shape=(size,))
    return b.cell("lstm", [b.op("mul", o, b.op("tanh", c1, shape=(size,)), shape=(size,)), c1])


def gated_cell(rng: np.random.Generator, name: str) -> Cell:
    """Operations on several gates at once, shuffled now and then: batches that no layout serves all."""
    b = CellBuilder()
    shape = (3,)
    x, *others = (b.input(shape) for _ in range(rng.integers(1, 4)))
    count = int(rng.integers(3, 6))
    gates = [b.op("matmul", b.param((3, 3)), x, shape=shape) for _ in range(count)]
    kept = list(gates)
    for _ in range(rng.integers(1, 5)):
        if rng.integers(2):
            squash: str = ("tanh", "sigmoid")[rng.integers(2)]
            gates = [b.op(squash, gate, shape=shape) for gate in gates]
        else:
            partners = [kept[i] for i in rng.permutation(count)]
            for i, other in enumerate(others):
                partners[i] = other
            pairs = zip(gates, partners, strict=True)
            binary: str = ("add", "mul")[rng.integers(2)]
            gates = [b.op(binary, gate, partner, shape=shape) for gate, partner in pairs]
        if rng.integers(2):
            kept = gates
    total = gates[0]
    for gate in gates[1:]:
        total = b.op("add", total, gate, shape=shape)
    return b.cell(name, [b.op("tanh", total, shape=shape), b.op("sigmoid", gates[-1], shape=shape)])


def random_cell(rng: np.random.Generator, name: str) -> Cell:
    """1 to 3 inputs, up to 30 operations of all kinds, outputs bounded so that values stay in range."""
    if rng.integers(3) == 0:
        return gated_cell(rng, name)
    b = CellBuilder()
    # cells over one shape have more operations that batch
    mixed = rng.integers(2)
    shapes = SHAPES if mixed else ((3,),)
    values = [b.input(shapes[rng.integers(len(shapes))]) for _ in range(rng.integers(1, 4))]
    for _ in range(rng.integers(0, 10 if mixed else 25)):
        value = _random_op(rng, b, values)
        values.append(value)
    outputs = []
    for _ in range(rng.integers(1, 4)):
        value = values[rng.integers(len(values))]
        kind = rng.integers(4)
        if kind == 0 and (value[0] == "i" or b.ops[value[1]][0] in ("sigmoid", "tanh", "softmax", "slice")):
            outputs.append(value)
        elif kind == 1:
            # an output that is a parameter, or computed from parameters alone
            p = b.param(b.shape(value))
            outputs.append(p if rng.integers(2) else b.op("tanh", p, shape=b.shape(value)))
        else:
            bounded = b.op("tanh", value, shape=b.shape(value))
            outputs.append(bounded)
            if rng.integers(2):
                values.append(bounded)
    if rng.integers(2):
        values.append(_random_op(rng, b, values))
        outputs.append(b.op("sigmoid", values[-1], shape=b.shape(values[-1])))
    return b.cell(name, list(dict.fromkeys(outputs)))


def _random_op(rng: np.random.Generator, b: CellBuilder, values: list[Value]) -> Value:
    a = values[rng.integers(len(values))]
    shape = b.shape(a)
    alike = [v for v in values if b.shape(v) == shape]
    other = alike[rng.integers(len(alike))] if rng.integers(4) else b.param(shape)
    kind = rng.integers(18)
    if kind == 14:
        return b.op(BINARY[rng.integers(len(BINARY))], a, other, shape=shape)
    if kind == 15:
        return b.op("where", b.op("lt", a, other, shape=shape), other, a, shape=shape)
    if kind == 16:
        return _reduced_and_spread(rng, b, a)
    if kind == 17:
        whole = size_of(shape)
        sizes = [(n, whole // n) for n in range(1, whole + 1) if whole % n == 0] + [(whole,)]
        return _reshaped(b, a, sizes[rng.integers(len(sizes))])
    if kind <= 3:
        rows = int(rng.integers(2, 4))
        left = b.param((rows, shape[0]))
        return b.op("matmul", left, a, shape=(rows, *shape[1:]))
    if kind == 4:
        products = [
            (x, y) for x in values for y in values if len(b.shape(x)) == 2 and b.shape(x)[1] == b.shape(y)[0]
        ]
        if products:
            x, y = products[rng.integers(len(products))]
            return b.op("matmul", x, y, shape=(b.shape(x)[0], *b.shape(y)[1:]))
        return b.op("matmul", a, b.param(shape[-1:]), shape=shape[:1]) if len(shape) == 2 else a
    if kind <= 7:
        name: str = ("add", "sub", "mul")[kind - 5]
        pair = (a, other) if rng.integers(2) else (other, a)
        return b.op(name, *pair, shape=shape)
    if kind == 8:
        number = b.op("constant", shape=(), attr=(float(rng.integers(1, 4)),))
        pair = (a, number) if rng.integers(2) else (number, a)
        return b.op(("add", "sub", "mul")[rng.integers(3)], *pair, shape=shape)
    if kind == 9:
        e = b.op("exp", b.op("tanh", other, shape=shape), shape=shape)
        return b.op("div", a, e, shape=shape)
    if kind == 10:
        safe = [op for op in UNARY if op not in UNSAFE]
        return b.unary(safe[rng.integers(len(safe))], a)
    if kind == 11:
        parts = [a, *(v for v in (other, a) if rng.integers(2))]
        return b.op("concat", *parts, shape=(len(parts) * shape[0], *shape[1:]))
    if kind == 12 and shape[0] > 1:
        start = int(rng.integers(shape[0] - 1))
        stop = int(rng.integers(start + 1, shape[0] + 1))
        return b.op("slice", a, shape=(stop - start, *shape[1:]), attr=(float(start), float(stop)))
    if len(shape) == 2:
        return b.op("transpose", a, shape=shape[::-1])
    return b.op("sigmoid", a, shape=shape)


def _reshaped(b: CellBuilder, a: Value, shape: Shape) -> Value:
    return b.op("reshape", a, shape=shape, attr=(float(len(b.shape(a))), *map(float, shape)))


def _reduced_and_spread(rng: np.random.Generator, b: CellBuilder, a: Value) -> Value:
    """The sums or the largest of a vector, or of a matrix' rows or columns, taken from its elements."""
    shape = b.shape(a)
    name = ("sum", "max")[rng.integers(2)]
    if len(shape) == 1:
        inner: Shape = (1,)
        made = b.op(name, a, shape=(1,), attr=(-1.0, 1.0))
    elif rng.integers(2):
        inner = (shape[0], 1)
        made = b.op(name, a, shape=shape[:1], attr=(-1.0, 0.0))
    else:
        inner = (1, shape[1])
        made = b.op(name, a, shape=shape[1:], attr=(-2.0, 0.0))
    if rng.integers(3) == 0:
        return made
    wide = b.op("spread", made, shape=shape, attr=tuple(map(float, (*inner, *shape))))
    return b.op("sub", a, wide, shape=shape)


def make_network(
    types: Sequence[tuple[str, Cell | None, str | Attention | AttentionGradient | None, tuple[Slot, ...]]],
    tables: tuple[Table, ...],
    constants: tuple[Constant, ...],
    params: list[Param],
) -> Network:
    """A network of cells with parameters of their own and of reductions."""
    found = []
    for name, cell, reduction, slots in types:
        numbers = []
        for param in cell.params if cell else ():
            numbers.append(len(params))
            params.append(Param(f"{name}.{param.name}", param.shape, param.init))
        reduced = slots[: VALUES + 1] if isinstance(reduction, Attention) else slots
        outputs = cell.output_ports if cell else tuple(Port(s.name, s.shape) for s in reduced)
        if isinstance(reduction, Attention) and reduction.log_sums:
            outputs = (*outputs, Port("log-sums", (reduction.heads,)))
        if isinstance(reduction, AttentionGradient):
            outputs = (Port("d", slots[VALUES if reduction.of == VALUES else KEYS].shape),)
        found.append(NetType(name, cell, reduction, slots, outputs, tuple(numbers)))  # type: ignore[arg-type]
    width = 1 << (max(len(t.outputs) for t in found) - 1).bit_length()
    return Network("test", "cell", tuple(found), tuple(params), tables, constants, (), width)


def random_network(rng: np.random.Generator) -> Network:
    """1 to 3 cells and 0 to 2 reductions or attentions; slots mix producers, zeros, parameters and tables."""
    cells = [random_cell(rng, f"cell{i}") for i in range(rng.integers(1, 4))]
    outputs = [(t, o, port.shape) for t, c in enumerate(cells) for o, port in enumerate(c.output_ports)]
    reductions = []
    for r in range(rng.integers(0, 3)):
        t = len(cells) + r
        shapes = [outputs[rng.integers(len(outputs))][2] for _ in range(rng.integers(1, 3))]
        if rng.integers(3) == 0:
            keys, shapes = (int(rng.integers(1, 4)),), [(int(rng.integers(1, 4)),)]
            reductions.append([*shapes, keys, keys])
        else:
            reductions.append(shapes)
        outputs += [(t, o, shape) for o, shape in enumerate(shapes)]
    tables: list[Table] = []
    constants: list[Constant] = []
    params: list[Param] = []
    made: dict[tuple[str, Shape], int] = {}

    def constant(shape: Shape, kind: str) -> int:
        if (kind, shape) not in made:
            number, rows = 0, 1
            if kind == "table":
                number, rows = len(tables), 5
                tables.append(Table(f"t{number}", rows, shape, None, None, Span("test", 1)))
            elif kind == "param":
                number = len(params)
                params.append(Param(f"start{number}", shape))
            elif kind == "field":
                number, rows = sum(kind == "field" for kind, _ in made), 3
            made[kind, shape] = len(constants)
            first = constants[-1].first + constants[-1].rows if constants else 0
            constants.append(Constant(kind, number, shape, first, rows))  # type: ignore[arg-type]
        return made[kind, shape]

    def slot(name: str, shape: Shape) -> Slot:
        producers = tuple((t, o) for t, o, s in outputs if s == shape and rng.integers(2))
        kinds = [k for k in ("zeros", "param", "table", "field") if rng.integers(2)] or ["table"]
        return Slot(name, shape, producers, tuple(constant(shape, k) for k in kinds))

    types: list[tuple[str, Cell | None, str | Attention | None, tuple[Slot, ...]]] = [
        (cell.name, cell, None, tuple(slot(p.name, p.shape) for p in cell.inputs)) for cell in cells
    ]
    for r, shapes in enumerate(reductions):
        kind: str | Attention = ("sum", "mean", "max", "var", "std")[rng.integers(5)]
        if len(shapes) == 3:
            parts = [h for h in (1, 2, 3) if shapes[0][0] % h == 0 and shapes[1][0] % h == 0]
            how = ((True, False), (False, False), (False, True))[rng.integers(3)]
            kind = Attention(int(rng.choice(parts)), *how)
        types.append((f"reduce{r}", None, kind, tuple(slot(f"s{i}", s) for i, s in enumerate(shapes))))
    return make_network(types, tuple(tables), tuple(constants), params)


def random_graph(rng: np.random.Generator, network: Network, nodes: int) -> Graph:
    """A random graph of a network: operands come from earlier nodes (in a random order) or constants."""
    type_of = np.sort(rng.integers(len(network.types), size=nodes))
    rank = rng.permutation(nodes)
    operands: list[list[int]] = []
    for v in range(nodes):
        net_type = network.types[type_of[v]]
        links = 1 if net_type.cell else int(rng.integers(2, 5))
        found: list[int] = []
        for s in net_type.slots:
            before = [
                int(u) * network.width + o
                for t, o in s.producers
                for u in np.flatnonzero((type_of == t) & (rank < rank[v]))
            ]
            numbered = [
                -1 - (network.constants[c].first + r)
                for c in s.constants
                for r in range(network.constants[c].rows)
            ]
            for link in range(links):
                pool = before if before and rng.integers(4) else numbered
                again = link and isinstance(net_type.reduction, Attention) and s is net_type.slots[QUERY]
                found.append(found[-1] if again else int(rng.choice(pool)))
        operands.append(found)
    return make_graph(network, type_of.tolist(), operands)


def fused_graph(rng: np.random.Generator, nodes: int) -> Graph:
    """A random graph of a random network some of whose cells read lists."""
    while True:
        network = random_network(rng)
        fusion = fuse_network(network)
        if fusion.gone.any():
            return fuse(random_graph(rng, network, nodes), fusion)


def launched(rng: np.random.Generator, nodes: int) -> tuple[Graph, Schedule]:
    """A random graph, half of the time with lists, of a network that has each cell twice; a schedule of it.

    The batches of twins are launches together.
    """
    network = random_network(rng)
    twins = tuple(replace(t, name=f"{t.name}-twin") for t in network.types if t.cell)
    network = replace(network, types=(*network.types, *twins))
    graph = random_graph(rng, network, nodes)
    graph = fuse(graph, fuse_network(network)) if rng.integers(2) else graph
    grouped = replace(graph, dag=group_types(graph.network).apply(graph.dag))
    return graph, by_type(random_schedule(rng, grouped), graph.dag)


def make_graph(network: Network, type_of: list[int], operands: list[list[int]]) -> Graph:
    """A graph from each node's type (in rising order) and operands; every node its own instance."""
    nodes = len(type_of)
    source, target = [], []
    for v, found in enumerate(operands):
        for reference in found:
            if 0 <= reference < nodes * network.width:  # behind these: values of earlier graphs
                source.append(reference // network.width)
                target.append(v)
    dag = build_dag(
        tuple(t.name for t in network.types),
        np.array(type_of, np.int32),
        np.array(source, np.int32),
        np.array(target, np.int32),
    )
    ptr = np.searchsorted(np.array(type_of), np.arange(len(network.types) + 1)).astype(np.int32)
    own = np.arange(nodes, dtype=np.int32)
    lengths = [0, *(len(found) for found in operands)]
    flat = np.array([r for found in operands for r in found], np.int32)
    return Graph(
        network,
        ptr,
        own,
        own,
        (),
        nodes,
        dag,
        np.cumsum(lengths).astype(np.int32),
        flat,
        given=given_rows(network),
    )


def given_rows(network: Network) -> tuple[np.ndarray, ...]:
    """Values for all fields of a network, always the same ones."""
    fields = [network.constants[c] for c in network.given]
    shapes = [(constant.rows, *constant.shape) for constant in fields]
    return tuple(np.random.default_rng(n).normal(size=s).astype(np.float32) for n, s in enumerate(shapes))


# Zeros with either sign, and not a number by several bits.
SPECIAL = np.array([0, 1 << 31, 0x7FC00000, 0x7FC00001, 0xFFC00000, 0x7F800000, 0x3F800000], np.uint32)


def special_rows(rng: np.random.Generator, network: Network) -> tuple[np.ndarray, ...]:
    """Values for all fields of a network: few, of which some are equal as numbers and differ by bits."""
    fields = [network.constants[c] for c in network.given]
    return tuple(rng.choice(SPECIAL, (c.rows, *c.shape)).view(np.float32) for c in fields)


def random_schedule(rng: np.random.Generator, graph: Graph) -> Schedule:
    """All or some ready nodes of a random type at a time, in a random order or in that of their numbers."""
    waiting = graph.dag.indegree.copy()
    left = np.ones(len(graph), bool)
    types, batches = [], []
    while left.any():
        ready = np.flatnonzero(left & (waiting == 0))
        chosen = int(rng.choice(graph.dag.type[ready]))
        batch = ready[graph.dag.type[ready] == chosen]
        if rng.integers(2):
            batch = rng.permutation(batch)[: rng.integers(1, len(batch) + 1)]
        left[batch] = False
        for v in batch:
            waiting[graph.dag.succ[graph.dag.succ_ptr[v] : graph.dag.succ_ptr[v + 1]]] -= 1
        types.append(chosen)
        batches.append(batch)
    ptr = np.cumsum([0, *(len(batch) for batch in batches)]).astype(np.int32)
    nodes = np.concatenate([np.empty(0, np.int64), *batches]).astype(np.int32)
    assert all(a < b for a, b in pairwise(ptr))
    return Schedule(np.array(types, np.int32), ptr, nodes)


def reference(graph: Graph, params: Params) -> Result:
    executor = ReferenceExecutor()
    executor.prepare(graph.network, params)
    return executor.run_graph(graph)


def error(result: Result, expected: Result, shaken: Sequence[Result] = ()) -> float:
    return max((d.error for d in compare(result, expected, shaken=shaken)), default=0.0)


def check_values(
    found: np.ndarray, expected: Result, handles: np.ndarray, graph: Graph, params: Params
) -> None:
    """Assert that values (nodes, *shape) are the reference's, but for what single precision loses."""
    wanted = np.asarray(expected.values(handles), np.float64)
    found = np.asarray(found, np.float64)
    if not np.allclose(found, wanted, TOLERANCE, TOLERANCE, equal_nan=True):
        shaken = [np.asarray(run.values(handles), np.float64) for run in shaken_runs(graph, params)]
        found = nearer(found, wanted, lost(wanted, shaken).reshape(-1, *[1] * (found.ndim - 1)))
    np.testing.assert_allclose(found, wanted, TOLERANCE, TOLERANCE)


def check(result: Result, graph: Graph, params: Params) -> None:
    """Assert that a result is the reference's, but for what single precision loses in random cells.

    They may subtract nearly equal numbers, and compare them; a wrong operand is off by 0.1 or so.
    """
    expected = reference(graph, params)
    if error(result, expected) >= TOLERANCE:
        assert error(result, expected, shaken_runs(graph, params)) < TOLERANCE
