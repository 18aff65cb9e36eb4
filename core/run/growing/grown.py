"""A mini-batch that has grown: its values, what its vertices are, and the rest made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from abw.core.data.instances import Instances, Ints
from abw.core.data.vertices import Columns, Order
from abw.core.exec.interface import Result
from abw.core.graph.graph import Graph
from abw.core.graph.growing.history.history import Ended
from abw.core.graph.growing.history.picks import Picks
from abw.core.plan.plan import Plan, plan
from abw.core.policy.schedule import Schedule


@dataclass(frozen=True, eq=False)
class Grown:
    """A mini-batch that has grown to its end.

    `columns` say all of its vertices, `order` which of them finished instances have; `result` has all values.
    `rounds`: how many there were, `driven`: why by Python, None where they are compiled. By kind, `vertices`
    that came to be, and how many instances were `cut`: they had `most` of it and wanted more, first in round
    `cut_in` (kinds, instances), 0 for never. `picks`: what a
    decision `best` picked. `batches`: how many there were; `unseen`: at how many steps a policy met a state
    that it had not seen. `rows` (A,): so many rows of each arena are taken. `pieces`: the plans that were
    executed; compiled rounds have none. `equal_nodes`: so many of the result's nodes were not executed, as
    they equal others. Outputs need no more: the rest is made when it is first asked for.
    """

    columns: Columns
    order: Order
    result: Result
    rounds: int
    driven: str | None
    vertices: dict[str, int]
    cut: dict[str, int]
    cut_in: Ints
    picks: Picks | None
    batches: int
    unseen: int
    rows: Ints
    pieces: tuple[Plan, ...]
    equal_nodes: int
    finished: Callable[[], Instances]
    whole: Callable[[], Graph]
    executed: Callable[[], tuple[Graph, Schedule]]

    @property
    def instances(self) -> Instances:
        """Its own, with what grew. Cost, the first time: some 50 us; their links and fields as asked for."""
        return self.finished()

    @property
    def ended(self) -> Ended:
        """What its history is told from."""
        return Ended(self.columns, self.order, self.instances, self.rounds, self.cut_in, self.picks)

    @property
    def constructed(self) -> Graph:
        """All nodes with their operands. Cost, the first time: finding names, and construction."""
        return self.whole()

    @property
    def graph(self) -> Graph:
        """The nodes that were executed, of equal ones one (`Graph.distinct`). Cost: as `constructed`."""
        return self._executed[0]

    @property
    def schedule(self) -> Schedule:
        """The batches as they were executed. Cost: linear in the nodes."""
        return self._executed[1]

    @cached_property
    def _executed(self) -> tuple[Graph, Schedule]:
        return self.executed()

    @cached_property
    def plan(self) -> Plan:
        """What a single plan of that is. Cost: graph, schedule, and planning them."""
        return plan(self.graph, self.schedule)
