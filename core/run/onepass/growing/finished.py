"""Writes the steps that bind types after growth to finished instances, of which columns say what there is."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from abw.core.data.vertices import FieldColumn
from abw.core.graph.bytecode import Bytecode, program_of
from abw.core.graph.growing.model import GrowthModel
from abw.core.graph.growing.names import GivenColumn, RowColumn, ValueColumn
from abw.core.ir.formats import COMMON
from abw.core.ir.model import Model, NodeSource
from abw.core.ir.network import Network
from abw.core.ir.schema import Hop, Schema
from abw.core.run.onepass import bind as op
from abw.core.run.onepass.binding import Binding, CannotPassError, Writer


def finished_binding(growth: GrowthModel) -> tuple[Binding, dict[Hashable, int], Bytecode]:
    """The steps that bind a model's types after growth, the registers of the columns that these read, and the
    program that makes nodes. Of a type computed before there is a node, which reads nothing, on each vertex
    that has its value.

    Errors: CannotPassError.
    """
    late = growth.phases.after
    types = tuple(
        node_type if t in late else replace(node_type, reduction=None, inputs=())
        for t, node_type in enumerate(growth.model.types)
    )
    model = replace(growth.model, types=types)
    program = program_of(model, growth.network)
    writer = _Writer(model, growth.network, program, growth)
    return writer.binding(), writer.gathered, program


class _Writer(Writer):
    """Steps while they are written; `gathered`: the registers of columns."""

    def __init__(self, model: Model, network: Network, program: Bytecode, growth: GrowthModel) -> None:
        super().__init__(model, network, program, ())
        self.growing, self.late = growth.growth, growth.phases.after
        self.gathered: dict[Hashable, int] = {}
        sources = (s for t in self.late for wanted in model.types[t].inputs for s in wanted.sources)
        read = (pair for source in sources if isinstance(source, NodeSource) for pair in source.producers)
        # the types computed before that others read, each with an output that these do
        self.early = {t: output for t, output in read if t not in self.late}

    @property
    def format(self) -> str:
        return ""

    @property
    def schema(self) -> Schema:
        return self.model.schema

    @property
    def bound(self) -> tuple[int, ...]:
        return self.late

    def vertices(self, t: int) -> int:
        if t not in self.early:
            return super().vertices(t)
        mask = self._mask(self.schema.kinds)
        every, value = (
            self._once(("kinds", mask), op.SELECT, mask),
            self._gather(ValueColumn(t, self.early[t])),
        )
        return self._step(op.FILTER, every, value, op.AT_LEAST, 0)

    def _gather(self, name: Hashable) -> int:
        """The register of what a column says."""
        if name not in self.gathered:
            self.free += 1
            self.gathered[name] = self.free - 1
        return self.gathered[name]

    def _link(self, name: str) -> int:
        """The register of a link. One to several vertices is made anew, of their kinds or of another link.

        The data's own lists are known of given vertices alone. Errors: CannotPassError.
        """
        link, of = self.schema.links.get(name), self.schema.inverse_of(name)
        if link and not link.many and name != "instance":
            return self._gather(Hop(name))
        there = of or name in self.schema.derived or self.schema.members(name) or name == "instance"
        grows = of and name not in self.growing.reversed and any(of in k.links for k in self.growing.kinds)
        if not there or grows:
            raise CannotPassError(f"types after growth follow '{name}', which has no compiled stage there")
        return super()._link(name)

    def _field(self, name: str) -> int:
        return super()._field(name) if name in COMMON else self._gather(FieldColumn(name))

    def _lookup(self, table: int, name: str) -> int:
        if table < 0 and name in self.growing.fields:
            raise CannotPassError(f"types after growth read '{name}', which grows, as a number")
        if table < 0:
            return self._gather(GivenColumn(name))
        if self.schema.fields[name].text and name not in COMMON:
            return self._gather(RowColumn(table, name))
        return super()._lookup(table, name)
