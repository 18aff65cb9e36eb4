"""A trace cut into cells: one for each call, one for each row of K, and reductions over K between them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from abw.core.ir.cell import Cell, Op, Param, Port, Shape
from abw.torch.tracing.symbols import CannotTrace
from abw.torch.tracing.trace import FIRST, REDUCE, Trace, Traced


@dataclass(frozen=True, slots=True)
class Stage:
    """A cell that is called once, or (`row`) for each row.

    `reads` and `gives` are the trace's numbers of its inputs and outputs, `params` the leaves of its
    parameters.
    """

    row: bool
    cell: Cell
    reads: tuple[int, ...]
    gives: tuple[int, ...]
    params: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reduction:
    """The sum, mean or largest (`how`) of the rows `sources[0]` becomes the value `target`.

    "attend N": attention of N heads; sources are values, keys and the query, one or (`row`) a query a row.
    """

    how: str
    sources: tuple[int, ...]
    target: int
    row: bool


Step = Stage | Reduction


def stages(trace: Trace, outputs: list[Traced]) -> list[Step]:
    """The steps that compute these outputs, in order. Errors: CannotTrace.

    Operations are divided by the number of reductions before them, as late as possible, into those of each
    row and those of each call. Constants, and what is computed from parameters alone, are in every cell that
    reads them.
    """
    return _Cut(trace, [trace.value(output).number for output in outputs]).steps()


class _Cut:
    """The operations that are needed, and where each is computed: (phase, whether it is of a row)."""

    def __init__(self, trace: Trace, wanted: list[int]) -> None:
        self.leaves, self.ops, self.wanted = trace.leaves, trace.builder.ops, wanted
        self.free, needed = trace.free(), set(wanted)
        for v in range(FIRST + len(self.ops) - 1, FIRST - 1, -1):
            if v in needed:
                needed.update(self.ops[v - FIRST].args)
        self.live = [v for v in range(FIRST, FIRST + len(self.ops)) if v in needed]
        self.users: dict[int, list[int]] = {}
        for v in self.live:
            for a in self._op(v).args:
                self.users.setdefault(a, []).append(v)
        self._place()

    def _op(self, v: int) -> Op:
        return self.ops[v - FIRST]

    def _reduces(self, v: int) -> bool:
        return v >= FIRST and self._op(v).name.startswith(REDUCE)

    def _place(self) -> None:
        row = {n: leaf.kind == "row" for n, leaf in enumerate(self.leaves)}
        earliest = dict.fromkeys(range(len(self.leaves)), 0)
        for v in self.live:
            args = self._op(v).args
            if self._reduces(v):
                row[v] = len(args) > 1 and row[args[-1]]
                earliest[v] = max(earliest[a] for a in args) + 1
                continue
            row[v] = any(row[a] for a in args)
            earliest[v] = max((earliest[a] for a in args), default=0)
        self.last = max([earliest[v] for v in self.live], default=0)
        latest: dict[int, int] = {}
        for v in reversed(self.live):
            limits = [self.last] if v in self.wanted else []
            limits += [latest[u] - 1 if self._reduces(u) else latest[u] for u in self.users.get(v, ())]
            late = min(limits, default=earliest[v])
            latest[v] = earliest[v] if self._reduces(v) else max(earliest[v], late)
        self.place = {
            v: (latest[v], int(row[v])) for v in self.live if v not in self.free and not self._reduces(v)
        }
        self.earliest, self.row = earliest, row

    def steps(self) -> list[Step]:
        found: list[Step] = []
        done: set[int] = set()
        for at in sorted({*self.place.values(), *((phase, 0) for phase in range(self.last + 1))}):
            if at[1] == 0:
                for v in self.live:
                    if self._reduces(v) and self.earliest[v] == at[0] and v not in done:
                        done.add(v)
                        op = self._op(v)
                        if not all(self.row[a] for a in op.args[:2]):
                            raise CannotTrace("a reduction of rows that are all the same")
                        found.append(Reduction(op.name.removeprefix(REDUCE), op.args, v, self.row[v]))
            mine = [v for v in self.live if self.place.get(v) == at]
            if mine:
                found.append(self._stage(mine, at))
        if any(v >= FIRST and v in self.free for v in self.wanted):
            raise CannotTrace("what is returned is computed from parameters alone")
        return found

    def _stage(self, mine: list[int], at: tuple[int, int]) -> Stage:
        inside, seen = set(mine), set[int]()
        order: list[int] = []

        def take(v: int) -> None:
            if v not in seen:
                seen.add(v)
                if v >= FIRST and (v in inside or v in self.free):
                    for a in self._op(v).args:
                        take(a)
                    order.append(v)

        for v in mine:
            take(v)
        made = set(order)
        read = dict.fromkeys(a for v in order for a in self._op(v).args if a not in made)
        params = [a for a in read if a < FIRST and self.leaves[a].kind == "param"]
        reads = sorted(a for a in read if a not in set(params))
        own = set(mine)
        gives = [v for v in dict.fromkeys(self.wanted) if v in own]  # first, and in the order of the result
        gives += [
            v for v in mine if v not in gives and any(self.place.get(u) != at for u in self.users.get(v, ()))
        ]
        return Stage(
            bool(at[1]), self._cell(order, reads, params, gives), tuple(reads), tuple(gives), tuple(params)
        )

    def _shape(self, v: int) -> Shape:
        return self.leaves[v].shape if v < FIRST else self._op(v).shape

    def _cell(self, order: list[int], reads: list[int], params: list[int], gives: list[int]) -> Cell:
        """Between cells all values are vectors: matrices are reshaped on the way in and out."""
        number = {v: n for n, v in enumerate([*reads, *params])}
        ops: list[Op] = []

        def add(op: Op) -> int:
            ops.append(op)
            return len(reads) + len(params) + len(ops) - 1

        for v in reads:
            shape = self._shape(v)
            if len(shape) == 2:
                number[v] = add(Op("reshape", (number[v],), shape, (1.0, *map(float, shape))))
        for v in order:
            op = self._op(v)
            number[v] = add(replace(op, args=tuple(number[a] for a in op.args)))
        outputs = []
        for o, v in enumerate(gives):
            shape, n = self._shape(v), number[v]
            if len(shape) == 2:
                n = add(Op("reshape", (n,), (math.prod(shape),), (2.0, float(math.prod(shape)))))
            outputs.append((f"y{o}", n))
        ports = tuple(Port(f"x{n}", (math.prod(self._shape(v)),)) for n, v in enumerate(reads))
        own = tuple(Param(f"p{n}", self._shape(v)) for n, v in enumerate(params))
        return Cell("cell", ports, own, tuple(ops), tuple(outputs))
